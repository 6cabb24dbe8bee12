"""An agent that is told to stop lets go of its clients in order."""

import signal
import threading
import time

import pytest

from agent_process import PATIENCE, wait_for
from asking import ROUTE, Stream, at_least, read_events, refusal
from raw_client import Client, Cut


def test_what_runs_may_end_and_nothing_new_is_begun(agent, engine, trainer):
    e = engine("vllm plugin", token_seconds=0.01)
    a = agent(trainer, e, options=("--grace", 100))
    a.wait_for_version(0)
    kept = Client(a.url)
    assert kept.ask("GET", "/v1/models").status == 200
    stream = Stream(a, 200).wait_for_events(1)
    a.process.send_signal(signal.SIGTERM)
    wait_for(lambda: refused_or_gone(kept), "the stop")
    stamped = read_events(stream.rest())
    assert len(stamped.tokens) == 200 and stamped.start == stamped.end == 0
    assert a.process.wait(PATIENCE) == 0


def refused_or_gone(client):
    try:
        return client.post(ROUTE, {"prompt": "a", "max_tokens": 1}).status == 503
    except (Cut, ConnectionError):
        return True


def test_what_does_not_end_in_its_time_is_cut_off(agent, engine, trainer):
    e = engine("vllm plugin", token_seconds=0.01)
    a = agent(trainer, e, options=("--grace", 1))
    a.wait_for_version(0)
    stream = Stream(a, 1_000_000).wait_for_events(1)
    a.process.send_signal(signal.SIGTERM)
    with pytest.raises(Cut):
        stream.rest()
    assert a.process.wait(PATIENCE) == 0
    wait_for(lambda: e.contract.running == 0, "the end of the request at the engine")


def test_held_requests_do_not_hold_up_a_stop(agent, engine, trainer):
    a = agent(trainer, engine("vllm plugin"), options=("--grace", 1000))
    a.wait_for_version(0)
    got = []

    def ask():
        try:
            with Client(a.url) as client:
                got.append(refusal(client.post(ROUTE, {"prompt": "a"}, [*at_least(5), ("Skerry-Wait", "1000")]))[0])
        except Cut:
            got.append(None)

    thread = threading.Thread(target=ask)
    thread.start()
    wait_for(lambda: a.metrics()["skerry_proxy_requests_held"] == 1, "the held request")
    begin = time.monotonic()
    assert a.terminate() == 0 and time.monotonic() - begin < 500
    thread.join(PATIENCE)
    assert got[0] in (409, 503, None)
