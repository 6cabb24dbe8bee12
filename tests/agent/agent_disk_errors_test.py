"""A disk that is full, or broken, for one call or from one call on, whichever call of an agent's life that is. The
agent claims nothing that is not so, says what is wrong, leaves the checkpoint at exactly one version, and comes to the
wanted one when the disk is well again.

Without -m slow, a few calls of each kind, drawn by a fixed seed. SKERRY_TEST_CALLS=1-20 and the like narrow a sweep,
SKERRY_TEST_SEED=1 and 2 deal the faults otherwise.
"""

import errno
import os
import random

import pytest

from checkpoint_files import files_of
from program import FAILED, KILLED
from small_disk import MIB, disk  # noqa: F401 (a fixture)

# What the status calls it -> what the operating system says.
FAULTS = {"no_space": errno.ENOSPC, "io": errno.EIO}
CALLS = ("file.write", "file.sync", "file.rename", "file.open", "file.lock")
WAYS = ("from a base", "from an anchor", "forward", "back", "after a kill")
STAGES = {"lookup", "stage", "commit"}
FOR_EVER = 1_000_000

# More calls than an agent makes until it serves; of opens and locks it makes some at every look at the board.
MOST_CALLS = 120
SEVERAL = 3  # calls that fail one after the other, so that what cleans up after the first fails too


def way(island, name):
    """(from, to, options). The island is at the start of it when this returns."""
    if name == "from a base":
        island.forget_state()
        return None, 3, ("--base", island.trainer.path(0))
    if name == "from an anchor":
        island.forget_state()
        return None, 8, ()
    if name == "back":
        if island.version != 12:
            way(island, "forward")
            island.go_to(12)
        return 12, 10, ()
    if island.version is None:
        island.go_to(4)
    if island.version != 10:
        island.go_to(10)
    if name == "after a kill":
        island.begin(12, failpoints="apply.journal_committed:kill")
        assert island.running.wait_until_dead() == KILLED
    return 10, 12, ()


def assert_told(island, status, cause, call):
    """Of a fault that the agent could not do without."""
    complaint = os.strerror(FAULTS[cause])
    if status is None:
        assert island.running.wait_until_dead() == FAILED and complaint in island.running.log, island.running.log
        return
    failure = status["failure"]
    assert failure["cause"] == cause and failure["stage"] in STAGES and complaint in failure["message"], failure
    counted = {name for name, count in island.running.metrics().items() if "skerry_failures_total" in name and count}
    its_own = {name for name in counted if f'cause="{cause}"' in name}
    # Engines are not switched to files of which a journal says that they are in between.
    assert its_own and counted - its_own <= {'skerry_failures_total{cause="unavailable",stage="commit"}'}, counted


def pass_by(island, way_name, call, cause, number, calls=1):
    """So many calls fail; the agent goes on by itself, or the next one does. Whether it was noticed."""
    _, new, options = way(island, way_name)
    island.begin(new, f"{call}:errno={FAULTS[cause]}@{number}-{number + calls - 1}", options)
    status = island.wait_for_version(new)
    noticed = status is None or status["failures"] > 0
    if noticed:
        assert_told(island, status, cause, call)
    island.end()
    if status is None:
        island.go_to(new, options)
    return noticed


def stay(island, way_name, call, cause, number):
    """This call and all later ones fail, until the agent is replaced. Whether it was noticed."""
    old, new, options = way(island, way_name)
    loads = island.engine.count("load")
    island.begin(new, f"{call}:errno={FAULTS[cause]}@{number}-{FOR_EVER}", options)

    def stuck_or_there(status):
        return status["phase"] == "waiting" and (status["failures"] > 1 or status["serves"] == f"r@{new}")

    status = island.wait(stuck_or_there, "a failure")
    noticed = status is None or status["failures"] > 0
    if noticed:
        assert_told(island, status, cause, call)
    if noticed and status:
        assert status["degraded"]
        (engine,) = status["engines"]
        # Whom nobody touched serves on.
        assert engine["in_rotation"] or island.engine.count("load") > loads or old is None, engine
    island.end()
    island.assert_old_or_new(old, new)
    island.go_to(new, options)
    return noticed


