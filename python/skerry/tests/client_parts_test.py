"""The parts of skerry.client that send nothing: constraints, stamps, events, retries, errors."""

import copy
import json
import pickle
import subprocess
import sys

import pytest
from skerry.client import (
    AgentUnreachable,
    Answer,
    AnswerBroken,
    ConstraintNotKept,
    EngineUnavailable,
    InvalidRequest,
    ProtocolError,
    RequestFailed,
    Span,
    Stamps,
    WeightVersionNotReady,
    constraint_headers,
    stamps,
)
from skerry.client import events as events_module
from skerry.client.errors import failure
from skerry.client.events import Event, EventReader, Summary
from skerry.client.options import Options
from skerry.client.retry import Retries
from skerry.client.stamps import parse_spans
from skerry.client.version_wait import VersionWait


class Clock:
    def __init__(self):
        self.time = 100.0

    def __call__(self):
        return self.time


def most(low, high):
    return high


def begun(patience, **options):
    retries = Retries(patience, **options)
    retries.begin_try()
    return retries


def refusal(status=409, retry_after_ms=None, headers=(), **fields):
    kind = {409: "WeightVersionNotReady", 503: "NoEngineInRotation"}[status]
    error = {"type": kind, "message": "m", "run": "r", "applied": 6, "wanted": 7, "constraint": "min", **fields}
    if retry_after_ms is not None:
        error["retry_after_ms"] = retry_after_ms
    return failure(status, dict(headers), json.dumps({"error": error}).encode())


# Constraints


def test_headers_are_made_for_each_constraint():
    assert constraint_headers(min_version=7) == {"Skerry-Min-Version": "7"}
    assert constraint_headers(exact_version=0, wait=30) == {"Skerry-Exact-Version": "0", "Skerry-Wait": "30"}
    assert constraint_headers(wait=2.5) == {"Skerry-Wait": "2.5"}
    assert constraint_headers(wait=1e-7) == {"Skerry-Wait": "0"}
    assert constraint_headers(wait=100) == {"Skerry-Wait": "100"}
    assert constraint_headers() == {}


@pytest.mark.parametrize(
    "arguments",
    [
        {"min_version": 7, "exact_version": 7},
        {"min_version": -1},
        {"exact_version": 1_000_000_000},
        {"wait": -1},
        {"wait": 3601},
        {"wait": float("nan")},
    ],
)
def test_I2_a_constraint_that_an_agent_would_refuse_is_a_value_error(arguments):
    with pytest.raises(ValueError):
        constraint_headers(**arguments)


@pytest.mark.parametrize(
    "arguments", [{"min_version": "7"}, {"min_version": 7.0}, {"exact_version": True}, {"wait": []}]
)
def test_I2_a_constraint_of_another_type_is_a_type_error(arguments):
    with pytest.raises(TypeError):
        constraint_headers(**arguments)


def test_a_numpy_version_is_a_version():
    numpy = pytest.importorskip("numpy")
    assert constraint_headers(min_version=numpy.int64(7)) == {"Skerry-Min-Version": "7"}


def test_one_version_of_a_call_takes_the_place_of_both_of_the_client():
    options = Options(min_version=7, wait=3, headers={"A": "1"})
    assert options.replaced({"exact_version": 5}).constraint.headers() == {
        "Skerry-Exact-Version": "5",
        "Skerry-Wait": "3",
    }
    assert options.replaced({"min_version": None, "headers": {"B": "2"}}).headers == {"A": "1", "B": "2"}
    with pytest.raises(TypeError, match="unknown argument 'minversion'"):
        options.replaced({"minversion": 5})
    with pytest.raises(ValueError):
        Options(deadline=-1)
    with pytest.raises(ValueError):
        Options(timeout=0)


# Stamps


def test_spans_are_read_for_each_choice():
    assert parse_spans("7:0-12,8:12-40;7:0-30") == ((Span(7, 0, 12), Span(8, 12, 40)), (Span(7, 0, 30),))
    assert parse_spans("?:0-3;;8:0-0") == ((Span(None, 0, 3),), (), (Span(8, 0, 0),))


