"""Streams of Client and AsyncClient against a scripted agent on loopback. Each test runs for both."""

import asyncio
import gc

import pytest

httpx = pytest.importorskip("httpx")

from skerry.client import (  # noqa: E402
    AnswerBroken,
    AsyncClient,
    Client,
    ConstraintNotKept,
    Event,
    ProtocolError,
    Summary,
    WeightVersionNotReady,
)
from skerry.client import events as events_module  # noqa: E402

from scripted_agent import (  # noqa: E402
    CHUNKS_END,
    CLOSE,
    CUT,
    DONE,
    WAIT_FOR_CLIENT,
    chunked,
    data,
    head,
    not_ready,
    refused,
    stamped,
    stream_head,
    summary,
)

EVENTS = (
    data({"choices": [{"index": 0, "text": "The"}], "weight_version": 7})
    + data({"choices": [{"index": 0, "text": " seä"}], "weight_version": 8})
    + DONE
    + summary(7, 8, {"7": 1, "8": 1})
)


def stream(client, **options):
    return client.stream("/v1/completions", {"prompt": "x"}, **options)


@pytest.mark.parametrize("size", [1, 3, 50, 10_000])
def test_a_stream_gives_events_with_versions_and_then_its_summary(start, both, size):
    agent = start([stream_head(), *chunked(EVENTS, size), CHUNKS_END])
    client = both.client(agent, min_version=7)
    for _ in range(2):  # over the same connection
        found = stream(client)
        with pytest.raises(RuntimeError, match="not been opened"):
            found.run
        events = both.events(found)
        assert [(event.version, event.text) for event in events] == [(7, "The"), (8, " seä")]
        assert isinstance(events[0], Event) and events[0].data["choices"][0]["text"] == "The"
        assert found.summary == Summary("grpo-1", 7, 8, {7: 1, 8: 1})
        assert (found.run, found.version_start, found.version_end, found.done) == ("grpo-1", 7, 8, True)
        assert found.stamps.one_version is None and found.headers["content-type"] == "text/event-stream"
        assert both.events(found) == []
    assert agent.requests[0].json == {"prompt": "x", "stream": True}
    assert agent.requests[0].headers["skerry-min-version"] == "7"


def test_a_stream_without_done_or_stamps_ends_with_its_connection(start, both):
    agent = start([head(200, {"Content-Type": "text/event-stream"}), data({"text": "a"}), CLOSE])
    found = stream(both.client(agent))
    assert both.events(found) == [Event({"text": "a"})]
    assert not found.done and found.summary is None and found.version_start is None


def test_a_stream_that_is_refused_is_tried_again_before_its_first_byte(start, both):
    agent = start(
        not_ready(6, 7),
        refused(503, "EngineUnreachable", retry_after="1"),
        [stream_head(), *chunked(EVENTS, 40), CHUNKS_END],
    )
    found = stream(both.client(agent), min_version=7, wait=30)
    assert len(both.events(found)) == 2 and len(agent.requests) == 3 and len(both.pauses) == 2
    with pytest.raises(WeightVersionNotReady):
        both.events(stream(both.client(start(not_ready(6, 7))), min_version=7))


def test_I6_a_stream_that_breaks_off_is_never_tried_again(start, both):
    sent = data({"text": "a", "weight_version": 7}) + data({"text": "b", "weight_version": 8}) + b"data: {"
    agent = start([stream_head(), *chunked(sent, 25), CUT])
    found = stream(both.client(agent, deadline=60, retry_transport=True))
    with pytest.raises(AnswerBroken, match="after 2 events") as caught:
        both.events(found)
    error = caught.value
    assert (error.events, error.last_version, error.version_start, error.run) == (2, 8, 7, "grpo-1")
    assert len(agent.requests) == 1 and found.closed and both.events(found) == []


def test_a_stream_whose_end_is_missing_has_broken_off(start, both):
    agent = start([stream_head(), *chunked(EVENTS, 1000), CLOSE])
    found = stream(both.client(agent))
    with pytest.raises(AnswerBroken):
        both.events(found)


def test_I3_leaving_a_stream_early_closes_its_connection(start, both):
    agent = start([stream_head(), *chunked(data({"text": "a", "weight_version": 7}), 9), WAIT_FOR_CLIENT])
    assert len(both.events(stream(both.client(agent)), most=1)) == 1
    assert agent.client_left.wait(60)


def test_I3_a_loop_that_is_left_without_with_closes_its_connection(start):
    agent = start([stream_head(), *chunked(data({"text": "a"}), 9), WAIT_FOR_CLIENT])
    with Client(agent.url) as client:
        for event in stream(client):
            assert event.data == {"text": "a"}
            break
        del event
        gc.collect()
        assert agent.client_left.wait(60)
        assert client._http._transport._loads._running == [0]


def test_I3_cancelling_a_call_closes_its_connection(start):
    for whole in (True, False):
        agent = start([WAIT_FOR_CLIENT] if whole else [stream_head(), WAIT_FOR_CLIENT])

        async def leave():
            async with AsyncClient(agent.url) as client:

                async def read():
                    async with stream(client) as events:
                        async for _ in events:
                            pass

                task = asyncio.create_task(client.completions(prompt="x") if whole else read())
                while not agent.requests:
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert await asyncio.to_thread(agent.client_left.wait, 60)

        asyncio.run(leave())


def test_a_stream_that_does_not_keep_the_constraint_is_not_given_out(start, both):
    for options, reply in [
        ({"min_version": 9}, [stream_head(7), *chunked(EVENTS, 99), CHUNKS_END]),
        ({"exact_version": 7}, [stream_head(7), *chunked(EVENTS, 99), CHUNKS_END]),  # its summary says 7 to 8
    ]:
        with pytest.raises(ConstraintNotKept):
            both.events(stream(both.client(start(reply)), **options))


def test_a_stream_that_fails_is_closed_without_with_too(start, both, monkeypatch):
    monkeypatch.setattr(events_module, "LARGEST_EVENT", 10)
    agent = start([stream_head(), *chunked(data({"text": "a" * 20}), 9), WAIT_FOR_CLIENT])
    client = both.client(agent)
    with pytest.raises(ProtocolError, match="larger than 10"):
        found = stream(client)
        next(found) if both.kind == "sync" else both.run(found.__anext__())
    assert found.closed and agent.client_left.wait(60)


def test_an_answer_that_is_no_stream_is_told(start, both):
    with pytest.raises(ProtocolError, match="application/json"):
        both.events(stream(both.client(start(stamped({}, 7, 7)))))
