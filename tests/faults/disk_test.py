"""Full disks, failing disks, and file systems that lack what a board needs."""

import errno
import re
import shutil

import numpy as np
import pytest

import board_files
import small_model
from checkpoint_files import bf16, assert_same_files, files_of, write_checkpoint
from operations import (
    OPERATIONS,
    ApplyInPlace,
    ApplyToANewDirectory,
    FreshPull,
    Init,
    Publish,
    StepOfAnIslandToOtherShards,
    make_world,
    sweep_errors,
)
from program import FAILED, OK, skerry
from small_disk import MIB, disk  # noqa: F401 (a fixture)

DENSE = (1000, 1000)  # a tensor of 2 MB whose every element changes: patch, journal and checkpoint are all large


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def dense(tmp_path_factory):
    """Two checkpoints of 2 MB without a common element, the patch between them, their files."""
    directory = tmp_path_factory.mktemp("dense")
    random = np.random.default_rng(3)
    for n in range(3):
        write_checkpoint(directory / f"v{n}", {"w": bf16(random.integers(0, 1 << 16, DENSE, dtype=np.uint16))})
    skerry("diff", directory / "v0", directory / "v1", "-o", directory / "0-1")
    return directory


def refused_for_space(*command):
    ran = skerry(*command, expect=FAILED)
    assert "No space left" in ran.err or re.search(r"needs \d+ bytes in .*, but \d+ are free", ran.err), ran.err
    assert ran.err.count("\n") == 1, ran.err
    return ran


# Every call that writes, syncs, renames or links fails once at each of its passages.


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_F1_a_disk_that_is_full_at_any_write_leaves_the_old_version_and_the_next_run_succeeds(
    operation, world, tmp_path
):
    assert sweep_errors(operation(), "file.write", f"errno={errno.ENOSPC}", world, tmp_path) > 0


@pytest.mark.parametrize(
    "operation",
    [Init, Publish, FreshPull, StepOfAnIslandToOtherShards, ApplyToANewDirectory, ApplyInPlace],
    ids=lambda operation: operation.__name__,
)
@pytest.mark.parametrize("call", ["file.sync", "file.rename", "file.link"])
def test_a_disk_that_fails_at_any_call_leaves_the_old_version_and_the_next_run_succeeds(
    call, operation, world, tmp_path
):
    sweep_errors(operation(), call, f"errno={errno.EIO}", world, tmp_path)


# Disks that are really full.


def test_F1_diff_to_a_full_disk_leaves_no_part_of_a_patch(dense, disk):
    patch = disk.path / "p.skerry"
    refused_for_space("diff", dense / "v0", dense / "v1", "-o", patch)
    assert list(disk.path.iterdir()) == []
    disk.resize(8 * MIB)
    skerry("diff", dense / "v0", dense / "v1", "-o", patch)
    assert patch.read_bytes() == (dense / "0-1").read_bytes()


def test_F1_apply_to_a_full_disk_leaves_no_part_of_a_checkpoint(dense, disk):
    refused_for_space("apply", dense / "v0", dense / "0-1", "-o", disk.path / "new")
    assert list(disk.path.iterdir()) == []
    disk.resize(64 * MIB)
    skerry("apply", dense / "v0", dense / "0-1", "-o", disk.path / "new")
    assert_same_files(disk.path / "new", dense / "v1")


def test_F1_apply_in_place_without_space_for_the_journal_leaves_the_old_version(dense, disk):
    disk.resize(3 * MIB)
    shutil.copytree(dense / "v0", disk.path / "here")
    ran = refused_for_space("apply", disk.path / "here", dense / "0-1", "--in-place")
    assert "journal" in ran.err
    assert_same_files(disk.path / "here", dense / "v0")
    skerry("verify", disk.path / "here")
    disk.resize(64 * MIB)
    skerry("apply", disk.path / "here", dense / "0-1", "--in-place")
    assert_same_files(disk.path / "here", dense / "v1")


