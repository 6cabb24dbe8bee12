"""What the agent tells of the requests that it forwards: its access log and its metrics."""

import json

import pytest

from agent_process import wait_for
from asking import Stream, ask_for, exact
from raw_client import Cut, ask, post
from recording_engine import FIN, events

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def lines_of(path, count):
    """Once they are all there."""
    wait_for(lambda: path.exists() and path.read_text().count("\n") >= count, f"{count} lines of the access log")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_answer_has_its_line_in_the_access_log(agent, engine, trainer, tmp_path):
    path, e = tmp_path / "access.log", engine("vllm plugin", token_seconds=0.01)
    a = agent(trainer, e, options=("--access-log", path))
    a.wait_for_version(0)
    parent = [("traceparent", f"00-{TRACE}-00f067aa0ba902b7-01"), ("Authorization", "Bearer secret-token")]
    body = {"prompt": "secret-prompt", "max_tokens": 2}
    answer = post(a.url, "/v1/completions?a=1", body, parent)
    assert ask_for(a, exact(5)).status == 409
    assert ask(a.url, "POST", "/pause", body=b"{}").status == 403
    stream = Stream(a, 1_000_000).wait_for_events(1)
    trainer.publish(1)
    a.wait_for_version(1)
    stream.client.close()
    whole, refused, forbidden, gone = lines_of(path, 4)
    assert (whole["method"], whole["path"], whole["status"], whole["trace"]) == (
        "POST",
        "/v1/completions?a=1",
        200,
        TRACE,
    )
    assert (whole["run"], whole["start"], whole["end"], whole["ended"]) == ("r", 0, 0, "complete")
    assert whole["bytes_in"] == len(json.dumps(body)) and 0 < whole["bytes_out"] <= len(answer.body)
    assert whole["client"].startswith("127.0.0.1") and whole["engine"] == e.name and whole["time"]
    assert 0 < whole["first_byte_seconds"] <= whole["seconds"]
    assert (refused["status"], forbidden["status"]) == (409, 403)
    assert (gone["status"], gone["ended"], gone["start"], gone["end"]) == (200, "client_gone", 0, 1)
    assert "secret" not in path.read_text() and "secret" not in a.log


def test_an_answer_that_breaks_off_says_so_in_the_access_log(before, recording, tmp_path):
    path, engine = tmp_path / "access.log", recording(lambda _: [*events(2, end=False), 0.1, FIN])
    a = before(engine, "--access-log", path)
    with pytest.raises(Cut):
        Stream(a, 5).rest()
    (line,) = lines_of(path, 1)
    assert (line["status"], line["ended"]) == (200, "engine_broke_off")


def test_the_numbers_of_what_runs_and_is_held_are_shown(agent, engine, trainer):
    e = engine("vllm plugin", token_seconds=0.01)
    a = agent(trainer, e)
    a.wait_for_version(0)
    streams = [Stream(a, 1_000_000).wait_for_events(1) for _ in range(5)]
    wait_for(lambda: a.metrics()["skerry_proxy_requests_in_flight"] == 5, "5 requests in flight")
    assert a.metrics()["skerry_proxy_requests_held"] == 0 and a.metrics()["skerry_proxy_connections"] >= 5
    for stream in streams:
        stream.client.close()
    wait_for(lambda: a.metrics()["skerry_proxy_requests_in_flight"] == 0, "none in flight")
