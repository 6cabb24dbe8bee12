"""Retention on a directory board: what gc removes, what it keeps for whom, forks, leases."""

import json
import os
import time

import pytest

import board_files
import small_model
from checkpoint_files import assert_same_files, sha256_of
from program import CONFLICT, CORRUPT, FAILED, skerry

# Versions of the model so far apart that the patches between a few of them make an anchor due.
FAR = 40


@pytest.fixture(scope="module")
def far(tmp_path_factory):
    directory = tmp_path_factory.mktemp("far")
    return {n: small_model.write(directory / f"v{n}", n * FAR) for n in range(1, 4)}


@pytest.fixture
def gc(board):
    def run(*more, **how):
        return skerry("gc", board, "--json", *more, **how)

    return run


def now_ms():
    return time.time_ns() // 1_000_000


def objects(board, run="r"):
    """Keys of all objects of a run, without what gc itself writes."""
    root = board / "runs" / run
    return {
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() and not path.name.startswith(".") and path.name != "gc.json"
    }


def versions_there(board, run="r"):
    return sorted(int(path.name) for path in (board / "runs" / run / "versions").iterdir())


def write_lease(board, reader, first, last, expires, run="r"):
    lease = {
        "format": 1, "run": run, "reader": reader, "needs_from": first, "needs_to": last, "expires": expires, "time": "",
    }  # fmt: skip
    path = board / "runs" / run / "leases" / f"{reader}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(lease, sort_keys=True, separators=(",", ":")))
    return path


def assert_readable(board, run="r"):
    """From the head back as far as manifests are there: each is what names it, with all its objects; and one of them
    has an anchor, complete, that the head's manifest names."""
    head = board_files.head_of(board, run)
    newest = json.loads((board / head["manifest"]["key"]).read_bytes())
    anchors = {anchor["version"]: anchor for anchor in newest["anchors"]}
    path, sha256, version = board / head["manifest"]["key"], head["manifest"]["sha256"], head["version"]
    while path.is_file():
        assert sha256_of(path) == sha256
        manifest = json.loads(path.read_bytes())
        parts = [part for edge in manifest["edges"] for part in edge["objects"]]
        if version in anchors:
            parts.append(anchors[version]["object"])
            document = json.loads((board / anchors[version]["object"]["key"]).read_bytes())
            parts += document.get("objects", []) + [file["object"] for file in document["files"]]
        for part in [manifest["tensor_digests"], *parts]:
            assert sha256_of(board / part["key"]) == part["sha256"]
        if version in anchors:
            return
        version, sha256 = version - 1, manifest["parent"]
        path = board_files.version_dir(board, run, version) / "manifest.json"
    raise AssertionError(f"no anchor leads to version {head['version']}")


@pytest.fixture
def long_board(board, ckpt, far, publish):
    """Versions 0 … 10 of run r. By version 8 the patches since the base are worth an anchor, which 9 and 10 name."""
    for checkpoint in (ckpt[1], ckpt[2], far[1], ckpt[1], ckpt[2], far[2], ckpt[3], far[3], ckpt[1], ckpt[3]):
        publish(checkpoint)
    return board


def test_D9_what_stays_is_an_anchor_and_an_unbroken_tail_and_a_joiner_works(long_board, ckpt, gc, pull, tmp_path):
    before = objects(long_board)
    first = gc("--keep", 2, "--grace", 0).json["runs"][0]
    assert first["removed"] > 0 and first["condemned"] == 0 and first["problem"] == ""
    assert first["removed_bytes"] == sum(key["bytes"] for key in first["keys"])
    assert len(before - objects(long_board)) == first["removed"] == len(first["keys"])
    assert {"runs/r/" + key for key in before - objects(long_board)} == {key["key"] for key in first["keys"]}
    kept = versions_there(long_board)
    assert kept == [8, 9, 10]
    assert [anchor["version"] for anchor in first["kept_anchors"]] == [8]
    assert_readable(long_board)
    pull()
    assert_same_files(tmp_path / "island", ckpt[3])
    again = gc("--keep", 2, "--grace", 0).json["runs"][0]
    assert again["keys"] == [] and again["kept_bytes"] == first["kept_bytes"]


def test_D9_a_chain_is_not_broken_for_the_sake_of_a_small_number(board, ckpt, publish, gc):
    for n in (1, 2, 3):
        publish(ckpt[n])
    before = objects(board)
    run = gc("--keep", 1, "--grace", 0).json["runs"][0]
    assert run["keys"] == [] and objects(board) == before
    assert run["kept_versions"] == [
        {"first": 0, "last": 2, "why": "on the way to version 3"},
        {"first": 3, "last": 3, "why": "the head"},
    ]


def test_the_publisher_and_an_island_that_was_left_behind_go_on_after_gc(long_board, ckpt, gc, publish, pull, tmp_path):
    pull("behind", "--version", 1)
    gc("--keep", 1, "--grace", 0)
    pull("behind")
    assert_same_files(tmp_path / "behind", ckpt[3])
    assert publish(ckpt[1]).json["version"] == 11
    pull("behind")
    assert_same_files(tmp_path / "behind", ckpt[1])
    assert skerry("log", long_board, "--run", "r", "--json").json["versions"][0]["version"] == 11