def test_F1_apply_in_place_to_a_file_with_holes_on_a_full_disk_is_an_error_and_not_a_signal(tmp_path, dense, disk):
    """The journal, elsewhere, is complete; the checkpoint's holes can't be filled. With space the apply is finished."""
    write_checkpoint(tmp_path / "zeros", {"w": bf16(np.zeros(DENSE, np.uint16))})
    skerry("diff", tmp_path / "zeros", dense / "v1", "-o", tmp_path / "p")
    here = disk.path / "here"
    disk.resize(3 * MIB)
    shutil.copytree(tmp_path / "zeros", here)
    shard = here / "model.safetensors"
    size, header = shard.stat().st_size, shard.read_bytes()[:4096]
    with open(shard, "wb") as file:
        file.write(header)
        file.truncate(size)
    disk.fill()
    apply = ["apply", here, tmp_path / "p", "--in-place", "--state", tmp_path / "state"]
    ran = skerry(*apply, expect=FAILED)
    assert str(shard) in ran.err
    disk.drop_ballast()
    skerry(*apply)
    assert_same_files(here, dense / "v1")


def test_F1_what_a_publish_to_a_full_board_could_not_ship_is_in_the_next_version(dense, tmp_path, disk):
    board = disk.path / "b"
    disk.resize(8 * MIB)
    skerry("init", board, "--run", "r", "--base", dense / "v0")
    disk.fill()
    before = board_files.immutable_objects(board)
    publish = ["publish", board, "--run", "r", "--state", tmp_path / "s"]
    refused_for_space(*publish, dense / "v1")
    assert board_files.immutable_objects(board) == before
    assert board_files.head_of(board, "r")["version"] == 0
    disk.drop_ballast()
    receipt = skerry(*publish, dense / "v2", "--json").json
    assert receipt["version"] == 1
    skerry("pull", board, "--run", "r", "-o", tmp_path / "new")
    assert_same_files(tmp_path / "new", dense / "v2")


def test_F1_a_publisher_whose_own_disk_is_full_publishes_nothing_and_goes_on_later(dense, tmp_path, disk):
    board = tmp_path / "b"
    skerry("init", board, "--run", "r", "--base", dense / "v0")
    publish = ["publish", board, "--run", "r", "--state", disk.path / "s"]
    for size in (1 * MIB, 3 * MIB, 5 * MIB):  # too small for the snapshot; for snapshot and spool; for its journal too
        disk.resize(size)
        ran = skerry(*publish, dense / "v1", expect=None)
        if ran.code == OK:
            assert "warning" in ran.err and "the version is out" in ran.err
            break
        refused_for_space(*publish, dense / "v1")
        assert board_files.head_of(board, "r")["version"] == 0
    disk.resize(64 * MIB)
    skerry(*publish, dense / "v2")
    board_files.walk(board, "r")
    skerry("pull", board, "--run", "r", "-o", tmp_path / "new")
    assert_same_files(tmp_path / "new", dense / "v2")


def test_F1_a_pull_to_a_full_disk_keeps_the_old_version_and_names_what_it_needs(dense, tmp_path, disk):
    board = tmp_path / "b"
    skerry("init", board, "--run", "r", "--base", dense / "v0")
    pull = ["pull", board, "--run", "r", "-o", disk.path / "island"]
    refused_for_space(*pull)
    assert not (disk.path / "island").exists()
    disk.resize(3 * MIB)
    skerry(*pull)
    skerry("publish", board, dense / "v1", "--run", "r", "--state", tmp_path / "s")
    refused_for_space(*pull)
    assert_same_files(disk.path / "island", dense / "v0")
    skerry("verify", disk.path / "island")
    disk.resize(64 * MIB)
    skerry(*pull)
    assert_same_files(disk.path / "island", dense / "v1")


def test_a_full_board_can_still_be_read(dense, tmp_path, disk):
    disk.resize(4 * MIB)
    skerry("init", disk.path / "b", "--run", "r", "--base", dense / "v0")
    disk.fill()
    skerry("head", disk.path / "b", "--run", "r")
    skerry("status", disk.path / "b")
    skerry("pull", disk.path / "b", "--run", "r", "-o", tmp_path / "new")
    assert_same_files(tmp_path / "new", dense / "v0")


def test_a_board_that_is_mounted_read_only_can_be_read_but_not_written(world, tmp_path, disk):
    skerry("init", disk.path / "b", "--run", "r", "--base", world.ckpt[0])
    disk.read_only()
    skerry("pull", disk.path / "b", "--run", "r", "-o", tmp_path / "new")
    assert_same_files(tmp_path / "new", world.files[0])
    skerry("log", disk.path / "b", "--run", "r")
    ran = skerry("publish", disk.path / "b", world.ckpt[1], "--run", "r", "--state", tmp_path / "s", expect=FAILED)
    assert "Read-only file system" in ran.err
    # The failed attempt cost nothing: where the board can be written it goes through.
    shutil.copytree(disk.path / "b", tmp_path / "b")
    skerry("publish", tmp_path / "b", world.ckpt[1], "--run", "r", "--state", tmp_path / "s")
    board_files.walk(tmp_path / "b", "r")


