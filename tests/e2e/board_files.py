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
    return str(path)


def walk(board, run):
    """Follows the head through all manifests to version 0 and checks every object that they name by size and SHA-256.
    Returns the manifests, newest first."""
    head = head_of(board, run)
    assert head["run"] == run
    manifests = []
    path, sha256 = Path(board) / head["manifest"]["key"], head["manifest"]["sha256"]
    for version in range(head["version"], -1, -1):
        assert path.is_file(), f"the manifest {path} of version {version} is not there"
        assert sha256_of(path) == sha256, f"{path} is not what names it says"
        manifest = json.loads(path.read_bytes())
        assert (manifest["run"], manifest["version"]) == (run, version)
        what = f"the manifest of version {version}"
        _check_object(board, manifest["tensor_digests"], what)
        for edge in manifest["edges"]:
            for reference in edge["objects"]:
                _check_object(board, reference, what)
        for file in manifest.get("anchor", {"files": []})["files"]:
            _check_object(board, file["object"], what)
        layout = Path(board) / "runs" / run / "layouts" / f"{manifest['layout']}.json.zst"
        assert layout.is_file(), f"{what} names {layout}, which is not there"
        manifests.append(manifest)
        path, sha256 = version_dir(board, run, version - 1) / "manifest.json", manifest.get("parent")
    assert manifests[-1]["version"] == 0 and "parent" not in manifests[-1]
    assert head["model"] == manifests[0]["model"]
    return manifests


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
