"""Where stamps are put, and that everything else of an answer stays: bodies of all kinds through a recording engine."""

import json

import pytest

from asking import ROUTE
from exchanges import STAMP
from messages import events_of
from raw_client import Client, post
from recording_engine import cut, framed, head, whole

JSON = (b"Content-Type", b"application/json")
LONG = b'"' + b"x}" * (1 << 20) + b'"'

# Objects, and what must still stand around the stamp.
OBJECTS = [
    b"{}", b" {} ", b'{"a": 1}', b'{"a": 1}\n', b'\r\n{"a": {"b": "}"}}\r\n \t', b'{"a": "\xc3\xa9\\"}", "b": [{}]  }',
    b'{"a": ' + LONG + b"}", b'{"a": ' + LONG + b"}\n\n", b'{"weight_version_start": 7}',
]  # fmt: skip
# What is no object stays as it is.
OTHERS = [b"", b"[1, 2]", b'"}"', b"null", b"7", b"{", b'{"a": 1', b"x{}", b"[" + LONG + b"]"]
FRAMINGS = ["length", "chunked", "close"]


def pieces(body):
    """Sizes of the chunks: small at the begin and at the end."""
    return [1] * min(20, len(body)) + [max(0, len(body) - 40)] + [1] * 10


@pytest.fixture
def answers(before, recording):
    """answers(body, framing, *fields): what a client gets of it on a generation route."""
    engine = recording()
    url = before(engine).url

    def ask(body, framing="length", fields=(JSON,), status=200, target=ROUTE):
        engine.answer = lambda _: whole(status, fields, body, framing, pieces(body), [40, 100], 0.002)
        return post(url, target, {"prompt": "a"})

    return ask


def test_an_object_gets_its_stamp_and_keeps_every_other_byte(answers):
    for body in OBJECTS:
        for framing in FRAMINGS:
            got = answers(body, framing)
            where = (body[:40], framing)
            if body.strip() == b"{}":
                assert json.loads(got.body) == {"weight_version_start": 0, "weight_version_end": 0}, where
            assert STAMP.sub(b"", bytes(got.body)) == body and bytes(got.body) != body, where
            assert got.framing == ("length" if len(body) < 1 << 20 else "chunked"), where
            assert got.get("Skerry-Version-Start") == "0", where
            assert got.get("Skerry-Version-End") == ("0" if len(body) < 1 << 20 else None), where


def test_what_is_no_object_stays_as_it_is(answers):
    for body in OTHERS:
        for framing in FRAMINGS:
            got = answers(body, framing)
            assert bytes(got.body) == body, (body[:40], framing)
            assert (got.get("Skerry-Run"), got.get("Skerry-Version-Start")) == ("r", "0")


def test_answers_that_are_not_stamped_stay_as_they_are(answers):
    body = b'{"a": 1}'
    for status in (201, 299):
        assert STAMP.search(bytes(answers(body, status=status).body))
    for status in (300, 400, 404, 409, 500, 503):
        got = answers(body, status=status)
        assert (got.status, bytes(got.body)) == (status, body)
        assert got.get("Skerry-Run") == "r"
    for coding in (b"gzip", b"br", b"identity"):
        assert bytes(answers(body, fields=[JSON, (b"Content-Encoding", coding)]).body) == body
    for kind in (b"text/plain", b"application/x-ndjson", b"text/json"):
        assert bytes(answers(body, fields=[(b"Content-Type", kind)]).body) == body
    assert bytes(answers(body, target="/v1/models").body) == body
    assert STAMP.search(bytes(answers(body, fields=[(b"content-type", b"Application/JSON ; charset=utf-8")]).body))


# A stream, and what each of its events says without its stamp.
STREAM = (
    b': a comment\n\nevent: start\ndata: {"a": 1}\n\ndata:{"b": "}"}\r\n\r\nid: 7\ndata: {}\nretry: 5\n\n'
    b"data: [1]\n\ndata: text\n\ndata: {\ndata: }\n\ndata: [DONE]\n\n"
)
DATA = [("start", {"a": 1}), (None, {"b": "}"}), (None, {}), (None, [1])]


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("framing", ["chunked", "close"])
def test_events_get_their_stamps_however_they_are_cut(size, framing, before, recording):
    cuts = [size] * (len(STREAM) // size)
    if framing == "chunked":
        fields = [(b"Content-Type", b"text/event-stream"), (b"Transfer-Encoding", b"chunked")]
        pieces = [framed(STREAM, "chunked", cuts)]
    else:
        fields, pieces = [(b"Content-Type", b"text/event-stream; charset=utf-8")], cut(STREAM, cuts)
    steps = [head(200, fields), *(step for piece in pieces for step in (piece, 0.001))]
    engine = recording(lambda _: steps + ([] if framing == "chunked" else ["FIN"]))
    with Client(before(engine).url) as client:
        got = client.post(ROUTE, {"prompt": "a", "stream": True})
    found = events_of(got.body)
    read = [(name, json.loads(data)) for name, data in found[:4]]
    for (name, stamped), (wanted, plain) in zip(read, DATA, strict=True):
        assert name == wanted and stamped == (plain | {"weight_version": 0} if isinstance(plain, dict) else plain)
    assert [data for _, data in found[4:7]] == ["text", "{\n}", "[DONE]"]
    name, data = found[7]
    summary = json.loads(data)
    assert len(found) == 8 and name == "skerry.summary"
    assert (summary["run"], summary["weight_version_start"], summary["weight_version_end"]) == ("r", 0, 0)
    assert sum(summary["events"].values()) == 6, "[DONE] is none"
    assert b": a comment\n" in got.body and b"id: 7\n" in got.body and b"retry: 5\n" in got.body
