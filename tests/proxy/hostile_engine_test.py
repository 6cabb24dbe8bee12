"""Engines that break HTTP or break off: their answer becomes an error or a cut connection, never a success that is too
short; and when a request is sent again."""

import pytest

from agent_process import wait_for
from asking import refusal
from messages import events_of
from raw_client import Client, Cut, ask, post, request
from recording_engine import FIN, RST, RecordingEngine, chunk, event, events, head, ok, whole

HEAD = b"HTTP/1.1 200 OK\r\n"

# What can be seen from the head: an error of the agent's.
BAD_HEADS = {
    "two lengths": HEAD + b"Content-Length: 5\r\nContent-Length: 3\r\n\r\nhello",
    "a list of lengths": HEAD + b"Content-Length: 5, 3\r\n\r\nhello",
    "a length with a sign": HEAD + b"Content-Length: +5\r\n\r\nhello",
    "a negative length": HEAD + b"Content-Length: -1\r\n\r\nhello",
    "length and chunked": HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "gzip as transfer coding": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "an unknown transfer coding": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a folded field": HEAD + b"X-A: b\r\n c\r\nContent-Length: 5\r\n\r\nhello",
    "a NUL in a value": HEAD + b"X-A: b\0c\r\nContent-Length: 5\r\n\r\nhello",
    "a space before the colon": HEAD + b"Content-Length : 5\r\n\r\nhello",
    "no colon": HEAD + b"X-A\r\nContent-Length: 5\r\n\r\nhello",
    "a huge head": HEAD + b"X-A: b\r\n" * 200_000 + b"Content-Length: 5\r\n\r\nhello",
    "an endless head": HEAD + b"X-A: " + b"b" * 2_000_000,
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n\r\n\r\n",
    "HTTP/0.9": b"<html>hello</html>\r\n\r\n",
    "another version": b"HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "a status of two digits": b"HTTP/1.1 20 OK\r\nContent-Length: 5\r\n\r\nhello",
    "a status that is no number": b"HTTP/1.1 2x0 OK\r\nContent-Length: 5\r\n\r\nhello",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "nothing": b"",
    "half a head": HEAD + b"Content-Le",
}

