"""Cases that befell others: what engines, boards and supervisors do to an agent. Of an engine's fault in each step of a
switch, and of kills, see agent_crash_test.py; of following, follow_test.py."""

import json
import shutil
import threading

import pytest

import board_files
from agent_process import passes, wait_for
from checkpoint_files import assert_same_files, flip_bit
from stand_in import LONG_PROMPT, Request, StandIn
from trainer import Trainer

each_kind = pytest.mark.parametrize("kind", StandIn.KINDS)
vllm = pytest.mark.parametrize("kind", ["vllm plugin", "vllm reload"])


def objects_of(trainer, version):
    """What leads to this version, but for its manifest."""
    names = ("delta-*", "skip-*")
    folder = board_files.version_dir(trainer.board, trainer.run, version)
    found = [path for name in names for path in folder.glob(name)]
    return found + list(trainer.board.glob(f"runs/{trainer.run}/anchors/{version:09d}/*.*"))


@each_kind
def test_G1_an_engine_on_its_boot_weights_is_never_called_ready(kind, agent, engine, trainer, assert_at):
    trainer.publish(9)
    e = engine(kind)
    e.hold("load")
    a = agent(trainer, e)
    a.wait(lambda status: status["phase"] == "switching")
    status = a.status()
    assert not status["ready"] and status["serves"] is None
    assert not any(view["in_rotation"] for view in status["engines"])
    code, text = a.get("/readyz")
    assert code == 503 and json.loads(text)["because"]
    e.release()

    def ready():
        if a.get("/readyz")[0] != 200:
            return False
        assert e.serves() == trainer.digest(9)
        return True

    wait_for(ready, "readiness")
    a.wait_for_version(9)
    assert_at(a, trainer, 9, e)


