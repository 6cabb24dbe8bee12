"""Who may do what, what is told to whom, how an agent ends, what it measures, how it minds its checkpoint."""

import json
import math
import os

import pytest

import small_model
from agent_process import wait_for
from checkpoint_files import WIDTHS, assert_same_files, flip_bit, tensor_bytes
from fake_s3 import FakeS3
from program import FAILED, USAGE
from servers import environment_of, url_of

ADMIN, USER, ENGINE = "admin-1f6e0d9b", "user-77c2a41e", "engine-5b08d3f2"


@pytest.fixture
def tokens(tmp_path):
    """Options with files that hold the tokens."""
    options = []
    for flag, token in (("--admin-token-file", ADMIN), ("--user-token-file", USER), ("--engine-token-file", ENGINE)):
        path = tmp_path / flag.strip("-")
        path.write_text(token + "\n")
        options += [flag, path]
    return tuple(options)


@pytest.fixture
def s3(trainer):
    """The trainer's board on an S3 server; publish(version) moves both."""
    with FakeS3() as server:

        def publish(version):
            trainer.publish(version)
            for path in trainer.board.rglob("*"):
                if path.is_file() and not path.name.startswith("."):
                    server.put(f"b/{path.relative_to(trainer.board)}", path.read_bytes())

        server.publish = publish
        publish(0)
        yield server


def test_K1_orders_want_the_admins_token_and_a_wake_the_users(agent, trainer, tokens):
    trainer.publish(2)
    a = agent(trainer, options=tokens)
    a.wait_for_version(2)
    assert a.url.startswith("http://127.0.0.1:")
    orders = [
        ("POST", "/v1/skerry/wake", None, (401, 401, 202, 202)),
        ("PUT", "/v1/skerry/policy", {"follow": "head"}, (401, 401, 403, 200)),
        ("DELETE", "/v1/skerry/policy", None, (401, 401, 403, 200)),
        ("POST", "/v1/skerry/rollback", {"steps": 1}, (401, 401, 403, 202)),
    ]
    for method, path, body, expected in orders:
        answers = [a.ask(method, path, body, token) for token in (None, "wrong", USER, ADMIN)]
        assert tuple(code for code, _, _ in answers) == expected, (method, path)
        assert answers[0][2]["WWW-Authenticate"] == "Bearer"
    a.wait_for_version(1)


def test_K1_what_makes_no_sense_is_refused_and_changes_nothing(agent, trainer):
    trainer.publish(2)
    a = agent(trainer)
    a.wait_for_version(2)
    for path, body in [
        ("policy", {"follow": "tail"}), ("policy", {"folow": "head"}), ("policy", [1]), ("policy", {"run": "../x"}),
        ("policy", {"follow": 3}), ("rollback", {}), ("rollback", {"steps": -1}), ("rollback", {"steps": 3}),
        ("rollback", {"version": 3}), ("rollback", {"version": 1, "steps": 1}),
    ]:  # fmt: skip
        code, text = a.order("PUT" if path == "policy" else "POST", f"/v1/skerry/{path}", body)
        assert code == 400 and json.loads(text)["error"]["message"], (path, body)
    assert a.order("PUT", "/v1/skerry/wake")[0] == 405 and a.order("GET", "/v1/skerry/nothing")[0] == 404
    assert json.loads(a.get("/v1/skerry/policy")[1]) == {"run": "r", "follow": "head"}


def test_an_engines_token_is_sent_to_it_and_without_it_the_engine_is_out(agent, engine, trainer, tokens, assert_at):
    e = engine("sglang", token=ENGINE)
    a = agent(trainer, e, options=tokens)
    a.wait_for_version(0)
    assert_at(a, trainer, 0, e)
    a.kill()
    b = agent(trainer, e)
    status = b.wait(lambda status: status["degraded"])
    assert "401" in status["engines"][0]["problem"] and not status["engines"][0]["in_rotation"]


@pytest.mark.parametrize("log", ["text", "json"])
def test_K2_no_secret_is_in_what_an_agent_tells(log, agent, engine, trainer, tokens, s3):
    """While all goes well, and while the board and the engines refuse and fail."""
    e = engine("vllm plugin", user="operator:engine-password@")
    webhook = "webhook=http://hook:hook-password@127.0.0.1:9/x?key=hook-query"
    secrets = [ADMIN, USER, ENGINE, "s3-secret-value", "engine-password", "hook-password", "hook-query"]
    s3.keys = {"access": ("s3-secret-value", None)}
    env = environment_of("access", "s3-secret-value")
    a = agent(trainer, e, webhook, board=url_of(s3.endpoint, "b"), env=env, options=(*tokens, "--log", log))
    told = []

    def tell():
        told.extend(a.get(path)[1] for path in ("/v1/skerry/status", "/metrics", "/readyz", "/v1/skerry/policy"))

    a.wait(lambda status: status["serves"] == "r@0")
    tell()
    e.fault("load", "500", times=-1)
    s3.publish(1)
    a.wait(lambda status: status["version"] is None)
    tell()
    s3.keys = {"access": ("another", None)}
    a.wait(lambda status: status["failure"]["stage"] == "lookup" or status["failures"] > 8)
    a.ask("POST", "/v1/skerry/rollback", {"steps": 1}, "wrong-" + ADMIN)
    tell()
    a.terminate()
    told.append(a.log)
    assert "127.0.0.1:9" in "".join(told), "the engines themselves are named"
    for secret in secrets:
        assert not any(secret in text for text in told), f"{secret} is told"
    if log == "json":
        assert all(json.loads(line)["message"] for line in a.log.splitlines())