def test_gc_condemns_first_and_removes_in_a_later_call(long_board, gc):
    before = objects(long_board)
    first = gc("--keep", 1).json["runs"][0]
    assert first["condemned"] > 0 and first["removed"] == 0
    assert objects(long_board) == before
    mark = json.loads((long_board / "runs" / "r" / "gc.json").read_bytes())
    assert {entry["key"] for entry in mark["condemned"]} == {key["key"] for key in first["keys"]}
    assert gc("--keep", 1).json["runs"][0]["removed"] == 0, "the grace is an hour"
    assert gc("--keep", 1, "--grace", 0).json["runs"][0]["removed"] == first["condemned"]


def test_a_dry_run_explains_each_object_and_changes_nothing(long_board, gc):
    before = board_files.immutable_objects(long_board)
    run = gc("--keep", 1, "--grace", 0, "--dry-run").json["runs"][0]
    assert board_files.immutable_objects(long_board) == before
    assert {key["state"] for key in run["keys"]} == {"would remove"} and all(key["why"] for key in run["keys"])
    text = skerry("gc", long_board, "--keep", 1, "--dry-run").out
    for key in run["keys"]:
        assert f"would condemn {key['key']}" in text
    assert "version 0 is not among the last 1" in text and "version 10: the head" in text


def test_D1_a_live_lease_keeps_what_a_slow_reader_needs(long_board, ckpt, gc, pull, tmp_path):
    lease = write_lease(long_board, "slow", 1, 2, now_ms() + 600_000)
    gc("--keep", 1, "--grace", 0)
    assert versions_there(long_board) == [0, 1, 2, 8, 9, 10]
    pull("slow", "--version", 2)
    assert_same_files(tmp_path / "slow", ckpt[2])
    write_lease(long_board, "slow", 1, 2, now_ms() - 1)
    run = gc("--keep", 1, "--grace", 0).json["runs"][0]
    assert run["expired_leases"] == ["runs/r/leases/slow.json"] and not lease.exists()
    assert 0 not in versions_there(long_board)


def test_D1_a_version_that_was_removed_is_said_to_be_gone_and_the_head_can_be_had(long_board, gc, pull):
    gc("--keep", 1, "--grace", 0)
    ran = pull("x", "--version", 1, "--wait", 0, expect=None)
    assert ran.code != 0 and "1" in ran.json["error"]["message"]
    pull("x")


def test_D3_leftovers_of_killed_publishes_go_once_their_number_is_taken(board, ckpt, publish, gc):
    publish(ckpt[1])
    assert publish(ckpt[2], failpoints="publish.manifest_stored:kill", expect=None).killed
    gc("--grace", 0)
    left = {key for key in objects(board) if key.startswith("versions/000000002/")}
    assert left, "a publisher may still be at work on version 2"
    publish(ckpt[3])
    run = gc("--grace", 0).json["runs"][0]
    assert run["removed"] > 0
    assert {key["key"].removeprefix("runs/r/") for key in run["keys"]} <= left
    board_files.assert_nothing_lost({}, board)
    assert_readable(board)


def test_a_fork_goes_back_to_an_older_version_and_keeps_it_from_gc(long_board, ckpt, gc, publish, pull, tmp_path):
    fork = ["fork", long_board, "--run", "again", "--from", "r", "--version", 2, "--json"]
    made = skerry(*fork).json
    assert (made["created"], made["from_run"], made["from_version"]) == (True, "r", 2)
    assert skerry(*fork).json["created"] is False
    manifest = json.loads((long_board / board_files.head_of(long_board, "again")["manifest"]["key"]).read_bytes())
    assert manifest["fork"]["manifest"] == sha256_of(board_files.version_dir(long_board, "r", 2) / "manifest.json")
    gc("--keep", 1, "--grace", 0)
    assert versions_there(long_board) == [0, 1, 2, 8, 9, 10]
    pull("joiner", run="again")
    assert_same_files(tmp_path / "joiner", ckpt[2])
    publish(ckpt[3], run="again", state="other")
    pull("joiner", run="again")
    assert_same_files(tmp_path / "joiner", ckpt[3])
    assert board_files.head_of(long_board, "r")["version"] == 10
    assert skerry("fork", long_board, "--run", "r", "--from", "again", expect=CONFLICT).err.count("\n") == 1
    assert "99" in skerry("fork", long_board, "--run", "x", "--from", "r", "--version", 99, expect=FAILED).err


def test_E13_a_thousand_and_one_leftovers_are_all_seen(board, gc):
    for n in range(1001):
        name = f"delta-{n:03}-0123456789abcdef.skerry"
        (board_files.version_dir(board, "r", 0) / name).write_bytes(b"x")
    assert gc("--grace", 0).json["runs"][0]["removed"] == 1001
    assert_readable(board)


def test_temporary_files_of_dead_writers_are_swept_when_they_are_old(board, gc):
    stray = board / "runs" / "r" / "versions" / "000000000" / ".tmp-999999-0123456789abcdef"
    stray.write_bytes(b"x" * 1000)
    os.utime(stray, (0, 0))
    assert gc().json["leftovers_removed"] == 1
    assert not stray.exists()


def test_a_manifest_that_cannot_be_read_stops_gc_before_anything_goes(long_board, gc):
    manifest = board_files.version_dir(long_board, "r", 1) / "manifest.json"
    manifest.write_bytes(b"")
    before = objects(long_board)
    ran = gc("--keep", 1, "--grace", 0, expect=CORRUPT)
    assert "000000001/manifest.json" in ran.json["error"]["message"]
    assert objects(long_board) == before