@pytest.mark.parametrize("text", ["7", "7:0", "7:5-4", "7:0-x", "-7:0-1", "7:0-12,", "9999999999:0-1", "7:0-1 8:1-2"])
def test_spans_that_cant_be_read_are_an_error(text):
    with pytest.raises(ProtocolError):
        parse_spans(text)


def test_stamps_are_read_out_of_dicts_of_headers_and_bodies():
    assert stamps({"Skerry-Run": "r", "SKERRY-VERSION-START": "7", "Skerry-Spans": "7:0-2"}) == Stamps(
        run="r", version_start=7, spans=((Span(7, 0, 2),),)
    )
    assert stamps({"id": "x", "weight_version_start": 7, "weight_version_end": None}) == Stamps(version_start=7)
    assert stamps({"choices": [], "weight_version": 8}) == Stamps(event_version=8)
    assert stamps({}) == Stamps()
    assert Stamps(version_start=7, version_end=7).one_version == 7
    assert Stamps(version_start=7, version_end=8).one_version is None
    with pytest.raises(ProtocolError):
        stamps({"Skerry-Version-Start": "seven"})
    with pytest.raises(TypeError):
        stamps(7)


def test_an_answer_reads_its_headers_first_and_its_body_for_the_rest():
    headers = {"skerry-run": "r", "skerry-version-start": "7"}
    found = Answer(200, headers, b'{"choices": [{"text": "a"}], "weight_version_start": 7, "weight_version_end": 8}')
    assert (found.run, found.version_start, found.version_end, found.one_version, found.spans) == (
        "r",
        7,
        8,
        None,
        None,
    )
    assert found.text == "a"
    assert pickle.loads(pickle.dumps(found)) == found
    assert stamps(found) == found.stamps


def test_texts_are_those_of_completions_chat_and_generate():
    def texts(body):
        return Answer(200, {}, json.dumps(body).encode()).texts

    assert texts({"choices": [{"text": "a"}, {"text": "b"}]}) == ["a", "b"]
    assert texts({"choices": [{"message": {"content": "c"}}]}) == ["c"]
    assert texts({"text": "d", "meta_info": {}}) == ["d"]
    assert texts([{"text": "e"}, {"text": "f"}]) == ["e", "f"]
    for body in ({"data": []}, {"choices": [{"message": {"content": None, "tool_calls": []}}]}, [7], 7):
        with pytest.raises(ValueError):
            texts(body)
    with pytest.raises(ValueError, match="2 choices"):
        Answer(200, {}, b'{"choices": [{"text": "a"}, {"text": "b"}]}').text


# Events


STREAM = (
    "\ufeff: hello\r\n\r\n"
    'id: 4\ndata: {"choices": [{"index": 0, "text": "sea é"}], "weight_version": 7}\n\n'
    'event: delta\r\ndata: {"choices": [{"index": 1, "delta": {"content": "no"}},\rdata: '
    '{"index": 0, "delta": {"content": "€"}}], "weight_version": null}\r\r'
    "data:plain\nretry: 5\nunknown\n\n"
    "data: [DONE]\n\n"
    'event: skerry.summary\ndata: {"run": "r", "weight_version_start": 7, "weight_version_end": null, '
    '"events": {"7": 1, "null": 2}}\n\n'
    "data: unfinished"
).encode()


def read(pieces):
    reader = EventReader()
    return [event for piece in pieces for event in reader.feed(piece)], reader


def check_stream(events, reader):
    assert [(e.event, e.version, e.text, e.id) for e in events] == [
        ("message", 7, "sea é", "4"),
        ("delta", None, "€", "4"),
        ("message", None, "", "4"),
    ]
    assert events[2].data == "plain"
    assert reader.done and (reader.count, reader.last_version) == (3, None)
    assert reader.summary == Summary("r", 7, None, {7: 1, None: 2})


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 64, 10_000])
def test_events_do_not_depend_on_how_the_stream_is_cut(size):
    check_stream(*read(STREAM[i : i + size] for i in range(0, len(STREAM), size)))


