"""An agent follows a run: its checkpoint is the trainer's, file by file, and its engines serve just that."""

import json
import time

import pytest

from agent_process import passes, wait_for
from checkpoint_files import assert_same_files
from program import CONFLICT, skerry
from stand_in import StandIn

NEVER = ("--poll", 3_600_000)
each_kind = pytest.mark.parametrize("kind", StandIn.KINDS)


def test_an_agent_without_engines_keeps_the_checkpoint_at_the_head(agent, trainer, assert_at):
    a = agent(trainer)
    for version in (0, 1, 2):
        trainer.publish(version)
        status = a.wait_for_version(version)
        assert_at(a, trainer, version)
        assert (status["ready"], status["behind"], a.get("/readyz")[0]) == (True, 0, 200)


@each_kind
def test_engines_follow_version_after_version(kind, agent, engine, trainer, assert_at):
    e = engine(kind)
    a = agent(trainer, e)
    for version in (0, 1, 2, 3):
        trainer.publish(version)
        update = a.wait_for_version(version)["last_update"]
        assert_at(a, trainer, version, e)
        assert update["engines"] == 1
        # What an engine booted with is nobody's word: the first switch brings the whole model.
        assert update["engines_by_changes"] == (1 if kind == "vllm plugin" and version > 0 else 0)
    assert a.status()["failures"] == 0


TOLD = ["prepare", "pause", "load", "reset_cache", "verify", "resume"]


def test_a_command_is_run_for_each_phase_of_a_switch(agent, trainer, assert_at, tmp_path):
    """It can't be asked what it serves: another agent tells it again."""
    told = tmp_path / "told"
    command = f'exec=test -d "$SKERRY_CHECKPOINT" && echo $SKERRY_PHASE $SKERRY_LABEL >> {told}'
    a = agent(trainer, command)
    for version in (0, 1):
        trainer.publish(version)
        a.wait_for_version(version)
        assert_at(a, trainer, version)
    phases = [f"{phase} r@{version}" for version in (0, 1) for phase in TOLD]
    assert told.read_text().splitlines() == phases
    a.kill()
    b = agent(trainer, command)
    b.wait_for_version(1)
    assert told.read_text().splitlines() == phases + phases[len(TOLD) :]


@each_kind
@pytest.mark.parametrize("versions", [6, 20])
def test_G2_however_many_versions_behind_are_one_pause_and_one_load(kind, versions, agent, engine, trainer, assert_at):
    e = engine(kind)
    a = agent(trainer, e)
    a.wait_for_version(0)
    e.forget()
    trainer.publish(versions)
    a.wait_for_version(versions)
    assert_at(a, trainer, versions, e)
    assert [e.count(phase) for phase in ("pause", "load", "resume")] == [1, 1, 1]
    # Asked for what it has, it does nothing.
    prepared = e.count("prepare")
    a.command("wake")
    passes(a)
    assert [e.count(phase) for phase in ("prepare", "pause", "load")] == [prepared, 1, 1]
    assert a.status()["updates"] == 2


def test_G9_an_agent_slower_than_the_publisher_skips_versions_and_never_starves(agent, engine, trainer, assert_at):
    """100 versions, 50 ms apart; a load takes half a second."""
    e = engine("vllm plugin")
    e.slow_down("load", 0.5)
    a = agent(trainer, e, options=("--poll", 50))
    a.wait_for_version(0)
    e.forget()
    live = []
    for version in range(1, 101):
        trainer.publish(version)
        live.append(a.status()["version"])
        time.sleep(0.05)  # the publisher's pace
    a.wait_for_version(100)
    assert_at(a, trainer, 100, e)
    assert live == sorted(live) and live[-1] > 0, "versions go live while more are published"
    assert 1 < e.count("load") < 50, "it takes several versions at once"
    assert a.status()["updates"] == e.count("load") + 1, "each stage ends in a switch"


def test_G8_a_wake_during_a_pass_leads_to_another_pass(agent, engine, trainer, assert_at):
    e = engine("vllm plugin")
    a = agent(trainer, e, options=NEVER)
    a.wait_for_version(0)
    e.hold("load")
    trainer.publish(1)
    assert a.order("POST", "/v1/skerry/wake")[0] == 202
    wait_for(lambda: e.paused, "the switch to version 1")
    trainer.publish(2)
    assert a.order("POST", "/v1/skerry/wake")[0] == 202
    e.release()
    a.wait_for_version(2)
    assert_at(a, trainer, 2, e)


