"""What clients may not do: nothing of it reaches the engine, and others are served meanwhile."""

import pytest

from agent_process import wait_for
from raw_client import Client, ask, outcome

GOOD = b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"


def post(*lines, body=b"", target=b"/v1/files", version=b"HTTP/1.1"):
    return b"\r\n".join([b"POST " + target + b" " + version, b"Host: a", *lines]) + b"\r\n\r\n" + body


def chunked(body, target=b"/v1/files"):
    return post(b"Transfer-Encoding: chunked", body=body, target=target)


# Where a request ends is doubtful, or it is none.
DOUBTFUL = {
    "length and chunked": post(b"Content-Length: 6", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n" + SMUGGLED),
    "chunked and length": post(b"Transfer-Encoding: chunked", b"Content-Length: 6", body=b"0\r\n\r\n" + SMUGGLED),
    "chunked and length 0": post(b"Transfer-Encoding: chunked", b"Content-Length: 0", body=b"0\r\n\r\n" + SMUGGLED),
    "two lengths": post(b"Content-Length: 5", b"Content-Length: 0", body=b"hello" + SMUGGLED),
    "two equal lengths": post(b"Content-Length: 5", b"Content-Length: 5", body=b"hello"),
    "a list of equal lengths": post(b"Content-Length: 5, 5", body=b"hello"),
    "a length with a sign": post(b"Content-Length: +5", body=b"hello"),
    "a negative length": post(b"Content-Length: -5", body=b"hello"),
    "a hexadecimal length": post(b"Content-Length: 0x5", body=b"hello"),
    "a length with a point": post(b"Content-Length: 5.0", body=b"hello"),
    "a length with a space inside": post(b"Content-Length: 5 0", body=b"hello"),
    "an empty length": post(b"Content-Length: ", body=b"hello"),
    "a length beyond 64 bits": post(b"Content-Length: 18446744073709551621", body=b"hello"),
    "length with a space before the colon": post(b"Content-Length : 5", body=b"hello"),
    "chunked with a space before the colon": post(b"Transfer-Encoding : chunked", body=b"0\r\n\r\n" + SMUGGLED),
    "chunked twice": post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
    "chunked twice in a list": post(b"Transfer-Encoding: chunked, chunked", body=b"0\r\n\r\n"),
    "chunked, then identity": post(b"Transfer-Encoding: chunked, identity", body=b"0\r\n\r\n" + SMUGGLED),
    "identity, then chunked": post(b"Transfer-Encoding: identity, chunked", body=b"0\r\n\r\n" + SMUGGLED),
    "identity": post(b"Transfer-Encoding: identity", b"Content-Length: 5", body=b"hello"),
    "gzip": post(b"Transfer-Encoding: gzip", body=b"hello"),
    "gzip, then chunked": post(b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"),
    "xchunked": post(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n" + SMUGGLED),
    "chunked with a vertical tab": post(b"Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n" + SMUGGLED),
    "quoted chunked": post(b'Transfer-Encoding: "chunked"', body=b"0\r\n\r\n"),
    "chunked;a=b": post(b"Transfer-Encoding: chunked;a=b", body=b"0\r\n\r\n"),
    "an empty coding": post(b"Transfer-Encoding: ", body=b"0\r\n\r\n" + SMUGGLED),
    "chunked in HTTP/1.0": post(b"Transfer-Encoding: chunked", body=b"0\r\n\r\n" + SMUGGLED, version=b"HTTP/1.0"),
    "a folded field": post(b"X-A: b", b" c"),
    "a folded coding": post(b"Transfer-Encoding:", b" chunked", body=b"0\r\n\r\n" + SMUGGLED),
    "a folded first field": b"GET /v1/models HTTP/1.1\r\n X-A: b\r\nHost: a\r\n\r\n",
    "a field without a colon": post(b"X-A"),
    "a field without a name": post(b": a"),
    "a space in a name": post(b"X A: b"),
    "a NUL in a name": post(b"X\0A: b"),
    "a NUL in a value": post(b"X-A: b\0c"),
    "a lone carriage return in a value": post(b"X-A: b\rContent-Length: 5"),
    "a control character in a value": post(b"X-A: b\x01c"),
    "a bare line feed behind the request line": b"GET /v1/models HTTP/1.1\nHost: a\r\n\r\n",
    "a bare line feed behind a field": b"GET /v1/models HTTP/1.1\r\nHost: a\nX-A: b\r\n\r\n",
    "bare line feeds at the end": b"GET /v1/models HTTP/1.1\r\nHost: a\n\n",
    "bare line feeds": GOOD.replace(b"\r\n", b"\n"),
    "an absolute form": b"GET http://a/v1/models HTTP/1.1\r\nHost: a\r\n\r\n",
    "an absolute form of another host": b"GET http://b/v1/models HTTP/1.1\r\nHost: a\r\n\r\n",
    "an authority form": b"GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT": b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT of a path": b"CONNECT /v1/models HTTP/1.1\r\nHost: a\r\n\r\n",
    "a target without a slash": b"GET v1/models HTTP/1.1\r\nHost: a\r\n\r\n",
    "a NUL in the target": b"GET /v1/mod\0els HTTP/1.1\r\nHost: a\r\n\r\n",
    "a space in the target": b"GET /v1/ models HTTP/1.1\r\nHost: a\r\n\r\n",
    "a tab behind the method": b"GET\t/v1/models HTTP/1.1\r\nHost: a\r\n\r\n",
    "two spaces": b"GET  /v1/models HTTP/1.1\r\nHost: a\r\n\r\n",
    "a fragment": b"GET /v1/models#a HTTP/1.1\r\nHost: a\r\n\r\n",
    "a broken escape": b"GET /v1/%zz HTTP/1.1\r\nHost: a\r\n\r\n",
    "no target": b"GET HTTP/1.1\r\nHost: a\r\n\r\n",
    "no version": b"GET /v1/models\r\nHost: a\r\n\r\n",
    "a lower-case version": b"GET /v1/models http/1.1\r\nHost: a\r\n\r\n",
    "HTTP/1.11": b"GET /v1/models HTTP/1.11\r\nHost: a\r\n\r\n",
    "HTTP/2.0": b"GET /v1/models HTTP/2.0\r\nHost: a\r\n\r\n",
    "HTTP/9": b"GET /v1/models HTTP/9\r\nHost: a\r\n\r\n",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a method with a colon": b"G:T /v1/models HTTP/1.1\r\nHost: a\r\n\r\n",
    "an empty method": b" /v1/models HTTP/1.1\r\nHost: a\r\n\r\n",
    "no host": b"GET /v1/models HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /v1/models HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200) + b"\r\n\r\n",
    "NULs": bytes(300) + b"\r\n\r\n",
}

BAD_CHUNKS = {
    "no size": b"\r\nhello\r\n0\r\n\r\n",
    "a size that is no number": b"xyz\r\nhello\r\n0\r\n\r\n",
    "a negative size": b"-5\r\nhello\r\n0\r\n\r\n",
    "a size with a sign": b"+5\r\nhello\r\n0\r\n\r\n",
    "a size with 0x": b"0x5\r\nhello\r\n0\r\n\r\n",
    "a space before the size": b" 5\r\nhello\r\n0\r\n\r\n",
    "a size beyond 64 bits": b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "the largest size": b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    "no line break behind the data": b"5\r\nhello0\r\n\r\n" + SMUGGLED,
    "data longer than its size": b"3\r\nhello\r\n0\r\n\r\n" + SMUGGLED,
    "a bare line feed behind the size": b"5\nhello\r\n0\r\n\r\n",
    "a bare line feed behind the data": b"5\r\nhello\n0\r\n\r\n",
    "a bare line feed in an extension": b"5;a\nhello\r\n0\r\n\r\n",
    "a lone carriage return in an extension": b"5;a\rb\r\nhello\r\n0\r\n\r\n",
    "an endless extension": b"5;" + b"a" * (256 << 10) + b"\r\nhello\r\n0\r\n\r\n",
    "an endless size": b"0" * (256 << 10) + b"5\r\nhello\r\n0\r\n\r\n",
    "endless trailers": b"5\r\nhello\r\n0\r\n" + b"X-A: b\r\n" * 40000 + b"\r\n",
    "a trailer without a colon": b"5\r\nhello\r\n0\r\nX-A\r\n\r\n",
}


def refused(statuses):
    """Whether all of it was refused, at once."""
    return len(statuses) <= 1 and all(400 <= status < 600 for status in statuses)


def test_requests_whose_end_is_doubtful_are_refused_and_never_forwarded(before, recording):
    engine = recording()
    url, wrong = before(engine).url, []
    for name, data in DOUBTFUL.items():
        engine.forget()
        statuses = outcome(url, data)
        if not refused(statuses) or engine.bytes:
            wrong.append(f"{name}: {statuses}; the engine saw {engine.saw()}")
    assert not wrong, "\n".join(wrong)
    assert ask(url, "GET", "/v1/models").status == 200


@pytest.mark.parametrize("target", [b"/v1/files", b"/v1/completions"])
def test_bad_chunks_never_become_a_whole_request(target, before, recording):
    """Of a body that streams, the engine sees what was right, and that it has no end."""
    engine = recording()
    url, wrong = before(engine).url, []
    for name, body in BAD_CHUNKS.items():
        engine.forget()
        statuses = outcome(url, chunked(body, target))
        wait_for(lambda: not engine.begun or engine.open == 0 or engine.requests, "the engine's end")
        seen = target == b"/v1/completions" and engine.bytes
        if not refused(statuses) or engine.requests or engine.malformed or seen:
            wrong.append(f"{name}: {statuses}; the engine saw {engine.saw()}")
    assert not wrong, "\n".join(wrong)
    assert ask(url, "GET", "/v1/models").status == 200


def test_what_follows_a_request_and_is_none_is_refused_behind_its_answer(before, recording):
    engine = recording()
    url = before(engine).url
    for data in (b"GARBAGE\r\n\r\n", b"\0" * 100, b"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"):
        engine.forget()
        statuses = outcome(url, GOOD + data)
        assert statuses == [200, 400], (data, statuses)
        assert [message.target for message in engine.requests] == ["/v1/models"] and len(engine.begun) == 1


def test_a_request_behind_a_complete_body_is_one_of_its_own(before, recording):
    """What would be smuggled where somebody else counted otherwise."""
    engine = recording()
    data = (
        post(b"Content-Length: %d" % len(GOOD), body=GOOD)
        + GOOD
        + b"GET /end HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    )
    assert outcome(before(engine).url, data) == [200, 200, 200]
    seen = [(message.method, message.target, bytes(message.body)) for message in engine.requests]
    assert seen == [("POST", "/v1/files", GOOD), ("GET", "/v1/models", b""), ("GET", "/end", b"")]


def test_a_client_can_not_name_away_what_the_request_is(before, recording):
    """As fields of the connection, which are not passed on."""
    engine = recording()
    with Client(before(engine).url) as client:
        named = "host, content-type, content-length, transfer-encoding, skerry-exact-version"
        got = client.ask("POST", "/v1/files", [("Connection", named), ("Content-Type", "a/b")], b"hello")
        assert got.status == 200
        refused = client.ask("GET", "/v1/models", [("Connection", named), ("Skerry-Exact-Version", "9")])
        assert refused.status == 409
    (seen,) = engine.requests
    assert (seen.get("Host"), seen.get("Content-Type"), bytes(seen.body)) == ("engines", "a/b", b"hello")


def test_an_old_client_that_names_no_host_is_served(before, recording):
    engine = recording()
    assert outcome(before(engine).url, b"GET /v1/models HTTP/1.0\r\n\r\n") == [200]
    assert engine.requests[0].get("Host")
