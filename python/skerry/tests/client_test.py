"""Client and AsyncClient against a scripted agent on loopback. Each test of a call runs for both."""

import asyncio
import threading

import pytest

httpx = pytest.importorskip("httpx")

from skerry.client import (  # noqa: E402
    AgentUnreachable,
    AnswerBroken,
    AsyncClient,
    Client,
    ConstraintNotKept,
    EngineTimeout,
    EngineUnavailable,
    Forbidden,
    InvalidRequest,
    RequestFailed,
    Span,
    TooLarge,
    WeightVersionNotReady,
    stamps,
)
from skerry.client.call import Call  # noqa: E402
from skerry.client.options import Options  # noqa: E402
from skerry.client.retry import Retries  # noqa: E402

from scripted_agent import (  # noqa: E402
    CUT,
    WAIT_FOR_CLIENT,
    answer,
    chunked,
    data,
    not_ready,
    refused,
    stamped,
    stream_head,
)

COMPLETION = {"id": "c", "choices": [{"index": 0, "text": " is wide"}]}


def stream(client, **options):
    return client.stream("/v1/completions", {"prompt": "x"}, **options)


# Answers


def test_an_answer_has_its_stamps_and_the_request_its_constraint(start, both):
    agent = start(stamped(COMPLETION, 7, 8, Skerry_Spans="7:0-12,8:12-40"))
    client = both.client(agent, min_version=7, wait=30, headers={"Authorization": "Bearer t"})
    found = both.run(client.completions(model="m", prompt="The sea", max_tokens=4))
    assert (found.run, found.version_start, found.version_end, found.one_version) == ("grpo-1", 7, 8, None)
    assert found.spans == ((Span(7, 0, 12), Span(8, 12, 40)),)
    assert found.text == " is wide" and found.json["id"] == "c" and found.attempts == 1
    [request] = agent.requests
    assert (request.method, request.path) == ("POST", "/v1/completions")
    assert request.json == {"model": "m", "prompt": "The sea", "max_tokens": 4}
    assert request.headers["skerry-min-version"] == "7" and 29 < float(request.headers["skerry-wait"]) <= 30
    assert request.headers["authorization"] == "Bearer t"
    assert request.headers["accept-encoding"] == "identity"


def test_each_convenience_has_its_route_and_a_call_its_own_options(start, both):
    agent = start(stamped({"text": "x"}, 5, 5))
    client = both.client(agent, min_version=7, wait=30, headers={"A": "1"})
    both.run(client.chat({"messages": []}, exact_version=5, model="m", headers={"B": "2"}))
    both.run(client.generate(text="The sea", min_version=None))
    both.run(client.with_options(exact_version=5).post("inference/v1/generate", {"token_ids": [1]}, wait=None))
    both.run(client.get("/v1/models", min_version=5))
    chat, generate, tokens, models = agent.requests
    assert chat.path == "/v1/chat/completions" and chat.json == {"messages": [], "model": "m"}
    assert chat.headers["skerry-exact-version"] == "5" and "skerry-min-version" not in chat.headers
    assert (chat.headers["a"], chat.headers["b"]) == ("1", "2")
    assert generate.path == "/generate" and not [name for name in generate.headers if name.startswith("skerry-")]
    assert tokens.path == "/inference/v1/generate" and tokens.headers["skerry-exact-version"] == "5"
    assert "skerry-wait" not in tokens.headers
    assert (models.method, models.path, models.body) == ("GET", "/v1/models", b"")


def test_a_body_goes_as_it_is_or_as_json_in_utf8(start, both):
    agent = start(stamped({}, 7, 7))
    client = both.client(agent)
    both.run(client.request("PUT", "/x", b"\x00\xff"))
    both.run(client.post("/v1/completions", {"prompt": "sée", "weight_version": {"min_version": 7}}, wait=3))
    assert agent.requests[0].body == b"\x00\xff" and "content-type" not in agent.requests[0].headers
    assert agent.requests[1].body == '{"prompt":"sée","weight_version":{"min_version":7}}'.encode()
    assert "skerry-wait" in agent.requests[1].headers
    with pytest.raises(ValueError, match="stream"):
        both.run(client.completions(prompt="x", stream=True))
    with pytest.raises(ValueError):
        both.run(client.post("/x", {"temperature": float("nan")}))


def test_many_threads_share_a_client_and_each_gets_its_own_answer(start):
    agent = start(lambda request: stamped({"text": request.json["text"]}, 7, 7))
    found = {}
    with Client(agent.url) as client:

        def ask(number):
            found[number] = [client.generate(text=f"{number}.{i}").text for i in range(10)]

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {number: [f"{number}.{i}" for i in range(10)] for number in range(16)}


def test_hundreds_of_calls_run_at_once(start):
    everyone = threading.Barrier(300, timeout=60)

    def reply(request):
        everyone.wait()  # none is answered before all have come
        return stamped({"text": request.json["text"]}, 7, 7)

    async def ask():
        async with AsyncClient(start(reply).url) as client:
            return [found.text for found in await asyncio.gather(*(client.generate(text=str(i)) for i in range(300)))]

    assert asyncio.run(ask()) == [str(i) for i in range(300)]