def test_G13_a_run_that_is_not_there_yet_is_waited_for(agent, trainer, assert_at, tmp_path):
    """First there is no board at all, then no such run."""
    hidden = trainer.board.rename(tmp_path / "hidden")
    a = agent(trainer)
    status = a.wait(lambda status: status["degraded"])  # at the end of a pass that failed
    assert not status["ready"] and status["failure"]["cause"] == "unavailable"
    hidden.rename(trainer.board)
    a.wait_for_version(0)
    assert_at(a, trainer, 0)

    b = agent(trainer, run="later", state=tmp_path / "second")
    status = b.wait(lambda status: status["failure"] is not None)
    assert "not there yet" in status["failure"]["message"] and "later" in status["failure"]["message"]
    assert b.get("/readyz")[0] == 503 and not b.ended


def test_an_island_may_lag_a_few_versions_and_then_goes_to_the_head(agent, engine, trainer, assert_at):
    e = engine("vllm plugin")
    a = agent(trainer, e, options=("--follow", "head~3"))
    a.wait_for_version(0)
    trainer.publish(3)
    a.wait(lambda status: status["head"] == 3)
    passes(a)
    assert (a.status()["version"], a.status()["behind"]) == (0, 3)
    trainer.publish(4)
    a.wait_for_version(4)
    assert_at(a, trainer, 4, e)


def test_a_pinned_version_is_kept_and_one_beyond_the_head_is_waited_for(agent, trainer, assert_at):
    trainer.publish(5)
    a = agent(trainer, options=("--follow", 2))
    a.wait_for_version(2)
    trainer.publish(6)
    a.wait(lambda status: status["head"] == 6)
    passes(a)
    assert_at(a, trainer, 2)
    a.follow("8")
    status = a.wait(lambda status: status["failure"] is not None)
    assert "8" in status["failure"]["message"] and "6" in status["failure"]["message"]
    assert (status["version"], status["ready"]) == (2, True), "the old version goes on"
    trainer.publish(9)
    a.wait_for_version(8)
    assert_at(a, trainer, 8)


def test_what_an_operator_says_outlives_the_agent_until_it_is_taken_back(agent, trainer):
    trainer.publish(4)
    a = agent(trainer)
    a.wait_for_version(4)
    a.follow("3")
    a.wait_for_version(3)
    a.kill()
    b = agent(trainer)
    b.wait_for_version(3)
    assert b.status()["follow"] == "3"
    b.follow("--reset")
    b.wait_for_version(4)
    assert b.status()["follow"] == "head"


@each_kind
def test_rollback_goes_ten_versions_back_one_by_one_and_forward_again(kind, agent, engine, trainer, assert_at):
    e = engine(kind)
    trainer.publish(2)
    a = agent(trainer, e, options=("--keep-undo", 10))
    a.wait_for_version(2)
    trainer.publish(12)
    a.wait_for_version(12)
    for version in range(11, 1, -1):
        a.command("rollback")
        update = a.wait_for_version(version)["last_update"]
        assert_at(a, trainer, version, e)
        assert (update["how"], update["bytes_fetched"]) == ("undo", 0)
        if kind == "vllm plugin":
            assert update["engines_by_changes"] == 1
    a.follow("head")
    a.wait_for_version(12)
    assert_at(a, trainer, 12, e)
    a.command("rollback", "--to", 4)
    a.wait_for_version(4)
    assert_at(a, trainer, 4, e)


def test_a_rollback_beyond_the_undo_log_goes_over_the_board(agent, engine, trainer, assert_at):
    e = engine("vllm plugin")
    a = agent(trainer, e, options=("--keep-undo", 2))
    a.wait_for_version(0)
    trainer.publish(6)
    a.wait_for_version(6)
    a.command("rollback", "--steps", 5)
    assert a.wait_for_version(1)["last_update"]["how"] == "anchor"
    assert_at(a, trainer, 1, e)


def test_G11_another_run_replaces_the_checkpoint_and_the_weights(agent, engine, trainer, other_run, assert_at):
    engines = [engine(kind) for kind in StandIn.KINDS]
    trainer.publish(9)
    a = agent(trainer, *engines)
    a.wait_for_version(9)
    a.follow("--run", "other")
    status = a.wait_for_version(0, run="other")
    assert (status["run"], status["version"], status["head"]) == ("other", 0, 0)
    assert_at(a, other_run, 0, *engines)
    other_run.publish(3)
    a.wait_for_version(3, run="other")
    assert_at(a, other_run, 3, *engines)
    a.follow("--run", "r")
    a.wait_for_version(9)
    assert_at(a, trainer, 9, *engines)


def test_G16_a_base_of_the_wrong_revision_is_refused(agent, engine, trainer):
    """Same names and shapes, other weights."""
    e = engine("vllm plugin")
    a = agent(trainer, e, options=("--base", trainer.path(3)))
    status = a.wait(lambda status: status["failure"] is not None)
    assert status["failure"]["cause"] == "mismatch" and not status["ready"] and status["serves"] is None
    assert not (a.state / "checkpoint").exists()
    assert e.count("load") == 0