def test_events_are_the_same_for_every_cut_in_two():
    for cut in range(len(STREAM) + 1):
        check_stream(*read([STREAM[:cut], b"", STREAM[cut:]]))


def test_an_event_comes_with_its_last_byte_and_not_later():
    reader = EventReader()
    assert reader.feed(b"data: 1\n") == []
    assert reader.feed(b"\n") == [Event(1)]
    assert reader.feed(b"data: 2\r\r") == [Event(2)]  # a LF that might follow is not waited for
    assert reader.feed(b"\ndata: 3\r\n\r\n") == [Event(3)]


def test_line_endings_may_be_mixed_and_a_byte_order_mark_stands_before_the_first_line():
    body = b"\xef\xbb\xbfdata: 1\r\n\ndata: 2\ndata: 3\r\r\n\ndata: \xef\xbb\xbf\n\n"
    for size in (1, 100):
        events, _ = read(body[i : i + size] for i in range(0, len(body), size))
        assert events == [Event(1), Event("2\n3"), Event("\ufeff")]


def test_an_endless_event_is_refused(monkeypatch):
    monkeypatch.setattr(events_module, "LARGEST_EVENT", 1000)
    for piece in (b"data: " + b"x" * 90, b"data: " + b"x" * 90 + b"\n"):
        with pytest.raises(ProtocolError, match="larger than 1000"):
            read([piece] * 20)
    events, _ = read([b": " + b"x" * 90 + b"\n"] * 20 + [b"data: " + b"x" * 900 + b"\n\n"] * 5)
    assert len(events) == 5


# Retries


def test_without_patience_every_refusal_is_final():
    assert begun(None).pause(refusal(retry_after_ms=1)) is None


@pytest.mark.parametrize("status", [409, 503])
def test_the_pause_is_what_the_answer_asks_for_and_a_random_part_on_top(status):
    error = refusal(status, retry_after_ms=1730, headers={"Retry-After": "2"}.items())
    assert begun(60, uniform=lambda low, high: low).pause(error) == 1.73
    assert begun(60, uniform=most).pause(error) == pytest.approx(1.73 * 1.25)
    assert begun(60, uniform=lambda low, high: low).pause(refusal(status, headers={"retry-after": "2"}.items())) == 2.0


def test_an_answer_that_asks_for_no_pause_is_not_stormed():
    assert begun(60, uniform=most).pause(refusal(retry_after_ms=0)) == 0.0625


def test_pauses_grow_where_the_answer_names_none():
    retries = Retries(3600, uniform=most)
    pauses = []
    for _ in range(8):
        retries.begin_try()
        pauses.append(retries.pause(refusal()))
    assert pauses == [0.25, 0.5, 1, 2, 4, 5, 5, 5]


def test_a_pause_that_would_outlast_the_patience_ends_it():
    clock = Clock()
    retries = begun(4, clock=clock, uniform=lambda low, high: low)
    error = refusal(retry_after_ms=1500)
    clock.time += 2.4
    assert retries.pause(error) == 1.5 and retries.left() == pytest.approx(1.6)
    clock.time += 0.2
    assert retries.pause(error) is None
    clock.time += 10
    assert retries.left() == 0 and retries.pause(error) is None


def test_I8_an_exact_version_that_has_passed_is_final():
    passed = refusal(constraint="exact", applied=8, wanted=7)
    assert passed.passed and begun(60).pause(passed) is None
    for to_come in (refusal(constraint="exact", applied=6), refusal(constraint="exact", applied=None), refusal()):
        assert not to_come.passed and begun(60).pause(to_come) is not None


