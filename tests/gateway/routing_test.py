"""Which island a request goes to, and what becomes of it when that one says no."""

import json
import threading
import time

from agent_process import PATIENCE, wait_for
from asking import Stream, ask_for, assert_true, at_least, exact, read_events, read_json, refusal
from gateway_process import a_report
from raw_client import Client, ask, post, request
from recording_engine import FIN, whole

PATIENT = ("--silence", 600, "--forget", 600)  # islands that said something once
JSON = (b"Content-Type", b"application/json")


def island_of(answer):
    assert answer.status == 200, answer
    return answer.get("Skerry-Island")


def test_a_request_goes_to_an_island_that_serves_its_version(gateway, island, engine, trainer):
    g = gateway()
    trainer.publish(2)
    a, b = island(engine(), gateway=g, options=("--follow", 0)), island(engine(), gateway=g)
    b.wait_for_version(2)
    g.wait_for_islands(1, version=2)
    g.wait_for_islands(2)
    for _ in range(3):
        assert island_of(ask_for(g, at_least(1))) == island_of(ask_for(g, exact(2))) == b.url
        assert island_of(ask_for(g, exact(0))) == a.url
        assert island_of(ask_for(g, weight_version={"min_version": 2})) == b.url
    assert {island_of(ask_for(g)) for _ in range(20)} == {a.url, b.url}
    assert_true(read_json(ask_for(g, exact(2))), {2: trainer.digest(2)})
    no = ask_for(g, at_least(3))
    assert refusal(no) == (409, "WeightVersionNotReady")
    assert (no.json["error"]["applied"], no.json["error"]["wanted"], no.json["error"]["run"]) == (2, 3, "r")
    assert no.get("Retry-After")
    assert refusal(ask_for(g, exact(1)))[0] == 409
    for fields in ([("Skerry-Min-Version", "x")], [*at_least(1), *exact(1)]):
        assert ask_for(g, fields).status == 400


def test_control_routes_are_closed(gateway, island, engine):
    g = gateway()
    e = engine()
    island(e, gateway=g)
    g.wait_for_islands(1)
    e.forget()
    for path in ("/pause", "/collective_rpc", "/v1/../sleep", "/update_weights_from_disk"):
        assert ask(g.url, "POST", path, body=b"{}").status == 403
    assert not [entry for entry in e.contract.trace if "pause" in entry["route"]]
    assert ask(g.url, "GET", "/v1/skerry/status").status == 404


def test_a_request_waits_for_its_version_and_has_it_at_once(gateway, island, engine, trainer):
    g = gateway()
    a = island(engine(), gateway=g)
    g.wait_for_islands(1)
    got = []
    held = [
        threading.Thread(target=lambda f=fields: got.append(read_json(ask_for(g, [*f, ("Skerry-Wait", "600")]))))
        for fields in (at_least(1), exact(1), at_least(2), exact(2))
    ]
    for thread in held:
        thread.start()
    wait_for(lambda: g.fleet()["signals"]["queue"] == 4, "held requests")
    waiting = {(w["constraint"], w["version"]): w["requests"] for w in g.fleet()["signals"]["waiting"]}
    assert waiting == {("min", 1): 1, ("exact", 1): 1, ("min", 2): 1, ("exact", 2): 1}
    wait_for(lambda: g.metrics()['skerry_gateway_waiting_requests{ahead="2+"}'] == 2, "the gauge")
    for version, left in ((1, 2), (2, 0)):
        trainer.publish(version)
        a.wait_for_version(version)
        wait_for(lambda left=left: g.fleet()["signals"]["queue"] == left, "those that it did for")
    for thread in held:
        thread.join(PATIENCE)
    assert sorted(stamped.start for stamped in got) == [1, 1, 2, 2]


def test_waiting_ends_by_its_time(gateway, island, engine):
    g = gateway()
    island(engine(), gateway=g)
    g.wait_for_islands(1)
    begin = time.monotonic()
    assert refusal(ask_for(g, [*at_least(5), ("Skerry-Wait", "1")])) == (409, "WeightVersionNotReady")
    assert time.monotonic() - begin >= 0.9


def test_the_queue_is_bounded(gateway, island, engine):
    g = gateway("--max-held", 3, "--wait", 600)
    island(engine(), gateway=g)
    g.wait_for_islands(1)
    got = []
    held = [threading.Thread(target=lambda: got.append(refusal(ask_for(g, at_least(5))))) for _ in range(3)]
    for thread in held:
        thread.start()
    wait_for(lambda: g.fleet()["signals"]["queue"] == 3, "held requests")
    assert refusal(ask_for(g, at_least(5))) == (503, "TooManyRequests")
    assert ask_for(g).status == 200, "who needs not wait is served"
    assert g.terminate() == 0
    for thread in held:
        thread.join(PATIENCE)
    assert got == [(409, "WeightVersionNotReady")] * 3


