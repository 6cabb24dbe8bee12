"""What goes through a gateway, an agent and back comes out as it went in.

SKERRY_GATEWAY_EXCHANGES: how many random exchanges (600). Others by another seed: conversations.py of tests/proxy.
"""

import os
import time

from agent_process import PATIENCE
from conversations import exchange_all
from messages import events_of
from raw_client import Client, arrivals, ask, request
from recording_engine import events, whole

EXCHANGES = int(os.environ.get("SKERRY_GATEWAY_EXCHANGES", 600))


def before(gateway, island, server):
    """A gateway before one island before this engine."""
    g = gateway()
    island("none", gateway=g, options=server.upstream)
    g.wait_for_islands(1)
    return g


def test_random_exchanges_are_identical_byte_for_byte_on_both_sides(gateway, island, recording, summary):
    running = {}
    engine = recording(lambda message: running[message.get("X-Exchange")].steps)
    exchange_all(before(gateway, island, engine).url, engine, running, EXCHANGES)
    summary.append(f"gateway: {EXCHANGES} random exchanges identical both ways through gateway and agent")


def test_events_are_passed_on_as_they_come(gateway, island, recording, summary):
    sent = []

    def answer(_request):
        for step in events(3, gap=1.0):
            if isinstance(step, bytes):
                sent.append(time.monotonic())
            yield step

    with Client(before(gateway, island, recording(answer)).url) as client:
        message = client.begin("/v1/completions", {"prompt": "a", "stream": True})
        came = []
        for _, size in arrivals(client, message):
            came += [time.monotonic()] * (len(events_of(message.body[:size])) - len(came))
    late = [1000 * (there - here) for here, there in zip(sent[1:4], came[:3], strict=True)]
    summary.append(f"gateway: events of a stream of one a second are {', '.join(f'{ms:.1f}' for ms in late)} ms late")
    assert came[0] < sent[3], "the first came before the last was sent"
    assert message.complete and [name for name, _ in events_of(message.body)][-1] == "skerry.summary"


def test_a_request_streams_to_the_engine_before_it_is_complete(gateway, island, recording):
    engine = recording()
    with Client(before(gateway, island, engine).url) as client:
        client.send(request("PUT", "/files/1", [("Transfer-Encoding", "chunked")]) + b"5\r\nhello\r\n", "PUT")
        deadline = time.monotonic() + PATIENCE
        while not (engine.begun and engine.begun[0].body == b"hello"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        client.socket.sendall(b"0\r\n\r\n")
        assert client.answer().status == 200


def test_a_long_refusal_is_passed_on(gateway, island, recording):
    long = b"x" * 300_000
    engine = recording(lambda _: whole(503, [(b"Content-Type", b"text/plain")], long, "chunked"))
    answer = ask(before(gateway, island, engine).url, "POST", "/v1/completions", body=b"{}")
    assert (answer.status, bytes(answer.body)) == (503, long)


def test_what_only_gateways_and_agents_say_does_not_reach_the_engine(gateway, island, recording):
    engine = recording()
    fields = [("Skerry-Min-Version", "0"), ("Skerry-Session", "s"), ("Skerry-Region", "eu"), ("Authorization", "Bearer x")]
    answer = ask(before(gateway, island, engine).url, "POST", "/v1/completions", fields, b'{"prompt": "a"}')
    assert answer.status == 200 and answer.get("Skerry-Run") == "r" and answer.get("Skerry-Version-Start") == "0"
    names = [name.lower() for name, _ in engine.requests[0].fields]
    assert not [name for name in names if name.startswith(b"skerry-")] and b"authorization" in names