def test_only_refusals_that_may_pass_are_tried_again():
    for error in (failure(400, {}, b""), failure(504, {}, b""), failure(409, {}, b"conflict"), AnswerBroken("m")):
        assert begun(60).pause(error) is None
    assert begun(60).pause(AgentUnreachable("m")) is None
    assert begun(60, transport=True).pause(AgentUnreachable("m")) is not None
    assert begun(60, transport=True).pause(AnswerBroken("m")) is None


def test_a_wait_for_a_version_ends_with_what_was_last_seen():
    clock = Clock()
    wait = VersionWait(7, 5, clock=clock, uniform=most)
    assert wait.took({"version": 6, "run": "r"}) is None and wait.took({"version": None}) is None
    assert wait.took({"version": 7}) == 7 and wait.took({"version": 9}) == 9
    assert [wait.pause() for _ in range(3)] == [0.05, pytest.approx(0.075), pytest.approx(0.1125)]
    clock.time += 5
    wait.took({"version": 6, "run": "r"})
    with pytest.raises(WeightVersionNotReady, match="run r serves version 6, not 7 within 5 s") as caught:
        wait.pause()
    assert (caught.value.applied, caught.value.wanted, caught.value.run) == (6, 7, "r")
    wait.failed(AgentUnreachable("away"))
    with pytest.raises(AgentUnreachable, match="away"):
        wait.pause()


# Errors


def test_a_failure_has_the_fields_of_its_answer():
    error = refusal(retry_after_ms=1730)
    assert isinstance(error, WeightVersionNotReady)
    assert (error.status, error.type, error.message) == (409, "WeightVersionNotReady", "m")
    assert (error.run, error.applied, error.wanted, error.constraint, error.retry_after) == ("r", 6, 7, "min", 1.73)
    other = failure(400, {}, b'{"error": "bad model"}')
    assert isinstance(other, InvalidRequest) and (other.type, other.message) == ("", "bad model")
    plain = failure(502, {"Retry-After": "Wed, 01 Jan 2020 00:00:00 GMT"}, b"<html>\xff" + b"x" * 1000)
    assert type(plain) is RequestFailed and plain.retry_after == 0 and len(str(plain)) < 400 and len(plain.body) == 1007
    assert failure(503, {}, b'[{"error": 1}]').retry_after is None


def every_error():
    yield refusal(retry_after_ms=5)
    yield from (failure(status, {}, b'{"error": {"message": "m"}}') for status in (400, 403, 404, 413, 503, 504))
    yield AgentUnreachable("m", timed_out=True)
    yield AnswerBroken("m", events=3, last_version=7, version_start=6, run="r")
    yield ConstraintNotKept("m")


@pytest.mark.parametrize("error", [*every_error()], ids=lambda error: type(error).__name__)
def test_errors_can_be_pickled_and_copied(error):
    error.attempts = 3
    for again in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert type(again) is type(error) and str(again) == str(error) and again.args == error.args
        assert vars(again) == vars(error) and again.attempts == 3


def test_a_refusal_that_an_engine_made_up_is_still_an_error_with_its_fields():
    error = failure(
        503, {"Retry-After": "soon"}, json.dumps({"error": {"message": "busy", "retry_after_ms": "x"}}).encode()
    )
    assert isinstance(error, EngineUnavailable) and error.retry_after is None and "busy" in str(error)


# The module


def run_python(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_module_imports_without_httpx_and_says_what_to_install():
    out = run_python(
        "import sys; sys.modules['httpx'] = None\n"
        "from skerry.client import constraint_headers, stamps\n"
        "print(constraint_headers(min_version=7))\n"
        "try:\n    from skerry.client import Client\nexcept ImportError as error:\n    print(error)\n"
    )
    assert "Skerry-Min-Version" in out and "pip install 'skerry[client]'" in out


def test_the_client_takes_nothing_of_the_plugin():
    pytest.importorskip("httpx")
    out = run_python(
        "import sys\nfrom skerry.client import Client, AsyncClient\n"
        "print([name for name in ('skerry._core', 'skerry.vllm', 'vllm', 'torch', 'numpy') if name in sys.modules])"
    )
    assert out.strip() == "[]"
