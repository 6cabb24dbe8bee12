"""What goes through the agent comes out as it went in.

SKERRY_PROXY_EXCHANGES: how many random exchanges (1500). Others by another seed: conversations.py.
"""

import gzip
import json
import os
import random
import time

from conversations import exchange_all
from messages import events_of
from raw_client import PATIENCE, Client, arrivals, ask, request
from recording_engine import events, whole

EXCHANGES = int(os.environ.get("SKERRY_PROXY_EXCHANGES", 1500))
LARGE = 20 << 20


def test_random_exchanges_are_identical_byte_for_byte_on_both_sides(before, recording, summary):
    running = {}
    engine = recording(lambda message: running[message.get("X-Exchange")].steps)
    url, begin = before(engine).url, time.monotonic()
    exchange_all(url, engine, running, EXCHANGES)
    seconds = time.monotonic() - begin
    moved = sum(len(e.asked_body) + len(e.answered_body) for e in running.values())
    summary.append(
        f"proxy: {EXCHANGES} random exchanges, {moved >> 20} MiB of bodies, identical both ways, in {seconds:.1f} s"
    )


def test_a_compressed_answer_passes_as_it_is(before, recording):
    body = gzip.compress(b'{"text": "' + b"a" * 5000 + b'"}')
    fields = [(b"Content-Type", b"application/json"), (b"Content-Encoding", b"gzip")]
    engine = recording(lambda _: whole(200, fields, body))
    got = ask(before(engine).url, "POST", "/v1/completions", [("Accept-Encoding", "gzip")], b'{"prompt": "a"}')
    assert (got.status, bytes(got.body), got.get("Content-Encoding")) == (200, body, "gzip")
    assert engine.requests[0].get("Accept-Encoding") == "gzip"
    assert (got.get("Skerry-Run"), got.get("Skerry-Version-Start")) == ("r", "0")


def test_the_answer_to_HEAD_keeps_its_length_and_the_connection(before, recording):
    engine = recording(lambda request: whole(200, [], b"x" * 1234, sends_body=request.method != "HEAD"))
    with Client(before(engine).url) as client:
        for _ in range(3):
            answer = client.ask("HEAD", "/v1/models")
            assert (answer.status, answer.get("Content-Length"), answer.body) == (200, "1234", b"")
            assert client.ask("GET", "/v1/models").body == b"x" * 1234


def test_large_bodies_pass_both_ways_and_a_constraint_alone_is_taken_out(before, recording):
    noise, answer = random.Random(1).randbytes(LARGE), random.Random(2).randbytes(LARGE)
    engine = recording(lambda _: whole(200, [(b"Content-Type", b"application/octet-stream")], answer, "chunked"))
    url = before(engine).url
    got = ask(url, "PUT", "/files/1", body=noise)
    assert got.status == 200 and got.body == answer
    assert engine.requests[0].body == noise

    prompt = json.dumps(noise[: LARGE // 3].hex())
    rest = f'{{ "model":"m",\n "weight_version" : {{"min_version": 0}},"prompt": {prompt} }}'
    got = ask(url, "POST", "/v1/completions", [("Content-Type", "application/json")], rest.encode())
    assert got.status == 200 and got.body == answer
    seen = bytes(engine.requests[1].body)
    assert b"weight_version" not in seen and json.loads(seen) == {"model": "m", "prompt": json.loads(prompt)}
    begin, end = seen.index(b'"prompt"'), rest.index('"prompt"')
    assert seen.startswith(b'{ "model":"m"') and seen[begin:] == rest[end:].encode()
    assert engine.requests[1].get("Content-Length") == str(len(seen))


def test_a_client_that_waits_for_leave_gets_it_from_the_agent(before, recording):
    engine = recording()
    with Client(before(engine).url) as client:
        head = request("POST", "/files/1", [("Expect", "100-continue"), ("Content-Length", "5")])
        client.send(head, "POST")
        while not client.reader.interim:
            assert client.more()
        assert client.reader.interim[0].status == 100
        client.socket.sendall(b"hello")
        assert client.answer().status == 200
    assert engine.requests[0].body == b"hello" and engine.requests[0].get("Expect") is None


def test_events_are_passed_on_as_they_come(before, recording, summary):
    """One a second; the agent adds next to nothing to the time of any of them."""
    sent = []

    def answer(_request):
        for step in events(3, gap=1.0):
            if isinstance(step, bytes):
                sent.append(time.monotonic())
            yield step

    engine = recording(answer)
    with Client(before(engine).url) as client:
        message = client.begin("/v1/completions", {"prompt": "a", "stream": True})
        came = []
        for _, size in arrivals(client, message):
            came += [time.monotonic()] * (len(events_of(message.body[:size])) - len(came))
    late = [1000 * (there - here) for here, there in zip(sent[1:4], came[:3], strict=True)]
    summary.append(
        f"proxy: events of a stream of one a second are {', '.join(f'{ms:.1f}' for ms in late)} ms late (<= 50 wanted)"
    )
    assert max(late) < 2000
    assert message.complete and [name for name, _ in events_of(message.body)][-1] == "skerry.summary"


def test_a_request_streams_to_the_engine_before_it_is_complete(before, recording):
    engine = recording()
    with Client(before(engine).url) as client:
        client.send(request("PUT", "/files/1", [("Transfer-Encoding", "chunked")]) + b"5\r\nhello\r\n", "PUT")
        deadline = time.monotonic() + PATIENCE
        while not (engine.begun and engine.begun[0].body == b"hello"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert not engine.requests
        client.socket.sendall(b"0\r\n\r\n")
        assert client.answer().status == 200


def test_the_trace_of_a_request_and_its_authorization_reach_the_engine(before, recording):
    engine = recording()
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    ask(before(engine).url, "GET", "/v1/models", [("traceparent", trace), ("Authorization", "Bearer engine's")])
    assert engine.requests[0].get("traceparent") == trace
    assert engine.requests[0].get("Authorization") == "Bearer engine's"
    assert engine.requests[0].get("Host") == "engines"
