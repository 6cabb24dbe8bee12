"""Killed at any instant of an update, an agent leaves a checkpoint that is exactly the old or the new version once it
is recovered; the next agent brings it and the engine to exactly the new one, and claims nothing in between that is not
so.

Without -m slow, each failpoint is killed at once, with a kind of engine and a distance that are drawn by a fixed seed.
"""

import random
import time
import zlib

import pytest

from agent_process import wait_for
from failpoints import OF_AGENTS, STEPS
from program import KILLED
from stand_in import StandIn

SEEDS = 3
AGENT = [name for name in STEPS if name.startswith("agent.")]
APPLY = [name for name in STEPS if name.startswith("apply.")]
UNDO = [name for name in STEPS if name.startswith("undo.")]
# What each way to another version passes. The undo log is pruned where it is full.
FORWARD = ["pull.fetched", *APPLY, *UNDO, *AGENT]
BACK = [
    *(name for name in STEPS if name.startswith("rollback.")),
    *(name for name in [*APPLY, *UNDO] if name not in ("apply.journal_begun", "apply.journal_written", "undo.begun")),
    *AGENT,
]
FROM_A_BASE = [name for name in STEPS if name.startswith("seed.")]
FROM_AN_ANCHOR = ["pull.fetched", *AGENT]
CASES = [
    *(("forward", name) for name in FORWARD),
    *(("back", name) for name in BACK),
    *(("from a base", name) for name in FROM_A_BASE),
    *(("from an anchor", name) for name in FROM_AN_ANCHOR),
]
START = 12


def seeds_of(case):
    """In the quick run one of them."""
    quick = zlib.crc32("/".join(case).encode()) % SEEDS
    return [pytest.param(*case, seed, marks=[] if seed == quick else pytest.mark.slow) for seed in range(SEEDS)]


def way(island, kind_of_way, seed):
    """(from, to, options). An island that is not there is begun."""
    base = ("--base", island.trainer.path(0))
    if kind_of_way == "from a base":
        return None, 1 + seed, base
    if kind_of_way == "from an anchor":
        return None, (8, 20, 33)[seed], ()
    distance = (1, 3, 2)[seed]
    if kind_of_way == "forward":
        if island.version is None:
            island.go_to(START - 6)
        if island.version < START:  # fills the undo log
            island.go_to(START)
        return island.version, island.version + distance, ()
    if island.version is None or island.version < START:
        island.go_to(START)
    island.go_to(island.version + distance)  # what can be gone back over
    return island.version, island.version - distance, ()


@pytest.mark.parametrize(("kind_of_way", "failpoint", "seed"), [case for pair in CASES for case in seeds_of(pair)])
def test_G6_an_agent_killed_at_a_failpoint(kind_of_way, failpoint, seed, islands):
    kind = StandIn.KINDS[(seed + len(failpoint)) % len(StandIn.KINDS)]
    island = islands(kind, fresh=kind_of_way.startswith("from"))
    try:
        old, new, options = way(island, kind_of_way, seed)
        doomed = island.begin(new, failpoints=f"{failpoint}:kill", options=options)
        assert doomed.wait_until_dead() == KILLED, doomed.log
        island.assert_old_or_new(old, new)
        island.go_to(new, options)
    except BaseException:
        islands(kind, fresh=True)
        raise


def moments(count, quick):
    return [pytest.param(n, marks=[] if n < quick else pytest.mark.slow) for n in range(count)]


@pytest.mark.parametrize("number", moments(30, quick=9))
def test_G6_an_agent_killed_at_any_moment(number, islands):
    """There and back again, so that both ways are hit."""
    drawn = random.Random(number)
    kind = StandIn.KINDS[number % len(StandIn.KINDS)]
    island = islands(kind)
    try:
        old, new, _ = way(island, drawn.choice(["forward", "back"]), number % 3)
        doomed = island.begin(new)
        time.sleep(drawn.uniform(0.02, 0.5))  # any moment is a good one: nothing below depends on which
        doomed.kill()
        island.assert_old_or_new(old, new)
        island.go_to(new)
    except BaseException:
        islands(kind, fresh=True)
        raise


def test_every_failpoint_of_the_agent_is_killed_at():
    killed = {failpoint for _, failpoint in CASES}
    assert killed >= {*OF_AGENTS, *APPLY, *UNDO} and killed <= set(STEPS)


PHASES = ["pause", "load", "reset", "resume"]
# A hang ends with its timeout: that of a load can be set, those of the others take 10 s.
FAULTS = [(phase, fault) for phase in PHASES for fault in ("reset", "500", "success_false")]
FAULTS += [("verify", "reset"), ("verify", "500"), ("verify", "late")]  # of the plugin
FAULTS += [("load", "partial"), ("load", "late"), ("load", "empty"), ("resume", "late"), ("load", "hang")]
SLOW_FAULTS = [(phase, "hang") for phase in PHASES if phase != "load"]


