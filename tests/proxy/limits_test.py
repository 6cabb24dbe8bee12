"""Limits on what clients may send and leave unread, and that others are served meanwhile (docs/proxy.md, Limits)."""

import re
import time

import pytest

from agent_process import wait_for
from messages import Malformed
from raw_client import Client, Cut, ask, outcome, request

HEAD = b"GET /v1/models HTTP/1.1\r\nHost: a\r\nX-A: "
BODY = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\na"


def test_too_many_headers_are_refused(before, recording):
    engine = recording()
    url = before(engine).url
    many = b"GET /v1/models HTTP/1.1\r\nHost: a\r\n" + b"X: 1\r\n" * 100_000 + b"\r\n"
    one = b"GET /v1/models HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n"
    line = b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n"
    for data in (many, one, line):
        # The refusal can be lost when the connection is closed while more is on its way.
        assert outcome(url, data) in ([431], [414], [400], [])
    assert not engine.bytes
    assert ask(url, "GET", "/v1/models", [("X-Long", "a" * 40_000)]).status == 200


@pytest.mark.parametrize("target", ["/v1/files", "/v1/completions"])
def test_a_body_beyond_the_limit_is_refused(target, before, recording):
    engine = recording()
    a = before(engine, "--max-body", 1)
    most = 1_000_000
    assert ask(a.url, "POST", target, body=b"x" * most).status == 200
    engine.forget()
    announced = request("POST", target, [("Content-Length", str(most * 8))])
    assert outcome(a.url, announced) == [413] and not engine.bytes
    growing = request("POST", target, [("Transfer-Encoding", "chunked")]) + b"10000\r\n%s\r\n" % (b"x" * 65536) * 100
    assert outcome(a.url, growing) in ([413], [])
    assert not engine.requests and (target == "/v1/files" or not engine.bytes)
    waits = request("POST", target, [("Content-Length", str(most * 8)), ("Expect", "100-continue")])
    assert outcome(a.url, waits) == [413] and not engine.requests


def slow_ones(url, count, data):
    clients = [Client(url) for _ in range(count)]
    for client in clients:
        client.socket.sendall(data)
    return clients


def test_clients_that_never_finish_a_request_keep_nobody_from_being_served(before, recording):
    engine = recording()
    a = before(engine)
    heads = slow_ones(a.url, 300, HEAD)
    bodies = slow_ones(a.url, 300, BODY)
    for _ in range(20):
        for client in heads + bodies:
            client.socket.sendall(b"a")
        assert ask(a.url, "GET", "/v1/models").status == 200
    assert len(engine.begun) == 20
    assert a.metrics()["skerry_proxy_connections"] >= 600
    for client in heads + bodies:
        client.close()
    wait_for(lambda: a.metrics()["skerry_proxy_connections"] < 10, "the end of the slow connections")


@pytest.mark.slow
def test_clients_that_never_finish_a_request_are_cut_off(before, recording):
    """A head within 30 s of its first byte; a body that moves at least once in 30 s."""
    engine = recording()
    a = before(engine)
    (head,) = slow_ones(a.url, 1, HEAD)
    (still, moving) = slow_ones(a.url, 2, BODY)
    for second in range(50):
        time.sleep(1)
        moving.socket.sendall(b"a")
        if second < 25:
            head.socket.sendall(b"a")
    for client in (head, still):
        client.reader.methods.append("GET")
        try:
            assert client.answer().status == 408
        except Cut:
            pass
        assert client.is_closed(10)
    moving.socket.sendall(b"a" * 49)
    moving.reader.methods.append("POST")
    assert moving.answer().status == 200


def test_connections_are_bounded(before, recording):
    engine = recording()
    a = before(engine, "--max-connections", 20)
    clients = [Client(a.url, 30) for _ in range(40)]
    served = []
    for client in clients:
        try:
            served.append(client.ask("GET", "/v1/models").status == 200)
        except (Cut, ConnectionError, Malformed):
            served.append(False)
        except TimeoutError:
            served.append(False)
    assert 15 <= sum(served) <= 20, served
    for client in clients:
        client.close()
    wait_for(lambda: answers_again(a.url), "connections that are free again")


def answers_again(url):
    try:
        return ask(url, "GET", "/v1/models").status == 200
    except (Cut, ConnectionError):
        return False


def test_a_client_that_reads_nothing_does_not_make_the_agent_store_the_answer(before, recording):
    """256 KiB wait for it, then the engine is left unread."""
    sent = []

    def endless(_request):
        yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        while True:
            yield b"10000\r\n%s\r\n" % (b"x" * 65536)
            sent.append(65536)

    engine = recording(endless)
    a = before(engine)
    with Client(a.url, room=4096) as client:
        client.send(request("GET", "/v1/files/1"))
        before_it, same = -1, 0
        while same < 5:
            time.sleep(0.1)
            same = same + 1 if len(sent) == before_it else 0
            before_it = len(sent)
        assert sum(sent) < 64 << 20
        resident = int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{a.process.pid}/status").read()).group(1))
        assert resident < 300 << 10, f"{resident} KiB"
    wait_for(lambda: engine.aborted == 1, "the end of the request at the engine")
