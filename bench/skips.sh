#!/usr/bin/env bash
# What skips and anchors weigh: publishes the versions of a chain (directories v000, v001 …) on a board in a temporary
# folder and prints each skip as a share of the deltas that it stands for, and each anchor as a share of the tensors' bytes.
#
#   bench/skips.sh SKERRY CHAIN
set -euo pipefail
skerry=${1:?usage: bench/skips.sh SKERRY CHAIN} chain=${2:?usage: bench/skips.sh SKERRY CHAIN}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
versions=("$chain"/v*)
"$skerry" init "$place/b" --run r --base "${versions[0]}" --no-progress > /dev/null
for version in "${versions[@]:1}"; do
  "$skerry" publish "$place/b" "$version" --run r --state "$place/s" --json > /dev/null
done
python3 - "$place/b/runs/r" <<'PYTHON'
import json, sys
from pathlib import Path

run = Path(sys.argv[1])
head = json.loads((run / "head").read_bytes())
size = lambda edge: sum(part["size"] for part in edge["objects"])
deltas, anchors = {}, {}
for version in range(1, head["version"] + 1):
    alias = run / "versions" / f"{version:09d}" / "manifest.json"
    path = alias if version < head["version"] else run.parents[1] / head["manifest"]["key"]
    manifest = json.loads(path.read_bytes())
    anchors |= {anchor["version"]: anchor["bytes"] for anchor in manifest["anchors"]}
    deltas[version] = next(size(edge) for edge in manifest["edges"] if edge["kind"] == "delta")
    for edge in manifest["edges"]:
        if edge["kind"] == "skip":
            whole = sum(deltas[v] for v in range(edge["from"] + 1, version + 1))
            print(f"skip {edge['from']} -> {version}: {size(edge)} bytes, {size(edge) / whole:.3f} of its deltas' {whole}")
for version, bytes in sorted(anchors.items()):
    print(f"anchor {version}: {bytes} bytes, {bytes / manifest['stats']['checkpoint_bytes']:.4f} of the tensors'")
PYTHON
