"""The stock `openai` package against a scripted agent on loopback."""

import asyncio

import pytest

openai = pytest.importorskip("openai")

from skerry.client import Span, Stamps, constraint_headers, stamps  # noqa: E402
from skerry.client.openai import async_openai_client, openai_client  # noqa: E402

from scripted_agent import (  # noqa: E402
    CHUNKS_END,
    DONE,
    chunked,
    data,
    not_ready,
    stamped,
    stream_head,
    summary,
)

PLACE = {"id": "c", "object": "text_completion", "created": 1, "model": "m"}
COMPLETION = {**PLACE, "choices": [{"index": 0, "text": " is wide", "finish_reason": "stop", "logprobs": None}]}
CHAT = {
    **PLACE,
    "object": "chat.completion",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Wide."}}],
}


def test_completions_and_chat_carry_the_constraint_and_show_their_versions(start):
    agent = start(stamped(COMPLETION, 7, 8), stamped(CHAT, 8, 8))
    with openai_client(agent.url, min_version=7, wait=30) as client:
        done = client.completions.create(model="m", prompt="The sea", max_tokens=4)
        chat = client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "?"}], extra_headers=constraint_headers(min_version=8)
        )
    assert done.choices[0].text == " is wide" and chat.choices[0].message.content == "Wide."
    assert (done.model_extra["weight_version_start"], done.model_extra["weight_version_end"]) == (7, 8)
    assert stamps(done) == Stamps(version_start=7, version_end=8)
    assert stamps(chat).one_version == 8
    assert [request.headers["skerry-min-version"] for request in agent.requests] == ["7", "8"]
    assert [request.headers["skerry-wait"] for request in agent.requests] == ["30", "30"]
    assert [request.path for request in agent.requests] == ["/v1/completions", "/v1/chat/completions"]
    assert agent.requests[0].headers["accept-encoding"] == "identity"


def test_a_constraint_may_also_stand_in_the_body(start):
    agent = start(stamped(COMPLETION, 7, 7))
    with openai_client(f"{agent.url}/v1") as client:
        client.completions.create(model="m", prompt="x", extra_body={"weight_version": {"exact_version": 7}})
    assert agent.requests[0].json["weight_version"] == {"exact_version": 7}


def test_the_raw_answer_has_the_headers_stamps(start):
    agent = start(stamped(COMPLETION, 7, 8, Skerry_Spans="7:0-1,8:1-2"))
    with openai_client(agent.url) as client:
        raw = client.completions.with_raw_response.create(model="m", prompt="x")
    assert stamps(raw).spans == ((Span(7, 0, 1), Span(8, 1, 2)),)
    assert (stamps(raw).run, stamps(raw).version_end) == ("grpo-1", 8)


@pytest.mark.parametrize("size", [1, 17, 10_000])
@pytest.mark.parametrize("kind", ["completions", "chat"])
def test_a_stream_shows_each_chunks_version_and_the_summary_is_not_seen(start, kind, size):
    key = {"completions": {"text": "w"}, "chat": {"delta": {"content": "w"}}}[kind]
    chunks = [{**PLACE, "choices": [{"index": 0, **key}], "weight_version": version} for version in (7, 7, 8)]
    body = b"".join(map(data, chunks)) + DONE + summary(7, 8, {"7": 2, "8": 1})
    agent = start([stream_head(), *chunked(body, size), CHUNKS_END])
    with openai_client(agent.url, min_version=7) as client:
        for _ in range(2):
            if kind == "chat":
                found = client.chat.completions.create(model="m", messages=[], stream=True)
            else:
                found = client.completions.create(model="m", prompt="x", stream=True)
            assert stamps(found.response).version_start == 7
            assert [stamps(chunk).event_version for chunk in found] == [7, 7, 8]


def test_a_stream_works_with_asyncio_too(start):
    body = data({**PLACE, "choices": [], "weight_version": 7}) + DONE + summary(7, 7, {"7": 1})
    agent = start([stream_head(), *chunked(body, 5), CHUNKS_END])

    async def read():
        async with async_openai_client(agent.url, exact_version=7) as client:
            found = await client.completions.create(model="m", prompt="x", stream=True)
            return [stamps(chunk).event_version async for chunk in found]

    assert asyncio.run(read()) == [7]
    assert agent.requests[0].headers["skerry-exact-version"] == "7"


def test_a_409_is_tried_again_by_the_package_and_is_then_a_conflict_with_its_fields(start):
    agent = start(not_ready(6, 7, after_ms=1), stamped(COMPLETION, 7, 7))
    agent.script[0] = [piece.replace(b"Retry-After: 2", b"Retry-After: 0.01") for piece in agent.script[0]]
    with openai_client(agent.url, min_version=7) as client:
        assert stamps(client.completions.create(model="m", prompt="x")).version_start == 7
    assert len(agent.requests) == 2
    agent = start(not_ready(6, 7))
    with openai_client(agent.url, min_version=7, max_retries=0) as client:
        with pytest.raises(openai.ConflictError) as caught:
            client.completions.create(model="m", prompt="x")
    assert (caught.value.body["applied"], caught.value.body["wanted"]) == (6, 7)
    assert len(agent.requests) == 1


def test_no_key_of_the_environment_is_sent(start, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret-of-another-service")
    agent = start(stamped(COMPLETION, 7, 7))
    with openai_client(agent.url) as client:
        client.completions.create(model="m", prompt="x")
    with openai_client(agent.url, api_key="given", default_headers={"X": "1"}) as client:
        client.completions.create(model="m", prompt="x")
    assert agent.requests[0].headers["authorization"] == "Bearer none"
    assert agent.requests[1].headers["authorization"] == "Bearer given" and agent.requests[1].headers["x"] == "1"