def test_K4_a_term_while_an_engine_is_switched_lets_the_switch_end(agent, engine, trainer, assert_at):
    e = engine("vllm plugin")
    a = agent(trainer, e)
    a.wait_for_version(0)
    e.hold("load")
    trainer.publish(1)
    wait_for(lambda: e.count("load") > 1, "the load")
    a.process.terminate()
    wait_for(lambda: "SIGTERM" in a.log, "the signal's arrival")
    assert not a.ended
    e.release()
    assert a.wait_until_dead() == 0
    assert_at(a, trainer, 1, e)
    e.forget()
    b = agent(trainer, e)
    b.wait_for_version(1)
    assert e.count("load") == 0, "the engine was known to serve it"


def test_what_can_never_work_is_said_at_the_start(agent, trainer):
    for engine, complaint in [
        ("vlm=http://127.0.0.1:8000", "vlm"),
        ("vllm=127.0.0.1:8000", "expected http"),
        ("vllm=http://u:engine-password@127.0.0.1:8000?reload=maybe", "reload"),
    ]:
        a = agent(trainer, engine)
        assert a.wait_until_dead() in (FAILED, USAGE)
        assert complaint in a.log and "engine-password" not in a.log and a.log.count("\n") <= 2
    twice = agent(trainer, "vllm=http://127.0.0.1:8000", "vllm=http://127.0.0.1:8000")
    assert twice.wait_until_dead() in (FAILED, USAGE) and "twice" in twice.log


def test_K4_a_term_while_staging_leaves_the_old_version_whole(agent, engine, trainer, s3, assert_at):
    """The board does not answer meanwhile."""
    e = engine("vllm plugin")
    where = {"board": url_of(s3.endpoint, "b"), "env": environment_of()}
    a = agent(trainer, e, **where)
    a.wait_for_version(0)
    s3.fault("GET", "*.skerry", delay=3600)
    s3.publish(2)
    a.wait(lambda status: status["phase"] == "staging")
    assert a.terminate() == 0
    assert_at(a, trainer, 0, e)
    s3.clear_faults()
    b = agent(trainer, e, **where)
    b.wait_for_version(2)
    assert_at(b, trainer, 2, e)


def changed_elements(old, new):
    """Indices of the elements of a tensor that differ."""
    width = WIDTHS[new.dtype]
    return [
        at // width for at in range(0, len(new.data), width) if old.data[at : at + width] != new.data[at : at + width]
    ]


def test_K5_an_update_is_measured_step_by_step(agent, engine, trainer):
    e = engine("vllm plugin")
    a = agent(trainer, e)
    a.wait_for_version(0)
    before = a.metrics()
    trainer.publish(3)
    update = a.wait_for_version(3)["last_update"]
    after = a.metrics()

    def grown(name):
        return after[name] - before.get(name, 0)

    for stage in ("lookup", "fetch", "decode", "stage", "probe", "prepare", "pause", "commit", "resume"):
        assert grown(f'skerry_stage_seconds_count{{stage="{stage}"}}') >= 1, stage
    old, new = small_model.tensors(0), small_model.tensors(3)
    elements = sum(math.prod(tensor.shape) for tensor in new.values())
    patched = update["changed"]
    differing = sum(len(changed_elements(old[name], new[name])) for name in new)
    assert patched >= differing > 0, "an element that changed twice counts twice"
    assert grown("skerry_update_changed_elements_sum") == patched
    assert math.isclose(grown("skerry_update_density_ratio_sum"), patched / elements, rel_tol=1e-6)
    assert math.isclose(update["density"], patched / elements, rel_tol=1e-6)
    assert grown("skerry_update_fetched_bytes_sum") == update["bytes_fetched"] > 0
    assert (grown("skerry_update_versions_sum"), grown("skerry_update_seconds_count")) == (3, 1)
    assert 0 < grown("skerry_update_paused_seconds_sum") <= grown("skerry_update_seconds_sum")
    assert (after["skerry_versions_behind"], after["skerry_live_version"], after["skerry_ready"]) == (0, 3, 1)
    assert set(update["seconds"]) == {"plan", "fetch", "decode", "stage", "probe", "prepare", "paused", "pause", "load",
                                      "reset_cache", "verify", "resume"}  # fmt: skip