# File systems that lack a call (mounts of object stores, network shares).


@pytest.mark.parametrize(
    ("failpoint", "call"),
    [(f"file.rename:errno={errno.ENOSYS}", "rename"), (f"file.lock:errno={errno.ENOSYS}", "flock")],
    ids=["rename", "flock"],
)
def test_D6_a_file_system_that_can_not_hold_a_board_is_refused_at_the_start_by_the_call_it_lacks(
    failpoint, call, world, tmp_path
):
    board = tmp_path / "b"
    ran = skerry("init", board, "--run", "r", "--base", world.ckpt[0], failpoints=failpoint, expect=FAILED)
    assert call in ran.err and str(board) in ran.err and "s3://" in ran.err
    assert not list(board.rglob("*.json"))
    skerry("init", board, "--run", "r", "--base", world.ckpt[0])
    publish = ["publish", board, world.ckpt[1], "--run", "r", "--state", tmp_path / "s"]
    assert call in skerry(*publish, failpoints=failpoint, expect=FAILED).err
    assert board_files.head_of(board, "r")["version"] == 0


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP], ids=errno.errorcode.get)
def test_D6_a_file_system_without_hard_links_holds_a_board_all_the_same(number, world, tmp_path):
    without = f"file.link:errno={number}"
    board = tmp_path / "b"
    skerry("init", board, "--run", "r", "--base", world.ckpt[0], failpoints=without)
    for n in (1, 2):
        skerry("publish", board, world.ckpt[n], "--run", "r", "--state", tmp_path / "s", failpoints=without)
    skerry("publish", board, world.ckpt[2], "--run", "r", "--version", 1, "--state", tmp_path / "s",
           failpoints=without, expect=3)  # fmt: skip
    assert len(board_files.walk(board, "r")) == 3
    skerry("pull", board, "--run", "r", "-o", tmp_path / "new", failpoints=without)
    assert_same_files(tmp_path / "new", world.files[2])


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EACCES], ids=errno.errorcode.get)
def test_D6_an_accident_is_not_taken_for_a_lacking_call(number, world, tmp_path):
    """EIO and ENOSPC of link must not make the board give up links, let alone its guarantees."""
    board = tmp_path / "b"
    init = ["init", board, "--run", "r", "--base", world.ckpt[0]]
    ran = skerry(*init, failpoints=f"file.link:errno={number}", expect=FAILED)
    assert "link" in ran.err and "can't hold a board" not in ran.err
    assert not list(board.rglob("*.json"))
    skerry(*init)
    board_files.walk(board, "r")


def test_D6_files_that_can_not_be_mapped_are_read_and_written_all_the_same(world, tmp_path):
    refuses = f"file.map:errno={errno.ENODEV}"
    skerry("diff", world.ckpt[0], world.ckpt[1], "-o", tmp_path / "p", failpoints=refuses)
    assert (tmp_path / "p").read_bytes() == world.patch["0-1"].read_bytes()
    skerry("apply", world.ckpt[0], tmp_path / "p", "-o", tmp_path / "new", failpoints=refuses)
    assert_same_files(tmp_path / "new", world.files[1])
    shutil.copytree(world.ckpt[0], tmp_path / "here")
    skerry("apply", tmp_path / "here", tmp_path / "p", "--in-place", failpoints=refuses)
    assert_same_files(tmp_path / "here", world.files[1])


def test_an_island_on_a_file_system_without_locks_is_refused_and_left_alone(world, tmp_path):
    shutil.copytree(world.ckpt[0], tmp_path / "here")
    ran = skerry("apply", tmp_path / "here", world.patch["0-1"], "--in-place",
                 failpoints=f"file.lock:errno={errno.ENOLCK}", expect=FAILED)  # fmt: skip
    assert "lock" in ran.err
    assert_same_files(tmp_path / "here", world.files[0])


def test_small_model_versions_differ(world):
    """What the sweeps rely on: each version has files of its own."""
    assert len({str(files) for files in world.files.values()}) == len(world.files)
    assert files_of(world.ckpt[0]) == world.files[0]
    assert small_model.side_files(0).keys() != small_model.side_files(1).keys()