def test_a_request_without_any_island_is_refused_or_waits_for_one(gateway, island, engine):
    g = gateway()
    assert refusal(ask_for(g)) == (503, "NoEngineInRotation")
    got = []
    thread = threading.Thread(target=lambda: got.append(ask_for(g, [("Skerry-Wait", "600")])))
    thread.start()
    wait_for(lambda: g.fleet()["signals"]["queue"] == 1, "the held request")
    a = island(engine(), gateway=g)
    thread.join(PATIENCE)
    assert island_of(got[0]) == a.url


def test_an_island_that_refuses_connections_costs_a_detour(gateway, island, engine):
    g = gateway(*PATIENT)
    a = island(engine(), gateway=g)
    g.wait_for_islands(1)
    for port in (1, 2, 3):
        assert g.report(a_report(f"http://127.0.0.1:{port}", capacity=10_000))[0] == 200
    for _ in range(20):
        assert island_of(ask_for(g)) == a.url
        assert island_of(ask(g.url, "GET", "/v1/models")) == a.url
    assert g.metrics()['skerry_gateway_retries_total{cause="unreachable"}'] >= 3
    failed = [here for here in g.islands().values() if here["failures"]]
    assert len(failed) == 3 and all("refused" in here["last_failure"] for here in failed)


def test_an_island_that_has_moved_on_is_passed_over(gateway, island, engine, trainer):
    """The gateway's news of it are old: it answers 409, and the request goes elsewhere."""
    g = gateway(*PATIENT)
    trainer.publish(3)
    a = island(engine(), gateway=g, options=("--follow", 0))
    b = island(engine())  # says nothing itself
    b.wait_for_version(3)
    g.wait_for_islands(1)
    assert g.report(a_report(b.url, version=0, capacity=1_000_000))[0] == 200
    while not g.metrics()['skerry_gateway_retries_total{cause="not_ready"}']:
        assert island_of(ask_for(g, exact(0))) == a.url
    assert g.islands()[b.url]["version"] == 3, "it learnt that from the refusal"
    assert island_of(ask_for(g, exact(3))) == b.url


def test_an_island_whose_engine_is_gone_is_passed_over(gateway, island, engine):
    g = gateway()
    broken = engine()
    a, b = island(engine(), gateway=g), island(broken, gateway=g, options=("--capacity", 100_000))
    g.wait_for_islands(2)
    broken.die()
    for _ in range(20):
        assert island_of(ask_for(g)) == a.url
    wait_for(lambda: g.islands()[b.url]["state"] == "out", "that its agent says so")


def test_the_refusal_of_the_last_island_is_passed_on_as_it_is(gateway, island, recording):
    g = gateway()
    server = recording(lambda _: whole(503, [JSON, (b"Retry-After", b"7")], b'{"error": "overloaded"}', reason=b"Busy"))
    island("none", gateway=g, options=server.upstream)
    g.wait_for_islands(1)
    answer = post(g.url, "/v1/completions", {"prompt": "a"})
    assert (answer.status, answer.line[2], bytes(answer.body)) == (503, b"Busy", b'{"error": "overloaded"}')
    assert (answer.get("Retry-After"), len(server.requests)) == ("7", 1)


def test_what_may_have_been_done_is_not_done_again(gateway, island, recording):
    """An engine that dies while it answers: a generation is asked for again, an upload is not."""
    g = gateway()
    servers = [recording(lambda _: [FIN]) for _ in range(2)]
    for server in servers:
        island("none", gateway=g, options=server.upstream)
    g.wait_for_islands(2)
    with Client(g.url) as client:
        client.send(request("PUT", "/files/1", [("Transfer-Encoding", "chunked")]) + b"1\r\na\r\n0\r\n\r\n", "PUT")
        assert client.answer().status == 503
    assert sum(len(server.requests) for server in servers) == 1
    for server in servers:
        server.forget()
    assert ask(g.url, "POST", "/v1/completions", body=b'{"prompt": "a"}').status == 503
    assert [len(server.requests) > 0 for server in servers] == [True, True]


