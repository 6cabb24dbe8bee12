"""A board as files: reads it by docs/board-protocol.md, without the product's help."""

import json
from pathlib import Path

from checkpoint_files import sha256_of


def head_path(board, run):
    return Path(board) / "runs" / run / "head"


def head_of(board, run):
    return json.loads(head_path(board, run).read_bytes())


def version_dir(board, run, version):
    return Path(board) / "runs" / run / "versions" / f"{version:09d}"


def _check_object(board, reference, what):
    path = Path(board) / reference["key"] if "key" in reference else Path(reference["uri"].removeprefix("file://"))
    assert path.is_file(), f"{what} names {path}, which is not there"
    assert path.stat().st_size == reference["size"], f"{what}: {path} has {path.stat().st_size} bytes"
    assert sha256_of(path) == reference["sha256"], f"{what}: {path} has other bytes"
    return path


def anchor_document(board, reference):
    return json.loads((Path(board) / reference["object"]["key"]).read_bytes())


def anchor_objects(board, reference):
    """References to all that an anchor's document names."""
    document = anchor_document(board, reference)
    return [file["object"] for file in document["files"]] + document.get("objects", [])


def _check_anchor(board, run, reference, model):
    """An anchor's document and everything that it names."""
    what = f"the anchor {reference['object']['key']}"
    _check_object(board, reference["object"], what)
    document = anchor_document(board, reference)
    assert (document["run"], document["version"], document["model"]) == (run, reference["version"], model), what
    for part in anchor_objects(board, reference):
        _check_object(board, part, what)
    size = sum(part["size"] for part in anchor_objects(board, reference))
    assert reference["bytes"] == size, f"{what} has {size} bytes, its manifest says {reference['bytes']}"


def _check_edge(board, edge, version, what):
    assert edge["kind"] == ("delta" if edge["from"] == version - 1 else "skip") and edge["from"] < version, what
    taken = set()
    for part in edge["objects"]:
        _check_object(board, part, what)
        for tensors in part.get("tensors", []):
            ordinals = set(range(tensors["first"], tensors["first"] + tensors["count"]))
            assert ordinals and not ordinals & taken, f"{what}: two parts from version {edge['from']} have a tensor"
            taken |= ordinals


def walk(board, run, collected=False):
    """Follows the head through all manifests to version 0 and checks every object that they and their anchors name by
    size and SHA-256. With `collected` old versions may be gone, if an anchor of one that is there is left.
    Returns the manifests, newest first."""
    head = head_of(board, run)
    assert head["run"] == run
    manifests = []
    path, sha256 = Path(board) / head["manifest"]["key"], head["manifest"]["sha256"]
    for version in range(head["version"], -1, -1):
        if collected and manifests and not path.is_file():
            break
        assert path.is_file(), f"the manifest {path} of version {version} is not there"
        assert sha256_of(path) == sha256, f"{path} is not what names it says"
        manifest = json.loads(path.read_bytes())
        assert (manifest["run"], manifest["version"]) == (run, version)
        what = f"the manifest of version {version}"
        _check_object(board, manifest["tensor_digests"], what)
        for edge in manifest["edges"]:
            _check_edge(board, edge, version, what)
        layout = Path(board) / "runs" / run / "layouts" / f"{manifest['layout']}.json.zst"
        assert layout.is_file(), f"{what} names {layout}, which is not there"
        manifests.append(manifest)
        path, sha256 = version_dir(board, run, version - 1) / "manifest.json", manifest.get("parent")
    _check_anchors(board, run, manifests)
    models = {manifest["version"]: manifest["model"] for manifest in manifests}
    for edge in (edge for manifest in manifests for edge in manifest["edges"]):
        assert models.get(edge["from"], edge["base_model"]) == edge["base_model"]
    assert head["model"] == manifests[0]["model"]
    return manifests


def _check_anchors(board, run, manifests):
    """Anchors of the versions that are there; those of versions that are gone may be gone too."""
    models = {manifest["version"]: manifest["model"] for manifest in manifests}
    checked = set()
    for manifest in manifests:
        versions = [anchor["version"] for anchor in manifest["anchors"]]
        assert versions == sorted(set(versions), reverse=True) and all(v <= manifest["version"] for v in versions)
        for anchor in manifest["anchors"]:
            if anchor["version"] in models and anchor["object"]["key"] not in checked:
                _check_anchor(board, run, anchor, models[anchor["version"]])
                checked.add(anchor["object"]["key"])
    oldest = manifests[-1]
    assert checked or oldest.get("fork"), "no anchor leads to the head"
    assert ("parent" in oldest) == (oldest["version"] > 0)


def nameless_objects(board, run, collected=False):
    """Keys of what lies below a run's versions and anchors, although none of its versions that are there needs it."""
    manifests = walk(board, run, collected)
    versions = {manifest["version"] for manifest in manifests}
    sha256 = head_of(board, run)["manifest"]["sha256"]
    named = set()
    for manifest in manifests:
        folder = f"runs/{run}/versions/{manifest['version']:09d}"
        named |= {f"{folder}/manifest.json", f"{folder}/manifest-{sha256[:16]}.json", manifest["tensor_digests"]["key"]}
        named |= {reference["key"] for edge in manifest["edges"] for reference in edge["objects"]}
        for anchor in manifest["anchors"]:
            if anchor["version"] in versions:
                named |= {anchor["object"]["key"]} | {part["key"] for part in anchor_objects(board, anchor)}
        sha256 = manifest.get("parent")
    root = Path(board) / "runs" / run
    there = [path for kind in ("versions", "anchors") for path in (root / kind).rglob("*") if path.is_file()]
    return sorted({str(path.relative_to(board)) for path in there} - named)


def immutable_objects(board):
    """Everything but heads, locks and temporary files: {key: SHA-256}. None of it may change or vanish."""
    board = Path(board)
    return {
        str(path.relative_to(board)): sha256_of(path)
        for path in board.rglob("*")
        if path.is_file() and path.name != "head" and not path.name.startswith(".")
    }


def assert_nothing_lost(before, board):
    after = immutable_objects(board)
    lost = {key for key, sha256 in before.items() if after.get(key) != sha256}
    assert not lost, f"lost or changed on the board: {sorted(lost)}"
