"""Asking for a version: who gets an answer, who is refused and how, who waits (docs/proxy.md)."""

import os
import threading
import time

import pytest

from agent_process import wait_for
from asking import ROUTE, ask_for, at_least, exact, read_json, refusal
from raw_client import Client, ask, post

NEVER = ("--poll", 3_600_000)
CLIENTS = 500
STORM_SECONDS = float(os.environ.get("SKERRY_STORM_SECONDS", 4))


@pytest.fixture
def at_six(agent, engine, trainer):
    e = engine("vllm plugin")
    trainer.publish(6)
    a = agent(trainer, e)
    a.wait_for_version(6)
    return a, e


def in_body(agent, member):
    return post(agent.url, ROUTE, {"prompt": "a", "max_tokens": 1, "weight_version": member})


def test_I2_what_the_version_does_not_meet_is_409_and_what_it_meets_is_answered(at_six):
    a, e = at_six
    for fields, member, status in (
        (at_least(7), {"min_version": 7}, 409),
        (exact(5), {"exact_version": 5}, 409),
        (exact(7), {"exact_version": 7}, 409),
        (at_least(6), {"min_version": 6}, 200),
        (at_least(0), {"min_version": 0}, 200),
        (exact(6), {"exact_version": 6}, 200),
        ([], {}, 200),
    ):
        for got in (ask_for(a, fields), in_body(a, member)):
            assert got.status == status, (fields, got)
            if status == 200:
                assert (read_json(got).start, read_json(got).end) == (6, 6)
                continue
            error = got.json["error"]
            assert (error["type"], error["run"], error["applied"]) == ("WeightVersionNotReady", "r", 6)
            assert error["wanted"] == int(fields[0][1])
            assert error["constraint"] == ("min" if "Min" in fields[0][0] else "exact")
            assert 1 <= int(got.get("Retry-After")) <= 3 and 0 < error["retry_after_ms"] <= 3000
            assert error["message"] and got.get("Content-Type").startswith("application/json")
    status = a.status()
    assert status["engines"][0]["in_rotation"] and not status["degraded"], "a 409 says nothing against the engine"


BAD_NUMBERS = ["x", "-1", "", " ", "1.0", "+1", "1e3", "0x1", "1 2", "1,1", "1000000000", "99999999999999999999", "6abc",
               "null"]  # fmt: skip
BAD_MEMBERS = [
    {"min_version": "6"}, {"min_version": -1}, {"min_version": 6.5}, {"min_version": True}, {"exact_version": []},
    {"min_version": 1_000_000_000}, {"min_version": 6, "exact_version": 6}, {"minimum": 6}, {"wait": -1}, {"wait": "a"},
    {"wait": 3601}, 6, "6", [6], True,
]  # fmt: skip


def test_I2_constraints_that_are_malformed_or_contradict_each_other_are_400(at_six):
    a, e = at_six
    wrong = [at_least(6) + exact(6), at_least(6) + at_least(6), exact(6) + exact(7)]
    wrong += [[(name, text)] for text in BAD_NUMBERS for name in ("Skerry-Min-Version", "skerry-exact-version")]
    wrong += [[("Skerry-Wait", text)] for text in ("x", "-1", "", "3601", "nan", "inf", "0x1", "1,5")]
    answers = [(fields, ask_for(a, fields)) for fields in wrong]
    answers += [(member, in_body(a, member)) for member in BAD_MEMBERS]
    answers.append(("differ", post(a.url, ROUTE, {"prompt": "a", "weight_version": {"min_version": 5}}, at_least(6))))
    answers.append(("both", post(a.url, ROUTE, {"prompt": "a", "weight_version": {"min_version": 6}}, exact(6))))
    answers += [(fields, ask(a.url, "GET", "/v1/models", fields)) for fields in wrong]
    accepted = [(what, got.status) for what, got in answers if got.status != 400]
    assert not accepted, accepted
    assert all(got.json["error"]["message"] for _, got in answers)
    same = post(a.url, ROUTE, {"prompt": "a", "max_tokens": 1, "weight_version": {"min_version": 6}}, at_least(6))
    assert same.status == 200


