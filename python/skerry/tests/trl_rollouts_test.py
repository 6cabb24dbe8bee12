"""rollout_func over scripted agents: division, versions, islands that go and come. Without a model."""

import threading
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("trl")

from scripted_agent import CUT, answer, refused, stamped  # noqa: E402
from skerry.client.errors import ConstraintNotKept, InvalidRequest, ProtocolError  # noqa: E402
from skerry.errors import Invalid, Unsupported  # noqa: E402
from skerry.trl import NoIsland, rollout_func  # noqa: E402
from skerry.trl.fleet import Fleet  # noqa: E402
from skerry.trl.prompts import alike, divided  # noqa: E402


def tokenize(text):
    return {"input_ids": [[ord(letter) for letter in one] for one in text]}


class Chat:
    """A processing class for conversations too."""

    def __call__(self, text):
        return tokenize(text)

    def apply_chat_template(
        self, conversation, tools, chat_template, add_generation_prompt, tokenize, return_dict, **more
    ):
        assert add_generation_prompt and tokenize and return_dict and more == {"enable_thinking": False}
        return {"input_ids": [[len(message["content"]) for message in one] + [99] for one in conversation]}


class Head:
    """A publisher, as far as rollouts ask it."""

    def __init__(self, version):
        self.version, self.waited = version, 0

    def wait(self):
        self.waited += 1
        self.version += 1  # what was in flight
        return self.version


def trainer(step=3, **args):
    defaults = {
        "max_completion_length": 4, "temperature": 0.7, "top_p": 1.0, "top_k": 0, "min_p": None,
        "repetition_penalty": 1.0, "generation_kwargs": None,
    }  # fmt: skip
    return SimpleNamespace(
        processing_class=Chat(),
        tools=None,
        chat_template=None,
        chat_template_kwargs={"enable_thinking": False},
        args=SimpleNamespace(**(defaults | args)),
        state=SimpleNamespace(global_step=step),
        accelerator=SimpleNamespace(num_processes=1, is_main_process=True),
        callback_handler=SimpleNamespace(callbacks=[]),
    )


def completions(version, model="m", end=None):
    """Answers every request: token ids that tell the prompt and the place in the request."""

    def reply(request):
        if request.path == "/v1/models":
            return answer({"data": [{"id": model}]})
        body = request.json
        choices = [
            {
                "index": n,
                "token_ids": [*body["prompt"], n],
                "logprobs": {"token_logprobs": [-0.5] * len(body["prompt"]) + [None]},
            }
            for n in range(body["n"])
        ]
        return stamped({"choices": choices[::-1]}, version, version if end is None else end)

    return reply


def sampled(agent):
    return [request for request in agent.requests if request.path == "/v1/completions"]


