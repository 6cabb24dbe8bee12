"""Reading along on a connection: requests, answers, stamps, in whatever pieces they pass."""

import itertools

import pytest
from loop.exchanges import MOST_HEAD, Conversation

REQUEST = b"POST /v1/completions?x=1 HTTP/1.1\r\nHost: a\r\nskerry-min-VERSION:  7\r\nContent-Length: 4\r\n\r\nbody"
ANSWER = b"HTTP/1.1 200 OK\r\nSkerry-Version-Start: 7\r\nSkerry-Version-End: 8\r\nContent-Length: 4\r\n\r\nthen"


@pytest.fixture
def seen():
    return []


@pytest.fixture
def conversation(seen):
    clock = itertools.count(1)
    return Conversation(seen.append, lambda: float(next(clock)))


def pieces(data, size):
    return [data[begin : begin + size] for begin in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_request_and_its_answer_are_understood_in_any_pieces(conversation, seen, size):
    for piece in pieces(REQUEST, size):
        conversation.sent(piece)
    for piece in pieces(ANSWER, size):
        conversation.received(piece)
    (exchange,) = seen
    assert (exchange.method, exchange.path, exchange.target) == ("POST", "/v1/completions", "/v1/completions?x=1")
    assert (exchange.min_version, exchange.version_start, exchange.version_end) == (7, 7, 8)
    assert (exchange.status, exchange.sent, exchange.received) == (200, len(REQUEST), len(ANSWER))
    assert exchange.began < exchange.first_byte <= exchange.ended


def test_what_is_sent_after_an_answer_began_is_the_next_request(conversation, seen):
    for version in range(3):
        conversation.sent(REQUEST.replace(b" 7\r", b" %d\r" % version))
        conversation.received(ANSWER)
    assert [exchange.min_version for exchange in seen] == [0, 1, 2]
    assert [exchange.opened for exchange in seen] == [True, False, False]
    assert all(exchange.status == 200 for exchange in seen)


def test_a_request_counts_from_its_first_byte_and_has_no_status_before_its_answer(conversation, seen):
    conversation.sent(REQUEST[:10])
    assert len(seen) == 1
    assert seen[0].status is None and seen[0].method == ""


def test_100_continue_is_not_the_answer(conversation, seen):
    conversation.sent(REQUEST)
    conversation.received(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 40")
    assert seen[0].status is None
    conversation.received(b"9 Conflict\r\nA: b\r\n\r\n")
    assert (seen[0].status, seen[0].version_start) == (409, None)


@pytest.mark.parametrize(
    "head", [b"\x16\x03\x01 not HTTP\r\n\r\n", b"GET\r\n\r\n", b"a" * (MOST_HEAD + 1), b"\r\n\r\n"]
)
def test_what_is_not_http_is_counted_and_not_understood(conversation, seen, head):
    conversation.sent(head)
    conversation.received(head)
    assert (seen[0].sent, seen[0].received) == (len(head), len(head))
    assert seen[0].status is None and seen[0].min_version is None


def test_bytes_that_nobody_asked_for_belong_to_no_exchange(conversation, seen):
    conversation.received(ANSWER)
    assert seen == []
