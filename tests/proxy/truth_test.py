"""What an answer says of its versions is true: each token of the stand-ins names the weights that made it.

SKERRY_PROXY_COMMITS: how many versions the crowd lives through (12; with -m slow 200)."""

import os
import threading
import time

import pytest

from agent_process import wait_for
from asking import Stream, ask_for, assert_true, at_least, exact, read_events, read_json, refusal
from crowd import Crowd
from raw_client import Client, Cut, request
from stand_in import StandIn
from trainer import Trainer

CLIENTS = 64
COMMITS = int(os.environ.get("SKERRY_PROXY_COMMITS", 12))
each_kind = pytest.mark.parametrize("kind", StandIn.KINDS)
each_vllm = pytest.mark.parametrize("kind", ["vllm plugin", "vllm reload"])  # SGLang can't be drained


def live_through(commits, agent, engines, trainer, summary, *options):
    a = agent(trainer, *engines, options=options)
    a.wait_for_version(0)
    digests = {version: trainer.digest(version) for version in range(commits + 1)}
    crowd = Crowd(a, digests, CLIENTS, streams=True)
    for version in range(1, commits + 1):
        trainer.publish(version)
        a.wait_for_version(version)
        seen = crowd.answered
        wait_for(lambda seen=seen: crowd.answered > seen + 20 or crowd.failed, "answers of this version")
    crowd.end()
    summary.append(
        f"proxy: {CLIENTS} clients with exact = current during {commits} commits {' '.join(map(str, options))}: "
        f"{crowd.answered} answers, all by the version asked for; {crowd.refused} refusals"
    )


def test_exact_answers_are_made_by_that_version_alone(agent, engine, trainer, summary):
    live_through(COMMITS, agent, [engine("vllm plugin")], trainer, summary)