@pytest.fixture
def run():
    """Makes a rollout_func that is closed at the end."""
    made = []

    def make(agents, **options):
        made.append(rollout_func(agents, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_every_row_of_a_batch_gets_a_completion_of_its_own_prompt(start, run):
    agent = start(completions(7))
    rollouts = run(agent.url)
    made = rollouts(["ab", "ab", "ab", "c", "c", "c", "ab", "ab", "ab"], trainer())
    assert made["prompt_ids"] == [[97, 98]] * 3 + [[99]] * 3 + [[97, 98]] * 3
    assert made["completion_ids"] == [[97, 98, n] for n in range(3)] + [[99, n] for n in range(3)] + [
        [97, 98, n] for n in range(3)
    ]
    assert made["logprobs"][3] == [-0.5, None]
    assert sorted(request.json["n"] for request in sampled(agent)) == [3, 3, 3]


def test_requests_carry_the_trainers_sampling_and_the_engines_name_of_the_model(start, run):
    agent = start(completions(7, model="policy"))
    batch = trainer(top_k=5, min_p=0.1, generation_kwargs={"seed": 3}, max_completion_length=9)
    run(agent.url, sampling={"temperature": 0.2, "stop": ["x"]})(["a"], batch)
    [request] = sampled(agent)
    assert request.json == {
        "model": "policy", "prompt": [97], "n": 1, "max_tokens": 9, "temperature": 0.2, "top_p": 1.0, "top_k": 5,
        "min_p": 0.1, "repetition_penalty": 1.0, "seed": 3, "stop": ["x"], "logprobs": 0, "return_token_ids": True,
    }  # fmt: skip
    assert "skerry-min-version" not in request.headers  # this trainer publishes nothing


def test_conversations_are_rendered_by_the_chat_template(start, run):
    agent = start(completions(7))
    prompt = [{"role": "system", "content": "be"}, {"role": "user", "content": "hello"}]
    assert run(agent.url)([prompt, prompt], trainer())["prompt_ids"] == [[2, 5, 99]] * 2
    with pytest.raises(Unsupported, match="images"):
        run(agent.url)([[{"role": "user", "content": [{"type": "image"}]}]], trainer())


@pytest.mark.parametrize(
    ("staleness", "version", "wanted"), [(0, 5, "6"), (1, 5, "4"), (3, 5, "2"), (9, 5, "0"), (None, 5, None)]
)
def test_min_version_follows_the_published_version_at_the_allowed_distance(start, run, staleness, version, wanted):
    agent, head = start(completions(6)), Head(version)
    run(agent.url, publisher=head, staleness=staleness)(["a"], trainer())
    assert sampled(agent)[0].headers.get("skerry-min-version") == wanted
    assert head.waited == (staleness == 0)


def test_records_say_which_version_made_each_completion(start, run):
    agent, told = start(completions(6, end=7)), []
    rollouts = run(agent.url, publisher=Head(8), staleness=2, on_answer=told.append)
    rollouts(["a", "a"], trainer(step=11))
    [record] = rollouts.records
    assert told == [record]
    assert (record.agent, record.step, record.rows, record.head, record.min_version) == (agent.url, 11, (0, 1), 8, 6)
    assert (record.version_start, record.version_end, record.behind, record.tokens, record.attempts) == (6, 7, 2, 4, 1)
    assert record.completions == 2


def test_a_batch_is_divided_over_the_islands(start, run):
    first, second = start(completions(7)), start(completions(7))
    run([first.url, second.url])(["a"] * 8, trainer())
    assert sorted(request.json["n"] for one in (first, second) for request in sampled(one)) == [4, 4]
    assert len(sampled(first)) == len(sampled(second)) == 1


@pytest.mark.parametrize(
    "failing",
    [
        lambda request: [CUT],
        lambda request: [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nSkerry-Version-Start: 7\r\n\r\nabc", CUT],
        lambda request: refused(503, "NoEngineInRotation"),
        lambda request: refused(503, "EngineUnreachable", retry_after="2"),
        lambda request: refused(504, "EngineTimeout"),
        lambda request: refused(500, "EngineDeadError"),
        lambda request: refused(429, "TooManyRequests"),
        lambda request: refused(409, "WeightVersionNotReady", run="r", applied=3, wanted=6, constraint="min"),
    ],
)
def test_what_one_island_cannot_answer_another_does(start, run, failing):
    models = lambda then: (
        lambda request: answer({"data": [{"id": "m"}]}) if request.path == "/v1/models" else then(request)
    )  # noqa: E731
    bad, good = start(models(failing)), start(completions(7))
    rollouts = run([bad.url, good.url], publisher=Head(7))
    made = rollouts(["ab", "c", "d", "e"], trainer())
    assert [ids[-1] for ids in made["completion_ids"]] == [0, 0, 0, 0]
    assert {record.agent for record in rollouts.records} == {good.url}
    assert len(sampled(bad)) > 0 and max(record.attempts for record in rollouts.records) == 2


def test_an_island_that_is_gone_costs_a_try_and_is_asked_last_from_then_on(start, run):
    gone, good = start(completions(7)), start(completions(7))
    gone.close()
    rollouts = run([gone.url, good.url])
    for _ in range(5):
        rollouts(["a", "b"], trainer())
    assert [record.agent for record in rollouts.records] == [good.url] * 10
    assert sum(record.attempts - 1 for record in rollouts.records) <= 2  # it rests after its first failure


def test_islands_leave_and_join_in_mid_run(start, run):
    first, second = start(completions(7)), start(completions(8))
    urls = [first.url]
    rollouts = run(lambda: urls)
    rollouts(["a", "b"], trainer())
    urls[:] = [second.url]
    rollouts(["a", "b"], trainer())
    assert [record.agent for record in rollouts.records] == [first.url] * 2 + [second.url] * 2


def test_an_island_that_is_behind_is_asked_to_hold_the_request_only_when_all_have_refused(start, run):
    behind = refused(409, "WeightVersionNotReady", run="r", applied=3, wanted=6, constraint="min")
    models = answer({"data": [{"id": "m"}]})
    agents = [start(models, behind, completions(6)), start(models, behind, behind, completions(6))]
    rollouts = run([agent.url for agent in agents], publisher=Head(7), hold=1.5)
    rollouts(["a"], trainer())
    waits = [request.headers.get("skerry-wait") for agent in agents for request in sampled(agent)]
    assert waits.count(None) == 2 and set(waits) == {None, "1.5"}


def test_no_island_at_all_is_waited_for_up_to_the_timeout(start, run):
    urls = []
    rollouts = run(lambda: urls, timeout=30)
    agent = start(completions(7))
    threading.Timer(0.3, lambda: urls.append(agent.url)).start()
    assert rollouts(["a"], trainer())["completion_ids"] == [[97, 0]]

    urls.clear()
    rollouts = run(lambda: urls, timeout=0.3)
    with pytest.raises(NoIsland, match="no island answered in time: there is none"):
        rollouts(["a"], trainer())


def test_the_last_error_of_each_island_is_told_when_the_time_is_over(start, run):
    gone = start(completions(7))
    gone.close()
    behind = start(
        answer({"data": [{"id": "m"}]}),
        refused(409, "WeightVersionNotReady", run="r", applied=3, wanted=6, constraint="min"),
    )
    with pytest.raises(NoIsland) as caught:
        run([gone.url, behind.url], publisher=Head(7), timeout=1.0, hold=0.1)(["a"], trainer())
    assert set(caught.value.errors) == {gone.url, behind.url}
    assert "version 6 or newer" in str(caught.value) and "409" in str(caught.value)


def test_what_the_engine_says_of_the_request_itself_is_raised_at_once(start, run):
    agent = start(answer({"data": [{"id": "m"}]}), refused(400, "invalid"))
    other = start(completions(7))
    with pytest.raises(InvalidRequest):
        run([agent.url, other.url], timeout=60)(["a", "b"], trainer())


def test_an_engines_own_url_is_found_out_by_its_missing_stamps(start, run):
    engine = start(answer({"data": [{"id": "m"}]}), answer({"choices": []}))
    with pytest.raises(ConstraintNotKept, match="is the base URL that of an engine"):
        run(engine.url, publisher=Head(7))(["a"], trainer())


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"choices": []}, "0 completions came where 1"),
        ({"choices": [{"index": 0, "text": "x"}]}, "without token ids"),
        (
            {"choices": [{"index": 0, "token_ids": [1, 2], "logprobs": {"token_logprobs": [0.0]}}]},
            "2 tokens came with 1",
        ),
    ],
)
def test_answers_that_no_trainer_could_use_are_refused(start, run, body, says):
    agent = start(answer({"data": [{"id": "m"}]}), stamped(body, 7, 7))
    with pytest.raises(ProtocolError, match=says):
        run(agent.url)(["a"], trainer())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"agents": []}, "^agents: no URL"),
        ({"agents": "island:8089"}, "^agents: base_url"),
        ({"agents": "http://h", "staleness": -1}, "^staleness: -1"),
        ({"agents": "http://h", "concurrency": 0}, "^concurrency: 0"),
    ],
)
def test_J2_arguments_that_make_no_sense_are_refused_when_it_is_made(arguments, says):
    with pytest.raises(Invalid, match=says):
        rollout_func(**arguments)


def test_groups_are_cut_into_parts_of_about_the_same_size():
    assert alike([[1], [1], [2], [1]]) == [[0, 1], [2], [3]]
    assert divided([[0, 1, 2, 3, 4, 5, 6, 7], [8]], 3) == [[0, 1, 2], [3, 4, 5], [6, 7], [8]]
    assert divided([[0, 1, 2, 3]], 4) == [[0, 1, 2, 3]]


def test_the_least_busy_island_is_asked_first(start):
    release = threading.Event()

    def slow(request):
        release.wait(30)
        return completions(7)(request)

    busy, idle = start(slow), start(completions(7))
    fleet = Fleet([busy.url, idle.url])

    def body(client, url):
        return {"prompt": [1], "n": 1}

    def post():
        return fleet.post("/v1/completions", body, min_version=None, deadline=time.monotonic() + 30).agent

    first = threading.Thread(target=post)
    first.start()
    while not busy.requests:
        time.sleep(0.001)
    assert [post() for _ in range(3)] == [idle.url] * 3
    release.set()
    first.join()
    fleet.close()