def test_an_island_that_serves_something_else_than_it_says_reaches_no_client(gateway, island, engine, recording):
    """Another server has its address now; or its agent is another run's; or it lies about its version."""
    g = gateway(*PATIENT)
    a = island(engine(), gateway=g)
    g.wait_for_islands(1)
    body = b'{"choices": [{"text": "lies"}]}'
    answers = [
        [JSON],
        [JSON, (b"Skerry-Run", b"other"), (b"Skerry-Version-Start", b"5")],
        [JSON, (b"Skerry-Run", b"r"), (b"Skerry-Version-Start", b"4")],
    ]
    liars = [recording(lambda _, fields=fields: whole(200, fields, body)) for fields in answers]
    for liar in liars:
        assert g.report(a_report(liar.url, version=5, capacity=10_000))[0] == 200
    assert refusal(ask_for(g, exact(5)))[0] in (409, 503)
    assert all(len(liar.requests) == 1 for liar in liars), "each had its chance"
    assert {island_of(ask_for(g, at_least(0))) for _ in range(20)} == {a.url}
    assert all(len(liar.requests) == 1 for liar in liars), "and no second one"
    assert all(g.islands()[liar.url]["failures"] == 1 for liar in liars)
    assert g.metrics()['skerry_gateway_retries_total{cause="wrong"}'] == 3


def test_a_gateways_own_region_is_preferred_and_a_request_may_name_another(gateway, island, engine):
    g = gateway("--region", "eu")
    a = island(engine(), gateway=g, options=("--region", "eu"))
    b = island(engine(), gateway=g, options=("--region", "us"))
    g.wait_for_islands(2)
    for _ in range(10):
        assert island_of(ask_for(g)) == a.url
        assert island_of(ask_for(g, [("Skerry-Region", "us")])) == b.url
        assert island_of(ask_for(g, [("Skerry-Region", "nowhere")])) in (a.url, b.url)
    a.kill()
    assert island_of(ask_for(g)) == b.url


def test_the_requests_of_a_session_go_to_one_island(gateway, island, engine):
    """Through two gateways that know nothing of each other."""
    g = gateway()
    for _ in range(4):
        island(engine(), gateway=g)
    there = g.wait_for_islands(4)
    other = gateway("--agents", ",".join(there))
    other.wait_for_islands(4)
    seen = set()
    for number in range(10):
        session = f"session-{number}"
        header = {island_of(ask_for(one, [("Skerry-Session", session)])) for one in (g, other) for _ in range(2)}
        salted = {island_of(ask_for(one, cache_salt=session)) for one in (g, other) for _ in range(2)}
        keyed = {island_of(ask_for(one, prompt_cache_key=session)) for one in (g, other)}
        assert len(header) == len(salted) == 1 and keyed == salted
        seen |= header | salted
    assert len(seen) >= 3, "sessions are spread"


def test_streams_pass_with_their_stamps_and_tokens_are_counted(gateway, island, engine, trainer):
    g = gateway()
    e = engine(token_seconds=0.005)
    a = island(e, gateway=g)
    g.wait_for_islands(1)
    stream = Stream(g, 1_000_000).wait_for_events(3)
    assert stream.message.get("Skerry-Island") == a.url
    trainer.publish(1)
    a.wait_for_version(1)
    seen = len(stream.message.body)
    while len(stream.message.body) < seen + 2000:
        assert stream.client.more()
    with e.contract.lock:
        e.contract.end_requests()
    stamped = read_events(stream.rest())
    assert (stamped.start, stamped.end) == (0, 1)
    assert_true(stamped, {version: trainer.digest(version) for version in (0, 1)})
    assert g.metrics()["skerry_gateway_tokens_total"] == len(stamped.stamps)


def test_a_client_that_leaves_ends_its_request_at_the_engine(gateway, island, engine):
    g = gateway()
    e = engine(token_seconds=0.01)
    island(e, gateway=g)
    g.wait_for_islands(1)
    stream = Stream(g, 1_000_000).wait_for_events(2)
    stream.client.reset()
    wait_for(lambda: e.contract.running == 0, "the end of the request at the engine")
    wait_for(lambda: g.fleet()["signals"]["running"] == 0, "the end of it at the gateway")


def test_the_access_log_has_a_line_for_each_request(gateway, island, engine, tmp_path):
    log = tmp_path / "access"
    g = gateway("--access-log", log)
    a = island(engine(), gateway=g)
    g.wait_for_islands(1)
    ask_for(g, exact(0))
    ask_for(g, exact(7))
    wait_for(lambda: log.exists() and len(log.read_text().splitlines()) == 2, "two lines")
    first, second = map(json.loads, log.read_text().splitlines())
    assert (first["engine"], first["run"], first["start"], first["ended"]) == (a.url, "r", 0, "complete")
    assert (second["status"], second["ended"]) == (409, "not_ready")


def test_a_stopped_gateway_lets_running_requests_end(gateway, island, engine):
    g = gateway("--grace", 100)
    e = engine(token_seconds=0.01)
    island(e, gateway=g)
    g.wait_for_islands(1)
    stream = Stream(g, 100).wait_for_events(1)
    g.process.terminate()
    assert len(read_events(stream.rest()).tokens) == 100
    assert g.process.wait(PATIENCE) == 0