def test_with_the_right_base_no_anchor_is_fetched(agent, trainer, assert_at):
    trainer.publish(3)
    patches = sum(
        path.stat().st_size
        for version in (1, 2, 3)
        for path in trainer.board.glob(f"runs/r/versions/{version:09d}/delta-*")
    )
    a = agent(trainer, options=("--base", trainer.path(0)))
    update = a.wait_for_version(3)["last_update"]
    assert_at(a, trainer, 3)
    assert (update["how"], update["bytes_fetched"]) == ("patches", patches)


def four_agents(agent, engine, trainer, *options):
    engines = [engine("vllm plugin") for _ in range(4)]
    return engines, [agent(trainer, e, name=f"a{i}", options=options) for i, e in enumerate(engines)]


def test_G14_of_four_agents_on_one_checkpoint_one_stages_and_all_switch(agent, engine, trainer, assert_at):
    engines, four = four_agents(agent, engine, trainer)
    for a in four:
        a.wait_for_version(0)
    before = sum(a.metrics()["skerry_update_fetched_bytes_sum"] for a in four)
    trainer.publish(6)
    updates = [a.wait_for_version(6)["last_update"] for a in four]
    assert_at(four[0], trainer, 6, *engines)
    fetched = sum(a.metrics()["skerry_update_fetched_bytes_sum"] for a in four) - before
    assert fetched == max(update["bytes_fetched"] for update in updates) > 0, "one download"
    assert sum(update["patches"] > 0 for update in updates) == 1, "one apply"
    assert sum(update["engines_by_changes"] for update in updates) == 4


def test_G14_when_the_one_that_stages_is_killed_another_finishes(agent, engine, trainer, assert_at):
    engines, four = four_agents(agent, engine, trainer, *NEVER)
    for a in four:
        a.wait_for_version(0)
    four[0].kill()
    doomed = agent(trainer, engines[0], name="a0", options=NEVER, failpoints="apply.tensors_half_written:kill")
    doomed.url  # noqa: B018 (it listens)
    trainer.publish(2)
    doomed.order("POST", "/v1/skerry/wake")
    assert doomed.wait_until_dead() == -9
    for a in four[1:]:
        a.command("wake")
    for a in four[1:]:
        a.wait_for_version(2)
    assert_at(four[1], trainer, 2, *engines[1:])
    again = agent(trainer, engines[0], name="a0", options=NEVER)
    again.wait_for_version(2)
    assert_at(again, trainer, 2, *engines)


def test_a_second_agent_of_the_same_name_is_refused_and_harms_nothing(agent, engine, trainer, assert_at):
    e = engine("vllm plugin")
    a = agent(trainer, e)
    a.wait_for_version(0)
    contact = a.contact
    b = agent(trainer, e)
    assert b.wait_until_dead() == CONFLICT
    assert str(a.process.pid) in b.log and "agent" in b.log
    assert a.contact == contact
    trainer.publish(1)
    a.wait_for_version(1)
    assert_at(a, trainer, 1, e)


def test_a_killed_agents_place_is_taken_at_once_and_the_engine_is_not_switched_again(agent, engine, trainer):
    """What the engine serves stands in the records, and it says so itself."""
    e = engine("vllm plugin")
    trainer.publish(3)
    a = agent(trainer, e)
    a.wait_for_version(3)
    token = a.contact["admin_token"]
    a.kill()
    e.forget()
    b = agent(trainer, e)
    b.wait_for_version(3)
    assert e.count("load") == e.count("pause") == 0
    assert b.contact["admin_token"] == token


def test_trust_in_signatures_is_the_agents_as_it_is_of_every_reader(agent, trainer, tmp_path):
    """Versions that nobody signed are not followed where a key is asked for."""
    skerry("keygen", "-o", tmp_path / "key")
    a = agent(trainer, options=("--trust-key", tmp_path / "key.pub"))
    status = a.wait(lambda status: status["failure"] is not None)
    assert "sign" in status["failure"]["message"] and not status["ready"]
    assert not (a.state / "checkpoint").exists()


def test_the_contact_is_its_owners_alone_and_says_where_the_agent_is(agent, trainer):
    a = agent(trainer)
    a.wait_for_version(0)
    path = a.state / "agents" / "agent" / "contact.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert a.contact["url"] == a.url and len(a.contact["admin_token"]) >= 32
    assert json.loads(a.command("wake", "--json").out) == {"woken": True}
    assert_same_files(a.state / "checkpoint", trainer.files(0))
