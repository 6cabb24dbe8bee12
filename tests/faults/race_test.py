"""Several processes at once on one board or one directory: one wins, the others say so, nothing is mixed."""

import fcntl
import os
import shutil
import signal
import threading
import time

import pytest

import board_files
import small_model
from checkpoint_files import assert_same_files, files_of
from operations import make_world
from program import CONFLICT, FAILED, OK, finish, skerry, start

PATIENCE = 60


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture
def place(world, tmp_path):
    """A board at version 2, an island at 1, a publisher's state."""
    shutil.copytree(world.places / "board at 2, island at 1", tmp_path / "p")
    return tmp_path / "p"


def wait_for(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited {PATIENCE} s for {what}"
        time.sleep(0.002)


class Held:
    """Holds a lock file that the program takes, so that it stops at this very point."""

    def __init__(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = open(path, "a")
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()


def test_F10_a_publisher_that_wakes_up_after_another_took_over_loses_and_harms_nothing(world, place):
    board, run_dir = place / "b", place / "b" / "runs" / "r"
    version3 = board_files.version_dir(board, "r", 3)
    with Held(run_dir / ".head.lock"):
        a = start("publish", board, world.ckpt["3r"], "--run", "r", "--state", place / "s")
        # A has read the head and stored version 3's objects; it can't move the head while the lock is held.
        wait_for(lambda: list(version3.glob("manifest-*.json")), "A's manifest")
        os.kill(a.pid, signal.SIGSTOP)
        wait_for(lambda: "T (stopped)" in open(f"/proc/{a.pid}/status").read(), "A to stand still")
    b = skerry("publish", board, world.ckpt[3], "--run", "r", "--state", place / "another", "--json").json
    assert (b["version"], b["published"]) == (3, True)
    won = board_files.immutable_objects(board)
    head = board_files.head_path(board, "r").read_bytes()

    os.kill(a.pid, signal.SIGCONT)
    ran = finish(a)
    assert ran.code == CONFLICT, ran
    assert "version 3" in ran.err and ran.err.count("\n") == 1

    board_files.assert_nothing_lost(won, board)
    assert board_files.head_path(board, "r").read_bytes() == head
    board_files.walk(board, "r")
    skerry("pull", board, "--run", "r", "-o", place / "island")
    assert_same_files(place / "island", world.files[3])

    # The loser stops until it is told to take the run back; then it begins at what is there.
    again = ["publish", board, world.ckpt["3r"], "--run", "r", "--state", place / "s", "--json"]
    ran = skerry(*again, expect=CONFLICT)
    assert "took over" in ran.err and "--take-over" in ran.err
    assert board_files.head_path(board, "r").read_bytes() == head
    assert skerry(*again, "--take-over").json["version"] == 4
    skerry("pull", board, "--run", "r", "-o", place / "island")
    assert_same_files(place / "island", world.files["3r"])


def test_F10_the_epoch_rises_when_another_publisher_takes_over_and_stays_while_one_goes_on(world, place):
    board = place / "b"
    epoch = board_files.head_of(board, "r")["epoch"]

    def publish(checkpoint, state, *more, **how):
        skerry("publish", board, world.ckpt[checkpoint], "--run", "r", "--state", place / state, *more, **how)
        return board_files.head_of(board, "r")["epoch"] - epoch

    assert publish(3, "s") == 0
    assert publish(2, "another") == 1
    assert publish(3, "another") == 1
    assert publish(2, "s", expect=CONFLICT) == 1
    assert publish(2, "s", "--take-over") == 2
    assert publish(1, "s") == 2
    assert publish(3, "another", expect=CONFLICT) == 2


@pytest.mark.parametrize("same_bytes", [True, False], ids=["the same bytes", "different bytes"])
def test_D10_eight_publishers_of_one_version_make_one_version(same_bytes, world, tmp_path):
    board = tmp_path / "b"
    skerry("init", board, "--run", "r", "--base", world.ckpt[0])
    ranks = [world.ckpt[1] if same_bytes else small_model.write(tmp_path / f"c{i}", 10 + i) for i in range(8)]
    processes = [
        start("publish", board, checkpoint, "--run", "r", "--version", 1, "--state", tmp_path / f"s{i}", "--json")
        for i, checkpoint in enumerate(ranks)
    ]
    ran = [finish(process) for process in processes]
    assert {r.code for r in ran} <= {OK, CONFLICT}, [r.err for r in ran]
    winners = [i for i, r in enumerate(ran) if r.code == OK and r.json["published"]]
    assert len(winners) == 1
    if not same_bytes:
        assert [i for i, r in enumerate(ran) if r.code == OK] == winners
    manifest, _ = board_files.walk(board, "r")
    assert manifest["version"] == 1 and manifest["model"] == ran[winners[0]].json["model_digest"]
    skerry("pull", board, "--run", "r", "-o", tmp_path / "new")
    assert_same_files(tmp_path / "new", files_of(ranks[winners[0]]))
    # The others can ask again and get the same answer.
    for i, checkpoint in enumerate(ranks):
        again = skerry("publish", board, checkpoint, "--run", "r", "--version", 1, "--state", tmp_path / f"s{i}",
                       expect=OK if same_bytes or i in winners else CONFLICT)  # fmt: skip
        assert again.code == CONFLICT or "nothing to publish" in again.out


def test_eight_inits_of_one_run_make_one_run(world, tmp_path):
    processes = [start("init", tmp_path / "b", "--run", "r", "--base", world.ckpt[0], "--json") for _ in range(8)]
    ran = [finish(process) for process in processes]
    assert {r.code for r in ran} <= {OK, CONFLICT}, [r.err for r in ran]
    assert sum(r.code == OK and r.json["created"] for r in ran) == 1
    assert len(board_files.walk(tmp_path / "b", "r")) == 1
    assert skerry("init", tmp_path / "b", "--run", "r", "--base", world.ckpt[0], "--json").json["created"] is False


def test_two_publishers_with_one_state_directory_do_not_work_at_once(world, place):
    with Held(place / "s" / "lock"):
        ran = skerry("publish", place / "b", world.ckpt[3], "--run", "r", "--state", place / "s", expect=CONFLICT)
    assert "another publisher" in ran.err and str(place / "s") in ran.err
    assert board_files.head_of(place / "b", "r")["version"] == 2


def test_A11c_a_second_applier_of_one_directory_is_turned_away(world, place):
    with Held(place / "island" / ".skerry" / "lock"):
        ran = skerry("pull", place / "b", "--run", "r", "-o", place / "island", expect=CONFLICT)
        assert "locked" in ran.err and str(place / "island") in ran.err
    assert_same_files(place / "island", world.files[1])


def test_A11c_appliers_at_once_on_one_directory_leave_the_new_version(world, tmp_path):
    for attempt in range(5):
        here = tmp_path / f"{attempt}"
        shutil.copytree(world.ckpt[0], here)
        processes = [start("apply", here, world.patch["0-1"], "--in-place") for _ in range(4)]
        codes = [finish(process).code for process in processes]
        assert set(codes) <= {OK, CONFLICT} and OK in codes
        assert_same_files(here, world.files[1])
        skerry("verify", here)


def test_A11a_applying_a_patch_again_is_a_no_op(world, tmp_path):
    shutil.copytree(world.ckpt[0], tmp_path / "here")
    for _ in range(3):
        skerry("apply", tmp_path / "here", world.patch["0-1"], "--in-place")
        assert_same_files(tmp_path / "here", world.files[1])


def test_pulls_at_once_to_one_new_directory_leave_the_version(world, place):
    shutil.rmtree(place / "island")
    for attempt in range(5):
        processes = [start("pull", place / "b", "--run", "r", "-o", place / f"island{attempt}") for _ in range(4)]
        ran = [finish(process) for process in processes]
        assert {r.code for r in ran} <= {OK, CONFLICT} and OK in [r.code for r in ran], [r.err for r in ran]
        assert_same_files(place / f"island{attempt}", world.files[2])
        skerry("verify", place / f"island{attempt}")


def test_pulls_at_once_of_one_island_leave_the_version(world, place):
    processes = [start("pull", place / "b", "--run", "r", "-o", place / "island") for _ in range(4)]
    ran = [finish(process) for process in processes]
    assert {r.code for r in ran} <= {OK, CONFLICT} and OK in [r.code for r in ran], [r.err for r in ran]
    assert_same_files(place / "island", world.files[2])


def test_readers_that_pull_while_versions_come_out_always_hold_a_published_version(world, tmp_path):
    board = tmp_path / "b"
    skerry("init", board, "--run", "r", "--base", world.ckpt[0])
    versions = [world.files[0]]
    done = threading.Event()
    seen, wrong = {}, []

    def follow(reader):
        while True:
            last = done.is_set()  # before the pull: the last one comes after the last version
            ran = skerry("pull", board, "--run", "r", "-o", tmp_path / reader, "--json", expect=None)
            if ran.code != OK:
                wrong.append(ran.err)
            elif files_of(tmp_path / reader) != versions[ran.json["version"]]:
                wrong.append(f"{reader} at version {ran.json['version']} has other files")
            else:
                seen.setdefault(reader, []).append(ran.json["version"])
            if last or wrong:
                return

    readers = [threading.Thread(target=follow, args=(f"reader{i}",)) for i in range(2)]
    for reader in readers:
        reader.start()
    for n in range(1, 16):
        checkpoint = small_model.write(tmp_path / f"c{n}", n, shards=3 if n % 5 == 0 else 2)
        versions.append(files_of(checkpoint))
        skerry("publish", board, checkpoint, "--run", "r", "--state", tmp_path / "s")
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong, wrong[0]
    for versions_seen in seen.values():
        assert versions_seen == sorted(versions_seen) and versions_seen[-1] == 15


def test_D1_a_version_asked_for_by_an_unknown_number_is_refused_not_replaced(world, place):
    ran = skerry("pull", place / "b", "--run", "r", "-o", place / "island", "--version", 9, expect=FAILED)
    assert "version 2" in ran.err and "9" in ran.err
    assert_same_files(place / "island", world.files[1])