def faulty(kind):
    for phase, fault in FAULTS + SLOW_FAULTS:
        kinds = [of for of in StandIn.KINDS if phase != "verify" or of == "vllm plugin"]
        if kind not in kinds:
            continue
        draw = zlib.crc32(f"{phase}/{fault}".encode()) % len(kinds)
        quick = kinds[draw] == kind and (phase, fault) not in SLOW_FAULTS
        yield pytest.param(kind, phase, fault, marks=[] if quick else pytest.mark.slow)


@pytest.mark.parametrize(("kind", "phase", "fault"), [case for kind in StandIn.KINDS for case in faulty(kind)])
def test_an_engine_that_fails_in_a_switch_is_out_until_it_has_the_whole_model(
    kind, phase, fault, agent, engine, trainer, assert_at
):
    e = engine(kind)
    a = agent(trainer, e, options=("--load-timeout", 2))
    a.wait_for_version(0)
    e.fault(phase, fault, times=-1)
    trainer.publish(2)
    status = a.wait(lambda status: not status["engines"][0]["in_rotation"])
    view = status["engines"][0]
    assert view["serves"] is None and e.name in view["problem"]
    status = a.wait(lambda status: status["degraded"])
    assert status["serves"] is None and not status["ready"] and a.get("/readyz")[0] == 503
    assert (status["failure"]["stage"], status["updates"]) == ("commit", 1)
    assert e.name in status["failure"]["message"]
    e.mend()
    a.command("wake")
    update = a.wait_for_version(2)["last_update"]
    assert_at(a, trainer, 2, e)
    assert (update["engines"], update["engines_by_changes"]) == (1, 0), "it had the whole model"


@pytest.mark.parametrize("kind", StandIn.KINDS)
@pytest.mark.parametrize("phase", ["pause", "load", "resume"])
def test_H12_an_engine_whose_process_goes_in_a_switch_gets_the_whole_model_when_it_is_back(
    kind, phase, agent, engine, trainer, assert_at
):
    e = engine(kind)
    a = agent(trainer, e)
    a.wait_for_version(0)
    before = e.count("pause")
    e.hold(phase)
    e.fault(phase, "reset")
    trainer.publish(1)
    wait_for(lambda: a.status()["phase"] == "switching", "the switch")
    e.die()
    e.release()
    status = a.wait(lambda status: status["degraded"])
    assert not status["engines"][0]["in_rotation"] and status["serves"] is None
    e.come_back()
    a.command("wake")
    update = a.wait_for_version(1)["last_update"]
    assert_at(a, trainer, 1, e)
    assert update["engines_by_changes"] == 0 and e.count("pause") > before


@pytest.mark.parametrize("kind", StandIn.KINDS)
def test_G1_an_engine_that_restarts_between_switches_is_noticed_and_brought_back(
    kind, agent, engine, trainer, assert_at
):
    """Also while no agent is there."""
    e = engine(kind)
    trainer.publish(3)
    a = agent(trainer, e)
    a.wait_for_version(3)
    e.restart()
    wait_for(lambda: e.serves() == trainer.digest(3) and not e.paused, "the weights' return")
    a.wait_for_version(3)
    assert a.metrics()[f'skerry_engine_restarts_total{{engine="{e.name}"}}'] == 1
    a.kill()
    e.restart()
    b = agent(trainer, e)
    b.wait_for_version(3)
    assert_at(b, trainer, 3, e)


def test_a_preparation_that_fails_is_harmless_and_the_whole_model_is_prepared_instead(
    agent, engine, trainer, assert_at
):
    e = engine("vllm plugin")
    a = agent(trainer, e)
    a.wait_for_version(0)
    e.fault("prepare", "500")
    trainer.publish(1)
    update = a.wait_for_version(1)["last_update"]
    assert_at(a, trainer, 1, e)
    assert (update["engines"], update["engines_by_changes"]) == (1, 0)


def test_an_agent_killed_while_some_of_its_engines_have_the_new_weights(agent, engine, trainer, assert_at):
    engines = [engine(kind) for kind in StandIn.KINDS]
    trainer.publish(1)
    a = agent(trainer, *engines)
    a.wait_for_version(1)
    last = engines[-1]
    last.hold("load")
    trainer.publish(3)
    wait_for(lambda: [e.serves() for e in engines[:-1]] == [trainer.digest(3)] * 2, "the others' loads")
    assert last.serves() == trainer.digest(1) and all(e.paused for e in engines), "none goes on before all can"
    a.kill()
    last.release()
    b = agent(trainer, *engines)
    b.wait_for_version(3)
    assert_at(b, trainer, 3, *engines)
    assert b.status()["last_update"]["engines_by_changes"] == 0


@pytest.mark.parametrize("failpoint", ["apply.journal_written", "apply.tensors_half_written", "undo.durable"])
def test_a_step_that_fails_once_is_made_again_by_the_same_agent(failpoint, agent, engine, trainer, assert_at):
    """As on a disk that was full for a moment. What was begun is finished, although nobody restarts anything."""
    e = engine("vllm plugin")
    trainer.publish(5)
    options = ("--base", trainer.path(0))
    a = agent(trainer, e, options=options, failpoints=f"{failpoint}:error@1")
    status = a.wait_for_version(5)
    assert_at(a, trainer, 5, e)
    assert status["failures"] > 0 and f"failpoint {failpoint}" in a.log
