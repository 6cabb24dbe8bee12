#!/usr/bin/env python3
"""Makes the golden files anew. Do this only when the format changes; what is committed must stay readable.

    python make_golden.py --binary build/release/apps/skerry/skerry

For each pair of golden_models.py: `NAME/base/`, and `NAME/patch.skerry` by the binary; for some also
`NAME/foreign.skerry` by the encoder in tests/reference, which writes what the format allows and the binary never does.
`must_fail/` holds patches for `A1_nan_payloads` that every reader of version 1 refuses. `expected.json` holds the
SHA-256 of each file of each target, and the numbers that section info must show, counted without the binary's help.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import golden_files
import golden_models
from golden_files import HERE

import craft
import skerry_reference as reference
from reference_checkpoint import model_digest, read_checkpoint

# How the second encoder does it: cells in a block, tensors whose blocks are dense.
FOREIGN = {
    "every_dtype": (64, {"layer.f64", "layer.f4"}),
    "A8_gaps_around_two_to_the_16": (2, set()),
    "A19_empty_and_scalar_tensors": (1, set()),
    "C5_other_shards": (1, {"layer.3.weight"}),
    "every_step_size": (1, set()),
    "several_blocks": (1, {"sparse"}),
    "more_than_64_cells": (64, set()),
    "side_files": (1, set()),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True)
    binary = parser.parse_args().binary.resolve()

    expected = {}
    for make in golden_models.NON_STRUCTURAL + golden_models.STRUCTURAL:
        structural = make in golden_models.STRUCTURAL
        expected[make.__name__] = make_case(make, structural, binary)
    make_must_fail()
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")


def make_case(make, structural: bool, binary: Path) -> dict:
    name = make.__name__
    old, new = make()
    shutil.rmtree(HERE / name, ignore_errors=True)
    golden_files.store(HERE / name / "base", old)
    with tempfile.TemporaryDirectory() as temporary:
        base, target = Path(temporary) / "base", Path(temporary) / "target"
        for directory, files in ((base, old), (target, new)):
            for path, content in files.items():
                (directory / path).parent.mkdir(parents=True, exist_ok=True)
                (directory / path).write_bytes(content)
        command = [binary, "diff", base, target, "-o", HERE / name / "patch.skerry"]
        subprocess.run(command + ["--structural"] * structural, check=True, stdout=subprocess.DEVNULL)
        before, after = read_checkpoint(base), read_checkpoint(target)
    if name in FOREIGN:
        cells, dense = FOREIGN[name]
        foreign = craft.encode_patch(before, after, cells, dense, names=False)
        (HERE / name / "foreign.skerry").write_bytes(foreign.assemble())
    return {"files": golden_files.hashes(new), "info": info_of(before, after)}


def info_of(before, after) -> dict:
    old_of = {tensor.type(): data for tensor, data in zip(before.layout.tensors, before.tensors)}
    changes, structural = 0, before.layout.tensors_digest() != after.layout.tensors_digest()
    for tensor, new in zip(after.layout.tensors, after.tensors):
        old = old_of.get(tensor.type())
        changes += tensor.units if old is None else len(craft.differing(old, new, tensor.dtype.unit))
    return {
        "base_model": model_digest(before.layout, before.tensors).hex(),
        "target_model": model_digest(after.layout, after.tensors).hex(),
        "base_layout": before.layout.digest().hex(),
        "target_layout": after.layout.digest().hex(),
        "base_tensors": before.layout.tensors_digest().hex(),
        "units": after.layout.units,
        "changes": changes,
        "structural": structural,
    }


def make_must_fail() -> None:
    patch = (HERE / "A1_nan_payloads" / "patch.skerry").read_bytes()
    folder = HERE / "must_fail"
    folder.mkdir(exist_ok=True)
    for bit in (1, 7, 63):
        parts = craft.take_apart(patch)
        parts.features |= 1 << bit
        (folder / f"feature_bit_{bit}.skerry").write_bytes(parts.assemble())
    for version in (0, 2, 4711):
        parts = craft.take_apart(patch)
        parts.version = version
        (folder / f"version_{version}.skerry").write_bytes(parts.assemble())
    reference.read_patch(patch)


if __name__ == "__main__":
    sys.exit(main())