def test_I2_without_an_engine_in_rotation_the_last_version_known_decides(at_six, trainer):
    a, e = at_six
    e.fault("load", "500", times=-1)
    trainer.publish(7)
    a.wait(lambda status: status["degraded"] and not status["engines"][0]["in_rotation"])
    for fields in ([], at_least(6), exact(6)):
        got = ask_for(a, fields)
        assert refusal(got) == (503, "NoEngineInRotation"), fields
        assert 1 <= int(got.get("Retry-After")) <= 3
    for fields in (at_least(7), exact(5), exact(7)):
        got = ask_for(a, fields)
        assert refusal(got) == (409, "WeightVersionNotReady"), fields
        assert got.get("Retry-After") and got.json["error"]["applied"] in (6, None)
    e.mend()
    a.command("wake")
    a.wait_for_version(7)
    assert read_json(ask_for(a, at_least(7))).start == 7


def test_headers_count_on_every_path(at_six):
    a, e = at_six
    for path in ("/v1/models", "/version", "/health"):
        assert ask(a.url, "GET", path, at_least(6)).status == 200
        assert refusal(ask(a.url, "GET", path, at_least(7))) == (409, "WeightVersionNotReady")


def test_I7_from_the_start_an_agent_lives_is_not_ready_and_has_metrics(agent, engine, trainer):
    e = engine("vllm plugin")
    e.hold("load")
    a = agent(trainer, e)
    a.wait(lambda status: status["phase"] == "switching")
    assert a.get("/healthz")[0] == 200 and a.get("/metrics")[0] == 200
    code, text = a.get("/readyz")
    assert code == 503 and "because" in text
    unpinned, pinned = ask_for(a), ask_for(a, at_least(0))
    assert unpinned.status == 503 and unpinned.get("Retry-After")
    assert refusal(pinned) == (409, "WeightVersionNotReady") and pinned.json["error"]["applied"] is None
    e.release()
    a.wait_for_version(0)
    assert a.get("/readyz")[0] == 200 and ask_for(a, at_least(0)).status == 200
    # One version behind is still ready.
    e.hold("load")
    trainer.publish(1)
    a.wait(lambda status: status["phase"] == "switching" and status["behind"] == 1)
    assert a.get("/readyz")[0] == 200
    e.release()
    a.wait_for_version(1)


def test_I8_a_session_pinned_to_a_version_ends_at_the_first_turn_after_a_switch(at_six, trainer):
    """20 turns, a switch after every third. The switches wait for nobody's next turn."""
    a, e = at_six
    statuses, version = [], 6
    for turn in range(20):
        got = ask_for(a, exact(6), tokens=3)
        statuses.append(got.status)
        if got.status == 409:
            assert got.json["error"]["applied"] == version
        if turn % 3 == 2:
            version += 1
            trainer.publish(version)
            a.wait_for_version(version)
    assert statuses == [200] * 3 + [409] * 17
    assert version == 12