def test_G1_where_the_wanted_version_cannot_be_reached_nothing_else_is_served_instead(agent, engine, trainer):
    trainer.publish(9)
    for path in objects_of(trainer, 9):
        flip_bit(path, path.stat().st_size // 2)
    e = engine("vllm plugin")
    a = agent(trainer, e)
    status = a.wait(lambda status: status["failure"] and status["failure"]["count"] > 2)
    assert not status["ready"] and status["degraded"] and status["serves"] is None
    assert a.get("/readyz")[0] == 503 and e.count("load") == 0


def test_G5_a_late_joiner_begins_at_the_newest_anchor_and_says_what_it_cost(agent, trainer, assert_at):
    trainer.publish(100)
    manifest = json.loads((trainer.board / board_files.head_of(trainer.board, "r")["manifest"]["key"]).read_text())
    newest = manifest["anchors"][0]["version"]
    assert newest > 50, "the board has an anchor near its head"
    a = agent(trainer)
    update = a.wait_for_version(100)["last_update"]
    assert_at(a, trainer, 100)
    assert update["how"] == "anchor" and update["from"] is None
    assert update["patches"] <= 100 - newest
    assert update["bytes_fetched"] == a.metrics()["skerry_update_fetched_bytes_sum"] > 0
    assert "r@100 is live on 1 of 1 engines (anchor): " in a.log and f"{update['bytes_fetched']} bytes" in a.log


def test_G5_a_way_of_very_many_patches_is_gone_and_said_once(agent, models, tmp_path, assert_at):
    """A publisher that leaves neither skips nor anchors. The agent's first passes fail on that way."""
    many = 65
    late = Trainer(models, tmp_path / "late" / "b").train(many + 1, "--anchor-tail", 0, forgetful=True)
    late = late.copy(tmp_path / "b", many)
    reached = 39
    (damaged,) = objects_of(late, reached + 1)
    flip_bit(damaged, damaged.stat().st_size // 2)
    a = agent(late)
    a.wait(lambda status: status["failure"] and status["failure"]["count"] >= 2)
    flip_bit(damaged, damaged.stat().st_size // 2)
    a.command("wake")
    update = a.wait_for_version(many)["last_update"]
    assert_at(a, late, many)
    assert (update["how"], update["patches"]) == ("anchor", many - reached), "it goes on with what it had begun"
    late.publish(many + 1)
    a.wait_for_version(many + 1)
    said = f"{many} patches lead to version {many} of run r"
    assert a.log.count(said) == a.log.count("patches lead to") == 1, a.log


def test_G12_a_version_that_stays_damaged_keeps_the_agent_degraded_at_the_old_one(agent, engine, trainer, assert_at):
    trainer.publish(2)
    e = engine("vllm plugin")
    a = agent(trainer, e)
    a.wait_for_version(2)
    damaged = objects_of(trainer, 3)
    assert damaged
    for path in damaged:
        flip_bit(path, path.stat().st_size // 2)
    trainer.publish(3)
    status = a.wait(lambda status: status["failure"] and status["failure"]["count"] >= 3)
    assert (status["version"], status["behind"], status["degraded"], status["failure"]["cause"]) == (
        2, 1, True, "corrupt")  # fmt: skip
    assert_at(a, trainer, 2, e)
    metrics = a.metrics()
    assert metrics['skerry_failures_total{cause="corrupt",stage="stage"}'] >= 3
    assert (metrics["skerry_degraded"], metrics["skerry_versions_behind"]) == (1, 1)
    message = status["failure"]["message"]
    assert a.log.count(message) == 1, "the same again and again is told once"
    # Sticky, until it is overcome; and remembered.
    for path in damaged:
        flip_bit(path, path.stat().st_size // 2)
    a.command("wake")
    status = a.wait_for_version(3)
    assert_at(a, trainer, 3, e)
    assert status["failure"]["message"] == message and a.metrics()["skerry_degraded"] == 0


@each_kind
def test_H2_a_switch_forgets_what_older_weights_computed(kind, agent, engine, trainer):
    e = engine(kind)
    a = agent(trainer, e)
    for version in (0, 1, 2):
        trainer.publish(version)
        a.wait_for_version(version)
        for _ in range(2):
            assert e.token(LONG_PROMPT) == f"w:{trainer.digest(version)[:8]}"
    if kind.startswith("vllm"):  # it has a cache of images, too
        routes = [entry["route"] for entry in e.contract.trace]
        assert routes.count("POST /reset_encoder_cache") == routes.count("POST /reset_prefix_cache") == 3


@each_kind
def test_H2_caches_are_kept_only_when_asked_for(kind, agent, engine, trainer):
    e = engine(kind)
    a = agent(trainer, e, options=("--kv", "keep"))
    a.wait_for_version(0)
    e.token(LONG_PROMPT)
    trainer.publish(1)
    a.wait_for_version(1)
    assert e.token(LONG_PROMPT) == f"w:{trainer.digest(1)[:8]}/p:{trainer.digest(0)[:8]}"
    assert e.count("reset") == 0


@each_kind
def test_H3_a_cache_is_flushed_although_a_request_runs_and_keeps_its_place(kind, agent, engine, trainer, assert_at):
    e = engine(kind, token_seconds=0.01)
    a = agent(trainer, e)
    a.wait_for_version(0)
    request = Request(e, 1_000_000)
    wait_for(lambda: e.contract.running, "the request")
    trainer.publish(1)
    a.wait_for_version(1)
    assert e.contract.running == 1
    with e.contract.lock:
        e.contract.end_requests()
    tokens = request.tokens()
    old, new = f"w:{trainer.digest(0)[:8]}", f"w:{trainer.digest(1)[:8]}"
    assert (tokens[0], tokens[-1], set(tokens)) == (old, new, {old, new})


def test_H4_of_three_engines_one_that_fails_and_one_that_hangs_are_out(agent, engine, trainer, assert_at):
    whole, failing, hanging = (engine("vllm plugin") for _ in range(3))
    a = agent(trainer, whole, failing, hanging, options=("--load-timeout", 2))
    a.wait_for_version(0)
    failing.fault("load", "500", times=-1)
    hanging.fault("load", "hang", times=-1)
    trainer.publish(1)
    status = a.wait(lambda status: status["version"] == 1)
    assert [(view["serves"], view["in_rotation"]) for view in status["engines"]] == [
        ("r@1", True), (None, False), (None, False)]  # fmt: skip
    assert status["degraded"] and status["last_update"]["engines"] == 1
    assert "/collective_rpc" in status["engines"][1]["problem"] and "/collective_rpc" in status["engines"][2]["problem"]
    metrics = a.metrics()
    assert (metrics["skerry_engines"], metrics["skerry_engines_in_rotation"]) == (3, 1)
    assert "live on 1 of 3 engines" in a.log
    assert_at(a, trainer, 1, whole)
    loads = whole.count("load")
    failing.mend()
    hanging.mend()
    a.command("wake")
    a.wait_for_version(1)
    assert_at(a, trainer, 1, whole, failing, hanging)
    assert whole.count("load") == loads, "who serves it already is left alone"


def test_H6_an_engine_that_reads_old_files_is_found_by_its_checksums(agent, engine, trainer):
    """It keeps what it once read from a path."""
    e = engine("sglang", query="?verify=checksum", caches_files=True)
    a = agent(trainer, e)
    a.wait_for_version(0)
    trainer.publish(1)
    status = a.wait(lambda status: status["degraded"])
    assert "old files" in status["engines"][0]["problem"] and not status["engines"][0]["in_rotation"]
    assert status["serves"] is None and e.serves() == trainer.digest(0)


@vllm
@pytest.mark.parametrize("level", ["1", "2"])
def test_H7_an_engine_asleep_gets_no_weights_and_when_awake_all_of_them(kind, level, agent, engine, trainer, assert_at):
    e = engine(kind)
    a = agent(trainer, e)
    a.wait_for_version(0)
    with e.contract.lock:
        e.contract.sleep(level)
    status = a.wait(lambda status: status["engines"][0]["asleep"])
    assert not status["engines"][0]["in_rotation"] and not status["ready"]
    e.forget()
    trainer.publish(1)
    a.wait(lambda status: status["checkpoint"]["version"] == 1)
    passes(a)
    assert [e.count(phase) for phase in ("prepare", "pause", "load")] == [0, 0, 0]
    with e.contract.lock:
        e.contract.wake_up()
    update = a.wait_for_version(1)["last_update"]
    assert_at(a, trainer, 1, e)
    assert update["engines_by_changes"] == 0


@each_kind
def test_H13_a_load_that_never_answers_ends_with_its_time_and_holds_up_nobody_else(
    kind, agent, engine, trainer, assert_at
):
    e = engine(kind)
    a = agent(trainer, e, options=("--load-timeout", 3))
    a.wait_for_version(0)
    e.fault("load", "hang", times=-1)
    trainer.publish(1)
    wait_for(lambda: e.count("load") > 1, "the load that hangs")
    assert a.status()["phase"] == "switching" and a.get("/healthz")[0] == a.get("/metrics")[0] == 200
    status = a.wait(lambda status: status["degraded"])
    assert e.calls("load")[-1]["route"].split()[1] in status["engines"][0]["problem"]
    # Neither the checkpoint nor the other calls are held: another agent moves on.
    trainer.publish(2)
    other = agent(trainer, name="other")
    other.wait_for_version(2)
    e.mend()
    a.command("wake")
    a.wait_for_version(2)
    assert_at(a, trainer, 2, e)


@each_kind
def test_L3_nothing_is_fetched_or_decoded_while_an_engine_is_paused(kind, agent, engine, trainer, assert_at, tmp_path):
    e = engine(kind)
    a = agent(trainer, e)
    a.wait_for_version(0)
    e.forget()
    e.hold("pause")
    trainer.publish(4)
    wait_for(lambda: e.count("pause"), "the pause")
    # All of the version is there, and the engine still answers from the old one.
    assert_same_files(a.state / "checkpoint", trainer.files(4))
    assert e.token() == f"w:{trainer.digest(0)[:8]}"
    shutil.move(trainer.board, tmp_path / "gone")
    e.release()
    a.wait(lambda status: status["serves"] == "r@4")
    assert_at(a, trainer, 4, e)
    (begin,), (end,) = e.calls("pause"), e.calls("resume")
    within = [entry["route"] for entry in e.contract.trace if begin["end"] <= entry["begin"] <= end["begin"]]
    assert not any("prepare" in route for route in within), within
    seconds = a.status()["last_update"]["seconds"]
    parts = sum(seconds[part] for part in ("pause", "load", "reset_cache", "verify", "resume"))
    assert parts <= seconds["paused"] + 1e-6


def test_many_readers_of_the_status_do_not_keep_an_agent_from_its_work(agent, trainer, assert_at):
    a = agent(trainer)
    a.wait_for_version(0)
    stop = threading.Event()

    def read():
        while not stop.is_set():
            a.status()
            a.metrics()

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for version in (3, 5):
        trainer.publish(version)
        a.wait_for_version(version)
    stop.set()
    for reader in readers:
        reader.join()
    assert_at(a, trainer, 5)