SCRUB = ("--scrub-rate", 50)


@pytest.mark.parametrize("file", ["weights", "side file"])
def test_the_scrubber_finds_a_byte_that_changed_and_the_checkpoint_is_rebuilt(file, agent, engine, trainer, assert_at):
    """The engine has what it has: it is left alone."""
    trainer.publish(2)
    e = engine("vllm plugin")
    a = agent(trainer, e, options=SCRUB)
    a.wait_for_version(2)
    a.wait(lambda status: status["scrub"]["rounds"] > 0, "a round of the scrubber")
    calls = [e.count(phase) for phase in ("prepare", "pause", "load")]
    checkpoint = a.state / "checkpoint"
    shard = checkpoint / small_model.SHARD1
    damaged = (shard, tensor_bytes(shard, "layers.0.w")[0] + 7) if file == "weights" else (
        checkpoint / "tokenizer.json", 3)  # fmt: skip
    flip_bit(*damaged)
    status = a.wait(lambda status: status["scrub"]["mismatches"] > 0, "the mismatch")
    assert status["failure"]["stage"] == "scrub" and status["failure"]["cause"] == "corrupt"
    assert damaged[0].name in status["failure"]["message"]
    wait_for(lambda: checkpoint.exists() and _same(checkpoint, trainer.files(2)), "the checkpoint's repair")
    a.wait_for_version(2)
    assert_at(a, trainer, 2, e)
    assert [e.count(phase) for phase in ("prepare", "pause", "load")] == calls
    assert a.metrics()["skerry_scrub_mismatches_total"] >= 1 and "rebuilt" in a.log
    trainer.publish(4)
    a.wait_for_version(4)
    assert_at(a, trainer, 4, e)


@pytest.mark.parametrize("damage", ["changed", "removed"])
def test_side_files_that_were_damaged_while_no_agent_was_there_are_found_by_the_versions_manifest(
    damage, agent, engine, trainer, assert_at
):
    trainer.publish(2)
    e = engine("vllm plugin")
    a = agent(trainer, e)
    a.wait_for_version(2)
    a.terminate()
    damaged = a.state / "checkpoint" / "tokenizer.json"
    if damage == "changed":
        flip_bit(damaged, 3)
    else:
        damaged.unlink()
    a = agent(trainer, e, options=SCRUB)
    status = a.wait(lambda status: status["scrub"]["mismatches"] > 0, "the mismatch")
    assert (status["failure"]["stage"], status["failure"]["cause"]) == ("scrub", "corrupt")
    assert str(damaged) in status["failure"]["message"]
    wait_for(lambda: damaged.exists() and _same(a.state / "checkpoint", trainer.files(2)), "the checkpoint's repair")
    a.wait_for_version(2)
    assert_at(a, trainer, 2, e)
    # What it learned of one version is not said of the next one, and what is not the version's is left alone.
    for version in (3, 4):
        trainer.publish(version)
        a.wait_for_version(version)
    (a.state / "checkpoint" / "notes.txt").write_text("mine")
    rounds = a.status()["scrub"]["rounds"]
    status = a.wait(lambda status: status["scrub"]["rounds"] > rounds + 1, "two rounds of the scrubber")
    assert status["scrub"]["mismatches"] == 1 and not status["degraded"]


def _same(directory, files):
    try:
        assert_same_files(directory, files)
    except (AssertionError, OSError):
        return False
    return True


def test_damage_to_an_element_that_an_update_changes_is_found_without_the_scrubber(agent, engine, trainer, assert_at):
    trainer.publish(1)
    e = engine("vllm plugin")
    a = agent(trainer, e)
    a.wait_for_version(1)
    shard = a.state / "checkpoint" / small_model.SHARD1
    name = "layers.0.w"
    changed = changed_elements(small_model.tensors(1)[name], small_model.tensors(2)[name])
    flip_bit(shard, tensor_bytes(shard, name)[0] + 2 * changed[0])
    trainer.publish(2)
    a.wait_for_version(2)
    assert_at(a, trainer, 2, e)
    assert "damaged" in a.log


def test_a_policy_file_that_says_nothing_is_an_alarm_and_not_the_head(agent, trainer, assert_at):
    trainer.publish(1)
    a = agent(trainer)
    a.wait_for_version(1)
    (a.state / "policy.json").write_bytes(os.urandom(32))
    trainer.publish(2)
    status = a.wait(lambda status: status["degraded"])
    assert "policy.json" in status["failure"]["message"] and status["version"] == 1
    assert_at(a, trainer, 1)
    a.follow("--reset")
    a.wait_for_version(2)