class Storm:
    """Clients that all want the next version and come back when they were told to."""

    def __init__(self, agent, version, count):
        self.agent, self.version = agent, version
        self.waits, self.answered, self.failed = [], [], []
        self.threads = [threading.Thread(target=self._client, daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def _client(self):
        try:
            with Client(self.agent.url) as client:
                while True:
                    got = client.post(ROUTE, {"prompt": "a", "max_tokens": 1}, at_least(self.version))
                    if got.status == 200:
                        return self.answered.append(read_json(got).start)
                    assert got.status == 409, got
                    self.waits.append(got.json["error"]["retry_after_ms"])
                    assert 1 <= int(got.get("Retry-After")) <= 3
                    time.sleep(self.waits[-1] / 1000)
        except Exception as error:  # noqa: BLE001 (for the test to show)
            self.failed.append(error)


def cpu_seconds(process):
    fields = open(f"/proc/{process.pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_I10_refused_clients_come_back_scattered_and_the_first_of_them_wakes_the_agent(agent, engine, trainer, summary):
    """SKERRY_STORM_SECONDS: how long (4)."""
    e = engine("vllm plugin")
    a = agent(trainer, e, options=NEVER)
    a.wait_for_version(0)
    before, busy, begin = a.metrics()["skerry_board_lookups_total"], cpu_seconds(a.process), time.monotonic()
    storm = Storm(a, 1, CLIENTS)
    time.sleep(STORM_SECONDS)
    seconds, busy = time.monotonic() - begin, cpu_seconds(a.process) - busy
    looks = a.metrics()["skerry_board_lookups_total"] - before
    refused = len(storm.waits)
    trainer.publish(1)
    for thread in storm.threads:
        thread.join(120)
    assert not storm.failed, storm.failed[:3]
    assert storm.answered == [1] * CLIENTS
    assert len(set(storm.waits)) > min(refused, 1000) / 4, "drawn anew for each"
    summary.append(
        f"proxy: {CLIENTS} clients that wait for the next version: {refused} times 409 and {looks:.0f} looks at the board in "
        f"{seconds:.1f} s, {100 * busy / seconds:.0f} % of a core"
    )
    assert 0 < looks < refused / 2, "it looks at once, and not for each of them"


def test_a_request_may_wait_for_its_version(agent, engine, trainer):
    a = agent(trainer, engine("vllm plugin"), options=NEVER)
    a.wait_for_version(0)
    got = []
    wait = [("Skerry-Wait", "100")]
    threads = [
        threading.Thread(target=lambda ask=ask: got.append(read_json(ask())))
        for ask in (
            lambda: ask_for(a, at_least(1) + wait),
            lambda: ask_for(a, exact(1) + wait),
            lambda: in_body(a, {"min_version": 1, "wait": 100}),
        )
    ]
    for thread in threads:
        thread.start()
    wait_for(lambda: a.metrics()["skerry_proxy_requests_held"] == 3, "held requests")
    trainer.publish(1)
    a.command("wake")
    for thread in threads:
        thread.join(120)
    assert [stamped.start for stamped in got] == [1, 1, 1]
    wait_for(lambda: a.metrics()["skerry_proxy_requests_held"] == 0, "none held")


def test_a_wait_ends_with_its_time_with_its_client_or_when_it_is_vain(agent, engine, trainer):
    trainer.publish(3)
    a = agent(trainer, engine("vllm plugin"))
    a.wait_for_version(3)
    begin = time.monotonic()
    assert refusal(ask_for(a, [*at_least(4), ("Skerry-Wait", "0.5")])) == (409, "WeightVersionNotReady")
    assert time.monotonic() - begin >= 0.5
    assert refusal(ask_for(a, [*at_least(4), ("Skerry-Wait", "0")])) == (409, "WeightVersionNotReady")
    with Client(a.url) as client:
        client.reader.methods.append("POST")
        client.socket.sendall(
            b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nSkerry-Min-Version: 9\r\nSkerry-Wait: 1000\r\n"
            b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        )
        wait_for(lambda: a.metrics()["skerry_proxy_requests_held"] == 1, "the held request")
    wait_for(lambda: a.metrics()["skerry_proxy_requests_held"] == 0, "its end with its client")


def test_the_engine_does_not_see_the_constraint(at_six):
    a, e = at_six
    seen, completion = [], e.contract.completion

    def record(body):
        seen.append(body)
        return completion(body)

    e.contract.completion = record
    document = {"model": "m", "prompt": "a", "weight_version": {"exact_version": 6, "wait": 1}, "max_tokens": 2}
    assert read_json(post(a.url, ROUTE, document)).tokens
    assert seen == [{"model": "m", "prompt": "a", "max_tokens": 2}]
