"""Clients that go away leave nothing behind: neither a running request at an engine, nor a count that holds up a switch, nor
memory.

SKERRY_SOAK_SECONDS: how long the mixed load runs (60).
"""

import os
import random
import re
import threading
import time
from pathlib import Path

import pytest

from agent_process import wait_for
from asking import Stream, ask_for, at_least, read_json
from messages import events_of
from raw_client import Client, Cut, request
from recording_engine import events, whole

CLIENTS = 1000
SOAK_SECONDS = float(os.environ.get("SKERRY_SOAK_SECONDS", 60))
SOAKERS = 16
GROWTH = 16 << 20  # bytes that a warm agent may still grow by: what the allocator keeps
DRAIN = ("--pause", "drain", "--drain-timeout", 3600)
STREAMING = b'{"prompt": "a", "stream": true}'


def resident(process):
    text = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) << 10


def open_files(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def gauges(agent):
    found = agent.metrics()
    return [found[f"skerry_proxy_{name}"] for name in ("requests_in_flight", "requests_held")]


def test_I3_clients_that_drop_in_the_midst_of_a_stream_do_not_hold_up_a_draining_switch(
    before, recording, trainer, summary
):
    # Some go where the engine is about to send, some where it says nothing for long.
    engine = recording(
        lambda r: events(100_000, gap=0.5) if int(r.get("X-Number")) % 2 else [*events(1, end=False), 3600.0]
    )
    a = before(engine, *DRAIN)
    files = open_files(a.process)
    clients = []
    for number in range(CLIENTS):
        client = Client(a.url)
        client.send(request("POST", "/v1/completions", [("X-Number", str(number))], STREAMING), "POST")
        clients.append(client)
    wait_for(lambda: len(engine.requests) == CLIENTS, "the requests at the engine")
    for client in clients:
        client.head()
    wait_for(lambda: gauges(a) == [CLIENTS, 0], "all of them in flight")
    for client in clients[::2]:
        client.close()
    for client in clients[1::2]:
        client.reset()
    begin = time.monotonic()
    trainer.publish(1)
    a.wait_for_version(1)
    summary.append(
        f"proxy: {CLIENTS} clients dropped in mid-stream; the draining switch was done {time.monotonic() - begin:.1f} s later"
    )
    wait_for(lambda: gauges(a) == [0, 0], "none in flight")
    assert engine.aborted == CLIENTS, "all were ended at the engine"
    wait_for(lambda: open_files(a.process) < files + 50, "the sockets' end")


def test_I3_with_a_real_drain_the_engine_runs_nothing_more(agent, engine, trainer):
    e = engine("vllm plugin", token_seconds=0.02)
    a = agent(trainer, e, options=DRAIN)
    a.wait_for_version(0)
    streams = [Stream(a, 1_000_000).wait_for_events(1) for _ in range(60)]
    for number, stream in enumerate(streams):
        stream.client.reset() if number % 2 else stream.client.close()
    trainer.publish(1)
    a.wait_for_version(1)
    wait_for(lambda: gauges(a) == [0, 0], "none in flight")
    wait_for(lambda: e.contract.running == 0, "the end of the requests at the engine")
    assert read_json(ask_for(a, at_least(1))).start == 1


@pytest.mark.parametrize(
    "instant", ["before the head", "in the request's body", "in the request's head", "held", "between requests"]
)
def test_I3_whenever_a_client_goes_nothing_is_left(instant, before, recording, trainer):
    hold = threading.Event()
    engine = recording(lambda r: whole(200, [], b"a") if r.method == "GET" else [hold, *whole(200, [], b"a")])
    a = before(engine, *DRAIN)
    sent = {
        "before the head": request("POST", "/v1/completions", [], STREAMING),
        "in the request's body": request("PUT", "/v1/files/1", [("Content-Length", "1000")]) + b"x" * 500,
        "in the request's head": b"POST /v1/completions HTTP/1.1\r\nHost: ",
        "held": request("POST", "/v1/completions", [("Skerry-Min-Version", "5"), ("Skerry-Wait", "1000")], STREAMING),
        "between requests": request("GET", "/v1/models"),
    }[instant]
    clients = [Client(a.url) for _ in range(50)]
    for client in clients:
        client.send(sent)
    count = len(clients)
    wait_for(
        {
            "before the head": lambda: len(engine.requests) == count,
            "in the request's body": lambda: sum(len(m.body) == 500 for m in engine.begun) == count,
            "in the request's head": lambda: a.metrics()["skerry_proxy_connections"] >= count,
            "held": lambda: gauges(a)[1] == count,
            "between requests": lambda: len(engine.requests) == count,
        }[instant],
        "all clients to be there",
    )
    for client in clients:
        client.close()
    wait_for(lambda: gauges(a) == [0, 0], "no request that is left")
    wait_for(lambda: a.metrics()["skerry_proxy_connections"] <= 2, "no connection that is left")
    trainer.publish(1)
    a.wait_for_version(1)
    if instant in ("before the head", "in the request's body"):
        wait_for(lambda: engine.aborted == count or engine.open == 0, "the aborts at the engine")


def soaking(request):
    """The engine's side of the mixture."""
    r = random.Random(bytes(request.body) + request.target.encode())
    if request.target == "/v1/completions":
        if b'"stream": true' in request.body:
            return events(r.randint(0, 60), gap=r.choice([0.0, 0.002]))
        return whole(200, [(b"Content-Type", b"application/json")], b'{"a": "' + b"a" * r.randint(0, 3000) + b'"}')
    if r.random() < 0.05:
        return [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello", "RST"]
    return whole(
        200, [], r.randbytes(r.choice([10, 10_000, 500_000])), r.choice(["length", "chunked", "close"]), [4000] * 20
    )


class Soaker:
    """One client of the mixture: streams, JSON, files, refusals, drops, each as chance has it."""

    def __init__(self, url, seed, stop):
        self.url, self.r, self.stop = url, random.Random(seed), stop
        self.done, self.failed = 0, []
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        client = None
        while not self.stop.is_set():
            client = client or Client(self.url)
            try:
                if self._once(client):
                    client.close()
                    client = None
                self.done += 1
            except Cut:
                client = None  # the engine breaks off now and then
            except Exception as error:  # noqa: BLE001 (for the test to show)
                self.failed.append(error)
                return

    def _once(self, client):
        """Whether the connection is of no more use."""
        r, body = self.r, b'{"n": %d}' % self.r.randrange(1 << 30)
        kind = r.choice(
            ["json", "json", "stream", "stream", "file", "large", "refused", "malformed", "drop", "early drop"]
        )
        if kind == "json":
            assert client.ask("POST", "/v1/completions", [], body).status == 200
        elif kind == "stream":
            got = client.ask("POST", "/v1/completions", [], body[:-1] + b', "stream": true}')
            assert got.status == 200 and got.body.rstrip().endswith(b"}")
        elif kind == "file":
            assert client.ask("GET", f"/v1/files/{r.randrange(1 << 30)}").status in (200, 502, 503)
        elif kind == "large":
            assert client.ask("PUT", f"/v1/files/{r.randrange(1 << 30)}", body=r.randbytes(200_000)).status in (
                200,
                502,
                503,
            )
        elif kind == "refused":
            assert client.ask("POST", "/v1/completions", [("Skerry-Exact-Version", "999")], body).status == 409
        elif kind == "malformed":
            client.send(b"GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n")
            assert client.answer().status == 400
            return True
        else:
            client.send(request("POST", "/v1/completions", [], body[:-1] + b', "stream": true}'), "POST")
            if kind == "drop":
                client.head()
            client.reset()
            return True
        return False


def test_under_a_mixed_load_the_memory_of_an_agent_is_flat(before, recording, trainer, summary):
    engine = recording(soaking)
    a = before(engine)
    stop, sizes, version = threading.Event(), [], 0
    soakers = [Soaker(a.url, seed, stop) for seed in range(SOAKERS)]
    begin = time.monotonic()
    while time.monotonic() - begin < SOAK_SECONDS and not any(s.failed for s in soakers):
        time.sleep(SOAK_SECONDS / 20)
        sizes.append(resident(a.process))
        if version < 90 and len(sizes) % 2:
            version += 1
            trainer.publish(version)
        engine.forget()
    stop.set()
    for soaker in soakers:
        soaker.thread.join(120)
    assert not any(s.failed for s in soakers), [s.failed for s in soakers if s.failed][:3]
    a.wait_for_version(version)
    wait_for(lambda: gauges(a) == [0, 0], "none in flight")
    assert not engine.malformed
    third = len(sizes) // 3
    warm, late = max(sizes[third : 2 * third]), max(sizes[2 * third :])
    done = sum(soaker.done for soaker in soakers)
    summary.append(
        f"proxy: {done} mixed requests and {version} switches in {time.monotonic() - begin:.0f} s; "
        f"resident {warm >> 20} MiB in the midst, {late >> 20} MiB at the end"
    )
    assert done > 10 * SOAK_SECONDS and late <= warm + GROWTH


@pytest.mark.parametrize("where", ["behind a stream", "in a body that is held"])
def test_I3_a_client_goes_unnoticed_nowhere_though_nothing_is_read_from_it(where, before, recording, trainer):
    """More of it waits than the agent takes, so that its end stands behind bytes that nobody reads. As much as the system
    takes for the agent: of an end behind more than that nobody can know."""
    engine = recording(lambda _: [*events(1, end=False), 3600.0])
    a = before(engine, *DRAIN)
    with Client(a.url) as client:
        if where == "behind a stream":
            client.send(request("POST", "/v1/completions", [], STREAMING), "POST")
            while not events_of(client.head().body):  # what it has not read would reset the connection
                client.more()
            wait_for(lambda: gauges(a) == [1, 0], "the running request")
            rest = request("GET", "/v1/models", [("X-Long", "x" * 10_000)]) * 10
        else:
            fields = [("Skerry-Min-Version", "5"), ("Skerry-Wait", "1000"), ("Content-Length", "1000000")]
            client.send(request("PUT", "/v1/files/1", fields), "PUT")
            wait_for(lambda: gauges(a) == [0, 1], "the held request")
            rest = b"x" * 100_000
        client.socket.sendall(rest)
    wait_for(lambda: gauges(a) == [0, 0], "no request that is left")
    trainer.publish(1)
    a.wait_for_version(1)