# What can be seen only after the head was sent on.
BAD_BODIES = {
    "shorter than its length": HEAD + b"Content-Length: 500000\r\n\r\n" + b"x" * 300_000,
    "no last chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "half a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n500\r\nhello",
    "no size of a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nxyz\r\nhello\r\n0\r\n\r\n",
    "a negative chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n-5\r\nhello\r\n0\r\n\r\n",
    "a chunk longer than its size": HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n",
    "a chunk beyond 64 bits": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nfffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    "a line of a chunk without end": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5;" + b"a" * 2_000_000,
    "JSON shorter than its length": HEAD + b"Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{\"a\": 1}",
    "JSON without its last chunk": HEAD
    + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{\"a\": 1}\r\n",
    "events without a last chunk": HEAD
    + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    + chunk(event(1)) + chunk(b"data: [DONE]\n\n"),
}  # fmt: skip


def answer_or_cut(url, target):
    """The answer, or None where the connection was cut."""
    try:
        return post(url, target, {"prompt": "a"})
    except Cut:
        return None


@pytest.mark.parametrize("target", ["/v1/completions", "/v1/files"])
def test_a_head_that_is_wrong_becomes_an_error(target, before, recording):
    engine, wrong = recording(), []
    url = before(engine).url
    for name, data in BAD_HEADS.items():
        engine.answer = lambda _, data=data: [data, FIN]
        got = answer_or_cut(url, target)
        if not got or got.status not in (502, 503) or not got.complete or "error" not in got.json:
            wrong.append(f"{name}: {got}")
    assert not wrong, "\n".join(wrong)
    engine.answer = ok
    assert ask(url, "GET", "/v1/models").status == 200


@pytest.mark.parametrize("end", [FIN, RST])
@pytest.mark.parametrize("target", ["/v1/completions", "/v1/files"])
def test_a_body_that_breaks_off_is_cut_and_never_a_short_success(target, end, before, recording):
    engine, wrong = recording(), []
    url = before(engine).url
    for name, data in BAD_BODIES.items():
        engine.answer = lambda _, data=data: [data, 0.05, end]
        got = answer_or_cut(url, target)
        if got and got.status < 500:
            wrong.append(f"{name}: {got}")
    assert not wrong, "\n".join(wrong)
    engine.answer = ok
    assert ask(url, "GET", "/v1/models").status == 200


def test_a_body_that_ends_with_the_connection_is_whole_only_if_it_was_closed_in_order(before, recording):
    engine = recording(lambda _: [HEAD + b"\r\nhello", FIN])
    url = before(engine).url
    assert post(url, "/v1/files", {}).body == b"hello"
    engine.answer = lambda _: [HEAD + b"\r\nhello", 0.05, RST]
    got = answer_or_cut(url, "/v1/files")
    assert got is None or got.status >= 500


def test_what_an_engine_sends_unasked_is_nobodys_answer(before, recording):
    """Behind an answer it sends another one: the next request must not get that."""
    # In one send: what comes when the next request is under way can't be told from its answer.
    engine = recording(lambda _: [b"".join([*whole(200, [], b"first"), *whole(200, [], b"nobody's")])])
    url = before(engine).url
    assert ask(url, "GET", "/v1/files/1").body == b"first"
    engine.answer = lambda _: whole(200, [], b"second")
    for _ in range(5):
        assert ask(url, "GET", "/v1/files/2").body == b"second"


def test_answers_before_the_answer_do_not_confuse_it(before, recording):
    early = head(103, [(b"Link", b"</a>")], b"Early Hints") + head(102, [], b"Processing")
    engine = recording(lambda _: [early, *whole(200, [], b"hello")])
    with Client(before(engine).url) as client:
        for _ in range(3):
            assert client.ask("POST", "/v1/files", body=b"x").body == b"hello"


@pytest.mark.parametrize("end", [FIN, RST])
def test_I6_an_engine_that_breaks_off_before_its_answer_is_a_503_worth_another_try(end, before, recording):
    engine = recording(lambda _: [end])
    a = before(engine)
    got = post(a.url, "/v1/completions", {"prompt": "a"})
    assert refusal(got) == (503, "EngineUnreachable")
    assert 1 <= int(got.get("Retry-After")) <= 3
    assert len(engine.requests) == 1, "on a new connection it is not sent again"
    wait_for(lambda: a.metrics()["skerry_proxy_requests_in_flight"] == 0, "the admission's end")
    assert not a.status()["degraded"]
    engine.answer = ok
    assert post(a.url, "/v1/completions", {"prompt": "a"}).status == 200


def test_I6_an_engine_that_is_gone_is_a_503(before):
    with RecordingEngine() as engine:
        a = before(engine)
        assert post(a.url, "/v1/completions", {"prompt": "a"}).status == 200
    got = post(a.url, "/v1/completions", {"prompt": "a"})
    assert refusal(got) == (503, "EngineUnreachable") and got.get("Retry-After")
    with RecordingEngine(port=engine.port):
        assert post(a.url, "/v1/completions", {"prompt": "a"}).status == 200


def test_I6_once_a_token_was_sent_on_nothing_is_tried_again(before, recording):
    engine = recording(lambda _: [*events(3, end=False), 0.2, FIN])
    a = before(engine)
    with Client(a.url) as client:
        message = client.begin("/v1/completions", {"prompt": "a", "stream": True})
        with pytest.raises(Cut):
            client.answer()
        assert len(events_of(message.body)) == 3, "no summary, no [DONE]"
    assert len(engine.requests) == 1
    wait_for(lambda: a.metrics()["skerry_proxy_requests_in_flight"] == 0, "the admission's end")


def test_a_kept_connection_that_the_engine_closed_is_replaced_once(before, recording):
    engine = recording()
    a = before(engine)
    for _ in range(5):
        engine.answer = lambda _: [*whole(200, [], b"a"), FIN]  # closed behind the answer, without a word
        assert post(a.url, "/v1/completions", {"prompt": "a"}).body == b"a"
    engine.answer = ok
    with Client(a.url) as client:
        assert client.ask("GET", "/v1/models").status == 200
    accepted, engine.answer = engine.accepted, lambda _: [FIN]  # whenever it is asked
    got = post(a.url, "/v1/completions", {"prompt": "a"})
    assert refusal(got) == (503, "EngineUnreachable")
    assert engine.accepted == accepted + 1, "once"


def test_an_engine_that_says_nothing_is_given_up_after_its_time(before, recording):
    engine = recording(lambda _: [60.0])
    a = before(engine, "--engine-timeout", 1)
    got = post(a.url, "/v1/completions", {"prompt": "a"})
    assert refusal(got) == (504, "EngineTimeout")
    wait_for(lambda: engine.aborted == 1, "the engine to be told")
    engine.answer = lambda _: [*events(1, end=False), 60.0]
    with pytest.raises(Cut):
        post(a.url, "/v1/completions", {"prompt": "a", "stream": True})


def test_an_engine_that_goes_away_while_a_body_comes_ends_the_request(before, recording):
    engine = recording()
    a = before(engine)
    with Client(a.url) as client:
        client.send(request("PUT", "/v1/files/1", [("Content-Length", "50000000")]) + b"x" * 1000, "PUT")
        wait_for(lambda: engine.begun, "the head at the engine")
        engine.close()
        try:
            assert client.answer().status in (502, 503)
        except Cut:
            pass
    wait_for(lambda: a.metrics()["skerry_proxy_requests_in_flight"] == 0, "the admission's end")