@pytest.mark.parametrize(
    "kinds, options", [(["vllm plugin", "vllm reload"], ("--pause", "drain")), (StandIn.KINDS, ("--kv", "namespace"))]
)
def test_exact_answers_are_made_by_that_version_alone_on_an_island(kinds, options, agent, engine, trainer, summary):
    live_through(COMMITS // 2, agent, [engine(kind) for kind in kinds], trainer, summary, *options)


@pytest.mark.slow
def test_exact_answers_are_made_by_that_version_alone_for_200_versions(agent, engine, models, tmp_path, summary):
    trained = Trainer(models, tmp_path / "trained" / "b", "r", 0)
    trained.board.parent.mkdir()
    trainer = trained.train(200).copy(tmp_path / "b", 0)
    live_through(200, agent, [engine("vllm plugin")], trainer, summary)


@each_kind
def test_a_running_stream_goes_on_with_the_new_weights_and_each_event_says_which_made_it(kind, agent, engine, trainer):
    """--pause in-place"""
    e = engine(kind, token_seconds=0.01)
    a = agent(trainer, e)
    a.wait_for_version(0)
    digests = {version: trainer.digest(version) for version in range(4)}
    streams = [Stream(a, 1_000_000).wait_for_events(3) for _ in range(8)]
    for version in (1, 2, 3):
        trainer.publish(version)
        a.wait_for_version(version)
        for stream in streams:
            seen = stream.message.body.count(b'"weight_version": %d' % version) + stream.message.body.count(
                b'"weight_version":%d' % version
            )
            stream.wait_for_events(seen + 3)
    with e.contract.lock:
        e.contract.end_requests()
    for stream in streams:
        stamped = read_events(stream.rest())
        assert (stamped.start, stamped.end) == (0, 3)
        assert set(stamped.stamps) <= {0, 1, 2, 3, None} and stamped.stamps[0] == 0
        assert_true(stamped, digests)


def test_of_a_stream_that_is_not_read_nothing_wrong_is_said(agent, engine, trainer):
    """The engine has to stop sending; what it sends after a switch may be of either version."""
    e = engine("vllm plugin")
    a = agent(trainer, e)
    a.wait_for_version(0)
    stream = Stream(a, 1_000_000, room=4096)
    wait_for(lambda: is_stuck(e), "an engine that can't send on")
    trainer.publish(1)
    a.wait_for_version(1)
    with stream.client:
        while b'"weight_version":1' not in stream.message.body[-2000:]:
            assert stream.client.more()
        with e.contract.lock:
            e.contract.end_requests()
        stamped = read_events(stream.client.answer())
    assert (stamped.start, stamped.end, stamped.stamps[0], stamped.stamps[-1]) == (0, 1, 0, 1)
    assert_true(stamped, {version: trainer.digest(version) for version in (0, 1)}, may_be_unsure=True)


def is_stuck(engine):
    """One and the same token is being sent for a while."""
    for _ in range(5):
        with engine.contract.lock:
            before = engine.contract.made
        time.sleep(0.1)
        with engine.contract.lock:
            if engine.contract.made != before or not engine.contract.in_hand:
                return False
    return True


@each_kind
def test_a_running_answer_says_where_it_began_and_ended(kind, agent, engine, trainer):
    e = engine(kind, token_seconds=0.01)
    a = agent(trainer, e)
    a.wait_for_version(0)
    got = []
    threads = [threading.Thread(target=lambda: got.append(read_json(ask_for(a, tokens=1_000_000)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_for(lambda: e.contract.running == 4, "the requests")
    trainer.publish(1)
    a.wait_for_version(1)
    made = e.contract.made
    wait_for(lambda: e.contract.made > made + 40, "each of them to get tokens of the new version")
    with e.contract.lock:
        e.contract.end_requests()
    for thread in threads:
        thread.join(120)
    for stamped in got:
        assert (stamped.start, stamped.end) == (0, 1)
        assert_true(stamped, {version: trainer.digest(version) for version in (0, 1)})
        assert stamped.tokens[-1] == trainer.digest(1)[:8]


def wait_until_it_is_left(agent, version):
    """A switch has begun that waits for what runs: nothing new is let in that it would have to wait for, too."""
    wait_for(lambda: ask_for(agent, exact(version)).status == 409, "the switch")


def test_what_is_pinned_is_waited_for_and_never_moved(agent, engine, trainer):
    e = engine("vllm plugin", token_seconds=0.01)
    a = agent(trainer, e)
    a.wait_for_version(0)
    digests = {version: trainer.digest(version) for version in (0, 1)}
    moved = Stream(a, 1_000_000).wait_for_events(1)
    pinned = Stream(a, 300, exact(0)).wait_for_events(1)
    trainer.publish(1)
    wait_until_it_is_left(a, 0)
    stamped = read_events(pinned.rest())
    assert (stamped.start, stamped.end, len(stamped.tokens)) == (0, 0, 300)
    assert_true(stamped, digests)
    a.wait_for_version(1)
    with e.contract.lock:
        e.contract.end_requests()
    stamped = read_events(moved.rest())
    assert (stamped.start, stamped.end) == (0, 1)
    assert_true(stamped, digests)


def test_what_is_pinned_and_takes_too_long_is_cut_off_and_never_moved(agent, engine, trainer):
    e = engine("vllm plugin", token_seconds=0.01)
    a = agent(trainer, e, options=("--drain-timeout", 1))
    a.wait_for_version(0)
    pinned = Stream(a, 1_000_000, exact(0)).wait_for_events(1)
    trainer.publish(1)
    a.wait_for_version(1)
    with pytest.raises(Cut):
        pinned.rest()
    text = bytes(pinned.message.body)
    assert trainer.digest(1)[:8].encode() not in text and b"skerry.summary" not in text


@each_vllm
def test_a_draining_switch_waits_for_all_and_holds_who_comes(kind, agent, engine, trainer):
    e = engine(kind, token_seconds=0.01)
    a = agent(trainer, e, options=("--pause", "drain"))
    a.wait_for_version(0)
    stream = Stream(a, 300).wait_for_events(1)
    trainer.publish(1)
    wait_until_it_is_left(a, 0)
    got = []
    late = threading.Thread(target=lambda: got.append(read_json(ask_for(a, tokens=2))))
    late.start()
    stamped = read_events(stream.rest())
    assert (stamped.start, stamped.end, len(stamped.tokens)) == (0, 0, 300)
    assert_true(stamped, {0: trainer.digest(0)})
    late.join(120)
    assert (got[0].start, got[0].tokens) == (1, [trainer.digest(1)[:8]] * 2)
    a.wait_for_version(1)


def test_an_aborting_switch_ends_what_runs(agent, engine, trainer):
    e = engine("vllm plugin", token_seconds=0.01)
    a = agent(trainer, e, options=("--pause", "abort"))
    a.wait_for_version(0)
    stream = Stream(a, 1_000_000).wait_for_events(1)
    trainer.publish(1)
    a.wait_for_version(1)
    stamped = read_events(stream.rest())
    assert stamped.start == 0
    assert set(stamped.tokens) == {trainer.digest(0)[:8]}


def test_arriving_during_a_switch_is_held_or_refused_at_once(agent, engine, trainer):
    e = engine("vllm plugin")
    a = agent(trainer, e)
    a.wait_for_version(0)
    e.hold("load")
    trainer.publish(1)
    a.wait(lambda status: status["phase"] == "switching")
    wait_for(lambda: e.paused, "the pause")
    got = []
    asked = [[], at_least(0), at_least(1), exact(1)]
    held = [threading.Thread(target=lambda f=fields: got.append(read_json(ask_for(a, f)))) for fields in asked]
    for thread in held:
        thread.start()
    wait_for(lambda: a.metrics()["skerry_proxy_requests_held"] == len(asked), "held requests")
    for fields in (at_least(2), exact(0), exact(2)):
        assert refusal(ask_for(a, fields)) == (409, "WeightVersionNotReady"), fields
    e.release()
    for thread in held:
        thread.join(120)
    assert [(stamped.start, stamped.tokens) for stamped in got] == [(1, [trainer.digest(1)[:8]])] * len(asked)


def test_a_body_that_streams_and_is_held_arrives_whole(agent, trainer, recording, tmp_path):
    """All of it can be there with the head, or come later."""
    server, hold, loads = recording(), tmp_path / "hold", tmp_path / "loads"
    command = f'exec=test "$SKERRY_PHASE" = load || exit 0; touch {loads}; while test -e {hold}; do sleep 0.02; done'
    a = agent(trainer, command, options=server.upstream)
    a.wait_for_version(0)
    hold.touch()
    loads.unlink()
    trainer.publish(1)
    wait_for(loads.exists, "the switch")
    length, chunked = ("Content-Length", "{}"), ("Transfer-Encoding", "chunked")
    bodies = [b"hello", b"", b"hello", b"", b"x" * 3_000_000]
    sent = [
        (length, b"hello"),
        (length, b""),
        (chunked, b"5\r\nhello\r\n0\r\n\r\n"),
        (chunked, b"0\r\n\r\n"),
        (length, bodies[4]),
    ]
    clients = []
    for number, ((name, value), data) in enumerate(sent):
        head = request("PUT", f"/{number}", [(name, value.format(len(data))), *at_least(1)])
        clients.append(Client(a.url))
        sending = threading.Thread(target=clients[-1].send, args=(head + data, "PUT"), daemon=True)
        sending.start()
    try:
        wait_for(lambda: a.metrics()["skerry_proxy_requests_held"] == len(sent), "held requests")
    finally:
        hold.unlink()
    assert [client.answer().status for client in clients] == [200] * len(sent)
    assert {message.target: bytes(message.body) for message in server.requests} == {
        f"/{i}": b for i, b in enumerate(bodies)
    }


@each_vllm
def test_I4_when_the_reply_of_a_switch_is_lost_nothing_is_answered_under_the_old_number(kind, agent, engine, trainer):
    """The weights are live, and the agent was not told."""
    e = engine(kind)
    a = agent(trainer, e)
    a.wait_for_version(0)
    digests = {version: trainer.digest(version) for version in range(4)}
    crowd, failed = Crowd(a, digests, 8), []
    for version in (1, 2, 3):
        e.fault("load", "late")
        trainer.publish(version)
        a.wait(lambda status, v=version: status["serves"] == f"r@{v}" and not status["degraded"])
        failed.append(a.status()["failure"])
    crowd.end()
    assert failed[-1] and failed[-1]["stage"], "it was noticed"
    assert crowd.answered
    assert read_json(ask_for(a, exact(3))).tokens == [digests[3][:8]]


def test_I4_what_runs_on_an_engine_whose_switch_failed_is_cut_off(agent, engine, trainer):
    e = engine("vllm plugin", token_seconds=0.01)
    a = agent(trainer, e)
    a.wait_for_version(0)
    stream = Stream(a, 1_000_000).wait_for_events(1)
    e.fault("load", "late", times=-1)
    trainer.publish(1)
    with pytest.raises(Cut):
        stream.rest()
    body = bytes(stream.message.body)
    assert trainer.digest(1)[:8].encode() not in body and b"skerry.summary" not in body
    assert refusal(ask_for(a)) == (503, "NoEngineInRotation")
    e.mend()
    a.command("wake")
    a.wait_for_version(1)
    wait_for(lambda: a.metrics()["skerry_proxy_requests_in_flight"] == 0, "no request in flight")


def test_a_restarted_engine_answers_nothing_until_it_is_known_what_it_serves(agent, engine, trainer):
    e = engine("vllm plugin")
    trainer.publish(2)
    a = agent(trainer, e)
    a.wait_for_version(2)
    e.restart()  # boot weights
    a.wait(lambda status: status["engines"][0]["restarts"] > 0 or not status["engines"][0]["in_rotation"])
    a.wait_for_version(2)
    assert read_json(ask_for(a, exact(2))).tokens == [trainer.digest(2)[:8]]
