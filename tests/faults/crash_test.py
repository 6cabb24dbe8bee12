"""A kill at any instant leaves the old version or the new one, loses nothing, and the same command then goes through.

Each operation is killed at every failpoint that it passes, at every passage, and at every call that writes, renames or
links a file. The list of failpoints is the source's: one that no operation here passes fails the tests.
"""

import random
import shutil
import time

import pytest

import board_files
import long_run
from checkpoint_files import assert_same_files, files_of
from failpoints import KILLED_CALLS, OF_AGENTS, OF_RANKS, STEPS
from operations import (
    OPERATIONS,
    ApplyInPlace,
    Publish,
    check_what_is_left,
    make_world,
    only_recover,
    start_over,
    sweep_errors,
    sweep_kills,
)
from program import CONFLICT, KILLED, UNAVAILABLE, finish, skerry, start


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.mark.parametrize(
    ("operation", "failpoint"),
    [(operation, name) for operation in OPERATIONS for name in operation.passes],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_A11b_killed_at_a_failpoint_leaves_old_or_new_and_the_next_run_succeeds(operation, failpoint, world, tmp_path):
    assert sweep_kills(operation(), failpoint, world, tmp_path) > 0, f"{failpoint} was not passed"


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
@pytest.mark.parametrize("call", KILLED_CALLS)
def test_killed_at_a_system_call_leaves_old_or_new_and_the_next_run_succeeds(operation, call, world, tmp_path):
    sweep_kills(operation(), call, world, tmp_path)


@pytest.mark.parametrize(
    ("operation", "failpoint"),
    [(operation, name) for operation in OPERATIONS for name in operation.passes if name in STEPS],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_failing_at_a_failpoint_leaves_old_or_new_and_the_next_run_succeeds(operation, failpoint, world, tmp_path):
    assert sweep_errors(operation(), failpoint, "error", world, tmp_path) > 0, f"{failpoint} was not passed"


def test_every_failpoint_of_the_source_is_passed_by_some_operation():
    passed = {name for operation in [*OPERATIONS, *long_run.OPERATIONS] for name in operation.passes}
    assert passed == set(STEPS) - set(OF_AGENTS) - set(OF_RANKS), "tests/agent walks through those of agents"
    assert STEPS, "the list was not found"


@pytest.mark.parametrize("operation", [ApplyInPlace, Publish], ids=lambda operation: operation.__name__)
def test_G6_killed_at_any_moment_leaves_old_or_new_and_the_next_run_succeeds(operation, world, tmp_path):
    operation = operation()
    start_over(operation, tmp_path / "timed", world)
    began = time.monotonic()
    skerry(*operation.command(tmp_path / "timed", world))
    takes = time.monotonic() - began
    moments = random.Random(11)
    killed = 0
    for _ in range(15):
        place = tmp_path / "place"
        start_over(operation, place, world)
        process = start(*operation.command(place, world))
        time.sleep(moments.uniform(0, takes))  # any moment is a good one: nothing below depends on which
        process.kill()
        killed += finish(process).code == KILLED
        check_what_is_left(operation, place, world, tmp_path)
    assert killed > 0


def test_A23_a_kill_between_weight_and_scale_never_shows_one_without_the_other(world, tmp_path):
    shutil.copytree(world.ckpt[0], tmp_path / "here")
    ran = skerry("apply", tmp_path / "here", world.patch["0-1"], "--in-place", "--threads", 1,
                 failpoints="apply.tensors_half_written:kill", expect=None)  # fmt: skip
    assert ran.killed
    weight, scale = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    half = files_of(tmp_path / "here")
    written = [shard for shard in (weight, scale) if half[shard] != world.files[0][shard]]
    assert len(written) == 1, "one of the two is there, the other is not"
    only_recover(tmp_path / "here", world)
    assert_same_files(tmp_path / "here", world.files[1])


def test_D3_leftovers_of_a_killed_publish_are_never_read(world, tmp_path):
    """The killed attempt stored version 2's patch and manifest; then another version 2, in other shards, comes."""
    place = tmp_path / "p"
    shutil.copytree(world.places / "board at 1", place)
    publish = ["publish", place / "b", "--run", "r", "--state", place / "s"]
    for failpoint in ("publish.patch_stored", "publish.manifest_stored", "store.cas_temp_written"):
        assert skerry(*publish, world.ckpt[2], failpoints=f"{failpoint}:kill", expect=None).killed
    assert board_files.head_of(place / "b", "r")["version"] == 1
    skerry("pull", place / "b", "--run", "r", "-o", place / "before")
    assert_same_files(place / "before", world.files[1])

    skerry(*publish, world.ckpt["3r"])
    manifest = board_files.walk(place / "b", "r")[0]
    assert manifest["version"] == 2
    skerry("pull", place / "b", "--run", "r", "-o", place / "after")
    assert_same_files(place / "after", world.files["3r"])


def test_D3_a_published_version_is_immutable_whatever_is_published_under_its_number(world, tmp_path):
    place = tmp_path / "p"
    shutil.copytree(world.places / "board at 1", place)
    before = board_files.immutable_objects(place / "b")
    head = board_files.head_path(place / "b", "r").read_bytes()
    for checkpoint in (world.ckpt[2], world.ckpt["3r"], world.ckpt[0]):
        skerry(
            "publish", place / "b", checkpoint, "--run", "r", "--version", 1, "--state", place / "s", expect=CONFLICT
        )
    board_files.assert_nothing_lost(before, place / "b")
    assert board_files.head_path(place / "b", "r").read_bytes() == head


def test_D3_leftovers_of_a_killed_init_do_not_mix_with_another_base(world, tmp_path):
    """Killed after its anchor; then the run begins from another checkpoint, in other shards."""
    board = tmp_path / "b"
    assert skerry(
        "init", board, "--run", "r", "--base", world.ckpt[0], failpoints="init.anchor_stored:kill", expect=None
    ).killed
    skerry("init", board, "--run", "r", "--base", world.ckpt["3r"])
    board_files.walk(board, "r")
    skerry("pull", board, "--run", "r", "-o", tmp_path / "new")
    assert_same_files(tmp_path / "new", world.files["3r"])


def test_D3_leftovers_of_a_killed_pull_do_not_mix_with_another_run(world, tmp_path):
    """A pull of run r is killed before its files are complete; then run other, with fewer files, goes to its place."""
    board = tmp_path / "b"
    skerry("init", board, "--run", "r", "--base", world.ckpt[0])
    skerry("init", board, "--run", "other", "--base", world.ckpt["3r"])
    assert skerry("pull", board, "--run", "r", "-o", tmp_path / "x", failpoints="pull.fetched:kill", expect=None).killed
    skerry("pull", board, "--run", "other", "-o", tmp_path / "x")
    assert_same_files(tmp_path / "x", world.files["3r"])


def test_a_damaged_island_whose_healing_was_killed_heals_in_the_next_pull(world, tmp_path):
    """The killed pull had exchanged the rebuilt checkpoint with the damaged one and not yet removed that."""
    place = tmp_path / "p"
    shutil.copytree(world.places / "board at 2, island at 1", place)
    pull = ["pull", place / "b", "--run", "r", "-o", place / "island"]
    skerry(*pull, "--version", 0)
    shutil.copytree(place / "island", place / ".island.building")  # as after that kill
    shard = place / ".island.building" / "model-00001-of-00002.safetensors"
    data = bytearray(shard.read_bytes())
    data[-512:] = bytes(512)
    shard.write_bytes(data)
    shutil.rmtree(place / "island")
    skerry(*pull)
    assert_same_files(place / "island", world.files[2])


def test_a_checkpoint_with_an_unfinished_apply_is_not_read_by_any_command(world, tmp_path):
    """Neither its own tensors nor a patch or a version made of it may be half old and half new."""
    here = tmp_path / "here"
    shutil.copytree(world.ckpt[0], here)
    shutil.copytree(world.places / "board at 1", tmp_path / "p")
    apply = ["apply", here, world.patch["0-1"], "--in-place"]
    assert skerry(*apply, failpoints="apply.tensors_half_written:kill", expect=None).killed
    for command in (
        ["verify", here],
        ["diff", here, world.ckpt[2], "-o", tmp_path / "patch"],
        ["diff", world.ckpt[2], here, "-o", tmp_path / "patch"],
        ["apply", here, world.patch["0-1"], "-o", tmp_path / "new"],
        ["init", tmp_path / "b", "--run", "r", "--base", here],
        ["publish", tmp_path / "p" / "b", here, "--run", "r", "--state", tmp_path / "p" / "s"],
    ):
        ran = skerry(*command, expect=UNAVAILABLE)
        assert "not finished" in ran.err and "apply --in-place" in ran.err
    assert not (tmp_path / "patch").exists() and not (tmp_path / "new").exists()
    skerry(*apply)
    skerry("verify", here)