def on_an_island(islands, test):
    """What a failed test leaves is no start for the next one."""
    try:
        return test(islands("vllm plugin"))
    except BaseException:
        islands("vllm plugin", fresh=True)
        raise


def drawn(way_name, call):
    """Early and late."""
    return random.Random(f"{way_name} {call}").randrange(1, 30 if call == "file.write" else 20)


@pytest.mark.parametrize("call", ["file.write", "file.sync", "file.rename"])
@pytest.mark.parametrize("way_name", WAYS)
def test_F1_a_call_to_the_disk_that_fails_once_is_got_over(way_name, call, islands):
    cause = random.Random(call + way_name).choice(list(FAULTS))
    on_an_island(islands, lambda island: pass_by(island, way_name, call, cause, drawn(way_name, call)))


@pytest.mark.parametrize("number", [6, 20], ids=["early", "late"])
@pytest.mark.parametrize("way_name", WAYS)
def test_F1_a_disk_that_stays_full_leaves_one_version_and_is_told(way_name, number, islands):
    """Late: in the middle of it, or when all is staged and the engine's record can't be written."""
    assert on_an_island(islands, lambda island: stay(island, way_name, "file.write", "no_space", number))


@pytest.mark.parametrize("room", [0, 8 << 10, 24 << 10, 64 << 10])
def test_F1_an_agent_whose_disk_is_full_serves_on_and_follows_again_when_there_is_room(
    room, disk, agent, engine, trainer, tmp_path, assert_at
):
    """A real one: also what is reserved, copied or mapped meets it."""
    disk.resize(8 * MIB)
    (disk.path / "state").mkdir()
    state = tmp_path / "state"  # the log beside it is not on the full disk
    state.symlink_to(disk.path / "state")
    trainer.publish(2)
    e = engine("vllm plugin")
    a = agent(trainer, e, state=state)
    a.wait_for_version(2)
    disk.fill(but=room)
    trainer.publish(6)
    status = a.wait(lambda status: status["failures"] > 1 and status["phase"] == "waiting")
    assert status["failure"]["cause"] == "no_space" and status["degraded"] and status["ready"]
    assert status["serves"] == "r@2" and e.serves() == trainer.digest(2) and e.token()
    # Each patch on the way is a move of its own.
    assert files_of(state / "checkpoint") in [trainer.files(version) for version in range(2, 7)]
    disk.drop_ballast()
    a.command("wake")
    a.wait_for_version(6)
    assert_at(a, trainer, 6, e)


def calls_and_seed():
    first, _, last = os.environ.get("SKERRY_TEST_CALLS", f"1-{MOST_CALLS}").partition("-")
    return range(int(first), int(last) + 1), int(os.environ.get("SKERRY_TEST_SEED", 0))


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("way_name", WAYS)
def test_F1_each_call_to_the_disk_may_fail(way_name, call, islands, summary):
    """In turn: one fails, some do, all do from there on; with either cause. Ends where a life makes no more calls."""
    numbers, seed = calls_and_seed()
    islands("vllm plugin", fresh=True)
    failed, noticed, over = [], 0, False
    for number in numbers:
        cause, kind = list(FAULTS)[(number + seed) // 3 % 2], (number + seed) % 3
        for_ever = kind == 0

        def live(island, number=number, cause=cause, for_ever=for_ever, kind=kind):
            if for_ever:
                return stay(island, way_name, call, cause, number)
            return pass_by(island, way_name, call, cause, number, SEVERAL if kind == 2 else 1)

        try:
            seen = on_an_island(islands, live)
        except AssertionError as error:
            failed.append(f"{call} {number} {cause} {('for ever', 'once', 'several times')[kind]}: {error}")
            continue
        noticed += seen
        if for_ever and not seen:
            over = True
            break
    summary.append(f"{way_name}, {call}: up to call {number}{'' if over else ' of more'}, {noticed} faults noticed")
    assert not failed, "\n\n".join(failed)