def test_calls_share_small_pools_and_give_their_places_back_however_they_end(start, both):
    streamed = [stream_head(), *chunked(data({"text": "a"}), 9)]
    agent = start(
        stamped(COMPLETION, 7, 7),
        not_ready(6, 7),
        [CUT],
        [*stamped(COMPLETION, 7, 7)[:1], b"{", CUT],
        stamped(COMPLETION, 7, 7),
        [*streamed, CUT],
        [*streamed, WAIT_FOR_CLIENT],
    )
    client = both.client(agent)
    both.run(client.completions(prompt="x"))
    for error in (WeightVersionNotReady, AgentUnreachable, AnswerBroken):
        with pytest.raises(error):
            both.run(client.completions(prompt="x"))
    with pytest.raises(ConstraintNotKept):
        both.run(client.completions(prompt="x", min_version=8))
    with pytest.raises(AnswerBroken):
        both.events(stream(client))
    both.events(stream(client), most=1)
    assert client._http._transport._loads._running == [0]


# Refusals


def test_I2_a_409_is_tried_again_after_the_pause_that_it_asks_for(start, both):
    agent = start(not_ready(6, 7), not_ready(None, 7, after_ms=100), stamped(COMPLETION, 7, 7))
    found = both.run(both.client(agent).completions(prompt="x", min_version=7, wait=30))
    assert found.version_start == 7 and found.attempts == 3
    assert [request.json for request in agent.requests] == [{"prompt": "x"}] * 3
    assert 1.73 <= both.pauses[0] <= 1.73 * 1.25 and 0.1 <= both.pauses[1] <= 0.125
    waits = [float(request.headers["skerry-wait"]) for request in agent.requests]
    assert 30 >= waits[0] >= waits[1] >= waits[2] > 0


def test_I2_a_409_without_patience_is_raised_at_once_with_its_fields(start, both):
    agent = start(not_ready(6, 7))
    with pytest.raises(WeightVersionNotReady) as caught:
        both.run(both.client(agent).completions(prompt="x", min_version=7))
    error = caught.value
    assert (error.run, error.applied, error.wanted, error.constraint) == ("grpo-1", 6, 7, "min")
    assert error.retry_after == 1.73 and error.attempts == 1 and len(agent.requests) == 1


def test_I8_a_session_pinned_to_a_version_that_has_passed_is_told_at_once(start, both):
    agent = start(stamped(COMPLETION, 5, 5), not_ready(6, 5, "exact"))
    session = both.client(agent, exact_version=5, deadline=600)
    assert both.run(session.completions(prompt="x")).one_version == 5
    with pytest.raises(WeightVersionNotReady) as caught:
        both.run(session.completions(prompt="x"))
    assert caught.value.passed and len(agent.requests) == 2 and not both.pauses


def test_I10_a_patience_that_is_over_raises_the_last_refusal(start, both):
    agent = start(not_ready(6, 7, after_ms=50_000))
    with pytest.raises(WeightVersionNotReady) as caught:
        both.run(both.client(agent).completions(prompt="x", min_version=7, deadline=20))
    assert not both.pauses and caught.value.attempts == 1


@pytest.mark.parametrize("kind", ["NoEngineInRotation", "EngineUnreachable", "TooManyRequests"])
def test_I6_a_503_is_tried_again_where_a_deadline_was_given(start, both, kind):
    agent = start(refused(503, kind, retry_after="1"), stamped(COMPLETION, 7, 7))
    assert both.run(both.client(agent, deadline=60).completions(prompt="x")).attempts == 2
    assert 1 <= both.pauses[0] <= 1.25
    agent = start(refused(503, kind, retry_after="1"))
    with pytest.raises(EngineUnavailable) as caught:
        both.run(both.client(agent).completions(prompt="x"))
    assert (caught.value.type, caught.value.retry_after, len(agent.requests)) == (kind, 1, 1)


@pytest.mark.parametrize(
    "status, kind, error",
    [
        (400, "invalid", InvalidRequest),
        (403, "forbidden", Forbidden),
        (413, "too_large", TooLarge),
        (504, "EngineTimeout", EngineTimeout),
        (404, "NotFoundError", RequestFailed),
        (307, "", RequestFailed),
    ],
)
def test_other_refusals_are_raised_as_what_they_are(start, both, status, kind, error):
    agent = start(refused(status, kind))
    with pytest.raises(error) as caught:
        both.run(both.client(agent, deadline=60).post("/sleep", {}))
    assert type(caught.value) is error
    assert (caught.value.status, caught.value.type, caught.value.message) == (status, kind, f"{kind} it is")
    assert len(agent.requests) == 1


def test_a_later_try_is_held_no_longer_than_the_patience_lasts():
    times = iter([100.0, 100.0, 120.0, 175.0])
    call = Call(
        "http://127.0.0.1:1", "POST", "/v1/completions", {}, Options(min_version=7, wait=30, deadline=40, timeout=5)
    )
    call._retries = Retries(40, clock=lambda: next(times))
    with httpx.Client() as http:
        requests = [call.request(http) for _ in range(3)]
    assert [request.headers["skerry-wait"] for request in requests] == ["30", "20", "0"]
    assert [request.extensions["timeout"]["read"] for request in requests] == [35, 25, 5]


