"""What goes through the agent comes out as it went in.

SKERRY_PROXY_EXCHANGES: how many random exchanges (1500); SKERRY_PROXY_SEED makes others.
"""

import asyncio
import gzip
import json
import os
import random
import time
from collections import Counter
from urllib.parse import urlsplit

from exchanges import check_answer, check_request, exchange
from messages import answers, events_of
from raw_client import PATIENCE, Client, arrivals, ask, request
from recording_engine import events, whole

EXCHANGES = int(os.environ.get("SKERRY_PROXY_EXCHANGES", 1500))
SEED = os.environ.get("SKERRY_PROXY_SEED", "1")
CONNECTIONS = 8
PIPELINED = 4
LARGE = 20 << 20


async def converse(url, batch):
    """Sends the requests of a batch at once on one connection, and gives an answer for each. Where the agent closes the
    connection in between, saying so, the rest goes over a new one."""
    where, left, found = urlsplit(url), list(batch), []
    while left:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        messages = answers()
        messages.methods.extend(e.method for e in left)
        sending = asyncio.ensure_future(send(writer, b"".join(e.request for e in left)))
        done = []
        while len(done) < len(left):
            try:
                data = await asyncio.wait_for(reader.read(1 << 18), PATIENCE)
            except TimeoutError as error:
                waiting = [(e.number, e.method, e.target[:40], len(e.request), e.status) for e in left[len(done) :]]
                raise AssertionError(f"no more of the answers to {waiting}: {messages.message}") from error
            done += messages.feed(data) if data else filter(None, [messages.end()])
            if not data:
                break
        sending.cancel()
        writer.close()
        if len(done) < len(left):
            assert done, f"closed without an answer to exchange {left[0].number}"
            assert b"close" in done[-1].all(b"connection"), (
                f"closed without notice behind exchange {left[len(done) - 1].number}"
            )
        found += done
        left = left[len(done) :]
    return found


async def send(writer, data):
    r = random.Random(len(data))
    for at in range(0, len(data), 50000):
        part = data[at : at + 50000]
        middle = r.randint(0, len(part))
        for piece in (part[:middle], part[middle:]):
            writer.write(piece)
            await writer.drain()


def batches(count):
    r, number = random.Random(SEED), 0
    while number < count:
        size = min(r.randint(1, PIPELINED), count - number)
        yield [exchange(SEED, number + i, i == size - 1) for i in range(size)]
        number += size


def test_random_exchanges_are_identical_byte_for_byte_on_both_sides(before, recording, summary):
    running = {}
    engine = recording(lambda message: running[message.get("X-Exchange")].steps)
    url, waiting, wrong = before(engine).url, iter(batches(EXCHANGES)), []

    async def connection():
        for batch in waiting:
            running.update((str(e.number), e) for e in batch)
            for e, message in zip(batch, await converse(url, batch), strict=True):
                check_answer(e, message)

    async def all_of_them():
        await asyncio.gather(*(connection() for _ in range(CONNECTIONS)))

    begin = time.monotonic()
    asyncio.run(all_of_them())
    seconds = time.monotonic() - begin
    assert not engine.malformed and not wrong
    arrived = Counter(message.get("X-Exchange") for message in engine.requests)
    assert len(arrived) == EXCHANGES and set(arrived.values()) == {1}, "each reached the engine once"
    for message in engine.requests:
        check_request(running[message.get("X-Exchange")], message)
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