# Broken connections


def test_a_connection_that_breaks_before_the_head_is_tried_again_only_where_asked(start, both):
    agent = start([CUT], [b"HTTP/1.1 200 OK\r\nContent-Le", CUT], stamped(COMPLETION, 7, 7))
    with pytest.raises(AgentUnreachable) as caught:
        both.run(both.client(agent, deadline=60).completions(prompt="x"))
    assert not caught.value.timed_out and len(agent.requests) == 1
    assert both.run(both.client(agent, deadline=60, retry_transport=True).completions(prompt="x")).attempts == 2
    with pytest.raises(ValueError, match="retry_transport needs"):
        both.run(both.client(agent, retry_transport=True).completions(prompt="x"))


def test_an_agent_that_is_not_there_is_unreachable(start, both):
    agent = start([CUT])
    agent.close()
    client = both.client(agent, deadline=0.2, retry_transport=True)
    client._sleep = type(client)._sleep
    with pytest.raises(AgentUnreachable) as caught:
        both.run(client.get("/v1/models"))
    assert caught.value.__cause__ is not None


def test_an_agent_that_says_nothing_times_out(start, both):
    agent = start([WAIT_FOR_CLIENT])
    with pytest.raises(AgentUnreachable) as caught:
        both.run(both.client(agent, timeout=0.5).completions(prompt="x"))
    assert caught.value.timed_out and agent.client_left.wait(60)


def test_I6_an_answer_that_breaks_off_is_never_tried_again(start, both):
    whole = stamped(COMPLETION, 7, 7)
    agent = start([whole[0], whole[1][:10], CUT])
    with pytest.raises(AnswerBroken) as caught:
        both.run(both.client(agent, deadline=60, retry_transport=True).completions(prompt="x"))
    assert (caught.value.version_start, caught.value.run, len(agent.requests)) == (7, "grpo-1", 1)


# Promises


def test_an_answer_that_does_not_keep_the_constraint_is_not_given_out(start, both):
    for options, reply in [
        ({"min_version": 7}, answer(COMPLETION)),  # an engine's own address
        ({"min_version": 7}, stamped(COMPLETION, 6, 7)),
        ({"exact_version": 7}, stamped(COMPLETION, 8, 8)),
        ({"exact_version": 7}, stamped(COMPLETION, 7, 8)),
        ({"exact_version": 7}, answer({"weight_version_end": 8}, Skerry_Version_Start="7")),
    ]:
        with pytest.raises(ConstraintNotKept):
            both.run(both.client(start(reply), deadline=60, **options).completions(prompt="x"))
    assert both.run(both.client(start(answer(COMPLETION))).completions(prompt="x")).version_start is None


# The agent's own routes


def test_the_status_is_asked_without_a_constraint(start, both):
    agent = start(answer({"version": 7, "run": "grpo-1"}), answer({"version": None}), refused(503, "invalid"))
    client = both.client(agent, exact_version=9, wait=30)
    assert both.run(client.status()) == {"version": 7, "run": "grpo-1"}
    assert both.run(client.version()) is None
    assert (agent.requests[0].method, agent.requests[0].path) == ("GET", "/v1/skerry/status")
    assert not [name for name in agent.requests[0].headers if name.startswith("skerry-")]
    with pytest.raises(EngineUnavailable):
        both.run(client.status())


def test_a_version_is_waited_for_over_an_agent_that_starts_again(start, both):
    agent = start(
        answer({"version": 6}), [CUT], refused(503, "invalid"), answer({"version": None}), answer({"version": 8})
    )
    assert both.run(both.client(agent).wait_for_version(7, 60)) == 8
    assert len(agent.requests) == 5 and len(both.pauses) == 4
    with pytest.raises(WeightVersionNotReady, match="not 9 within 0 s"):
        both.run(both.client(agent).wait_for_version(9, 0))


# What other clients received


def test_stamps_are_read_out_of_answers_of_httpx_and_requests(start):
    requests = pytest.importorskip("requests")
    agent = start(
        answer({"weight_version_start": 7, "weight_version_end": 8}, Skerry_Run="r", Skerry_Version_Start="7")
    )
    for response in (httpx.get(f"{agent.url}/x"), requests.get(f"{agent.url}/x")):
        found = stamps(response)
        assert (found.run, found.version_start, found.version_end) == ("r", 7, 8)
    with requests.get(f"{agent.url}/x", stream=True) as unread:
        assert stamps(unread).version_end is None
        assert unread.json()["weight_version_end"] == 8  # nothing was taken from it


def test_a_base_url_may_end_as_openai_has_it():
    for url in ("http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"):
        assert Client(url)._base_url == "http://h:1"
    for url in ("h:1", "ftp://h", ""):
        with pytest.raises(ValueError):
            Client(url)
