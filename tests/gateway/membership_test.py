"""How islands come and go at a gateway, and what it says of them."""

import http.client
import json
import re
import signal
import ssl
import threading
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from agent_process import PATIENCE, request, wait_for
from asking import ask_for, at_least, read_json
from certificates import make_certificate
from gateway_process import TOKEN, a_report, gateways
from program import FAILED, USAGE, skerry

DOCUMENT = Path(__file__).parents[2] / "docs" / "gateway.md"


def test_islands_register_and_are_described(gateway, island, engine, trainer):
    g = gateway()
    assert g.get("/healthz")[0] == 200 and g.get("/readyz")[0] == 503
    a = island(engine(), gateway=g, options=("--region", "eu", "--capacity", 7))
    b = island(engine(), engine(), gateway=g, options=("--follow", 0))
    g.wait_for_islands(2)
    assert g.get("/readyz")[0] == 200
    trainer.publish(2)
    wait_for(lambda: g.islands()[a.url]["version"] == 2, "the new version at the gateway")
    fleet, here = g.fleet(), g.islands()
    assert set(here) == {a.url, b.url}
    assert (here[a.url]["region"], here[a.url]["capacity"], here[b.url]["capacity"]) == ("eu", 7, 512)
    assert (here[a.url]["behind"], here[b.url]["version"]) == (0, 0)
    assert (fleet["run"], fleet["newest"]) == ("r", 2)
    wait_for(lambda: g.fleet()["signals"]["versions_behind"] == 2, "the head as the second island sees it")
    assert g.fleet()["signals"]["islands"]["in"] == 2


def test_an_island_that_is_stopped_leaves_at_once_and_loses_nothing(gateway, island, engine):
    g = gateway("--silence", 600, "--forget", 600)
    a, b = (island(engine(), gateway=g) for _ in range(2))
    g.wait_for_islands(2)
    a.process.send_signal(signal.SIGTERM)
    while a.process.poll() is None:
        assert ask_for(g).status == 200
    assert set(g.islands()) == {b.url}
    assert ask_for(g).get("Skerry-Island") == b.url


def test_an_island_that_is_draining_gets_nothing_more_and_finishes_what_it_has(gateway, island, engine):
    g = gateway()
    slow = engine(token_seconds=0.02)
    a = island(slow, gateway=g, options=("--grace", 100))
    g.wait_for_islands(1)
    got = []
    running = threading.Thread(target=lambda: got.append(read_json(ask_for(g, tokens=100))))
    running.start()
    wait_for(lambda: slow.contract.running == 1, "the request at the engine")
    a.process.send_signal(signal.SIGTERM)
    g.wait_for_islands(1, state="draining")
    assert ask_for(g).status == 503
    running.join(PATIENCE)
    assert len(got[0].tokens) == 100
    assert a.process.wait(PATIENCE) == 0
    wait_for(lambda: not g.islands(), "its leave")


def test_an_island_that_is_killed_is_silent_and_then_forgotten(gateway, island, engine):
    g = gateway("--silence", 2, "--forget", 4)
    a, b = (island(engine(), gateway=g) for _ in range(2))
    g.wait_for_islands(2)
    a.kill()
    assert ask_for(g).get("Skerry-Island") == b.url
    g.wait_for_islands(1, state="silent")
    wait_for(lambda: set(g.islands()) == {b.url}, "that it is forgotten")


def test_islands_can_be_listed_by_address_file_and_name(gateway, island, engine, tmp_path):
    a, b, c = (island(engine()) for _ in range(3))
    file = tmp_path / "islands"
    file.write_text(f"# ours\n{b.url}\n")
    port = urlsplit(c.url).port
    g = gateway("--agents", f"{a.url},{file},dns://localhost:{port}")
    g.wait_for_islands(3)
    assert all(here["listed"] for here in g.islands("in").values())
    file.write_text("")
    wait_for(lambda: not g.islands()[b.url]["listed"], "that the file is read again")
    a.kill()
    wait_for(lambda: g.islands()[a.url]["state"] in ("failing", "silent"), "that it is seen to be gone")
    assert ask_for(g).status == 200


def test_a_file_with_a_wrong_line_keeps_what_was_there(gateway, island, engine, tmp_path):
    a = island(engine())
    file = tmp_path / "islands"
    file.write_text(a.url)
    g = gateway("--agents", file)
    g.wait_for_islands(1)
    file.write_text("http://a/path\n")
    wait_for(lambda: "line 1" in g.log, "a warning")
    assert g.islands()[a.url]["listed"] and g.islands()[a.url]["state"] == "in"


def test_K1_registration_wants_the_token(gateway, recording):
    g, r = gateway(), recording()
    for token, status in ((None, 401), ("wrong", 401), (TOKEN, 200)):
        assert g.report(a_report(r.url), token)[0] == status
        assert g.report({"url": r.url}, token, "/v1/skerry/islands/leave")[0] == status
    assert not g.islands()


def test_K1_without_a_token_nobody_can_register(tmp_path, recording):
    with gateways() as begin:
        g = begin(tmp_path, "--agents", "http://127.0.0.1:1")
        assert g.report(a_report(recording().url))[0] == 403
        assert g.report(a_report(recording().url), token=None)[0] == 403


def test_islands_and_clients_may_come_by_https(gateway, island, engine, tmp_path):
    certificate, key = make_certificate(tmp_path, "fleet")
    g = gateway("--tls-certificate", certificate, "--tls-key", key)
    trusting = ssl.create_default_context(cafile=certificate)

    def ask(path, document=None):
        body = None if document is None else json.dumps(document).encode()
        asked = urllib.request.Request(g.url + path, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, context=trusting, timeout=PATIENCE) as reply:
            return json.loads(reply.read())

    assert g.url.startswith("https://")
    a = island(engine(), gateway=g, options=("--gateway-ca", certificate))
    b = island(engine(), gateway=g)
    seen = wait_for(
        lambda: [here for here in ask("/v1/skerry/fleet")["islands"] if here["state"] == "in"], "an island"
    )
    assert [here["url"] for here in seen] == [a.url], "the one that trusts it"
    answer = ask("/v1/completions", {"model": "m", "prompt": "a", "max_tokens": 3})
    assert answer["weight_version_start"] == 0
    wait_for(lambda: "certificate" in b.log, "the other one to say why")


def test_K2_no_secret_is_in_what_a_gateway_and_its_islands_tell(gateway, island, engine):
    g = gateway()
    a = island(engine(), gateway=g)
    g.wait_for_islands(1)
    a.ask("GET", "/v1/skerry/island")
    told = [g.get(path)[1] for path in ("/v1/skerry/fleet", "/metrics", "/readyz")] + [g.log, a.log, json.dumps(a.status())]
    told.append(a.get("/v1/skerry/island")[1])
    assert not [text for text in told if TOKEN in text or a.contact["admin_token"] in text]


@pytest.mark.parametrize("body, status", [
    (b"", 400), (b"[]", 400), (b"{", 400), (b"\xff\xfe", 400), (b'{"format": 9}', 400), (b"{}" + b" " * 20_000, 400),
    (json.dumps(a_report("http://a:1", version=-1)).encode(), 400),
    (json.dumps(a_report("http://a:1/v1/completions")).encode(), 400),
    (json.dumps(a_report("http://a:1", name="a\r\nSkerry-Run: r")).encode(), 400),
    (json.dumps(a_report("http://a:1", region=["eu"])).encode(), 400),
    (b"x" * 2_000_000, 413), (b'{"a":' * 8000, 400),
])  # fmt: skip
def test_a_hostile_heartbeat_is_refused_and_changes_nothing(body, status, gateway):
    g = gateway()
    where = urlsplit(g.url)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=PATIENCE)
    try:
        connection.request("POST", "/v1/skerry/islands", body, {"Authorization": f"Bearer {TOKEN}"})
        assert connection.getresponse().status == status
    except ConnectionError:
        assert status == 413, "closed while more was coming"
    assert not g.islands() and g.get("/healthz")[0] == 200


def test_there_is_a_bound_on_islands(gateway):
    g = gateway("--silence", 600, "--forget", 600)
    where = urlsplit(g.url)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=PATIENCE)
    statuses = []
    for number in range(4100):
        document = json.dumps(a_report(f"http://10.{number >> 8}.{number & 255}.1:80"))
        connection.request("POST", "/v1/skerry/islands", document, {"Authorization": f"Bearer {TOKEN}"})
        reply = connection.getresponse()
        reply.read()
        statuses.append(reply.status)
    assert statuses == [200] * 4096 + [503] * 4


def test_an_island_that_is_a_gateway_is_no_endless_circle(gateway):
    g = gateway()
    g.report(a_report(g.url))
    begin = time.monotonic()
    answer = ask_for(g)
    assert answer.status == 503 and time.monotonic() - begin < PATIENCE


def test_metrics_are_those_of_the_document(gateway, island, engine):
    g = gateway()
    island(engine(), gateway=g)
    g.wait_for_islands(1)
    assert ask_for(g).status == 200 and ask_for(g, at_least(9)).status == 409
    text = g.get("/metrics")[1]
    shown = set(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M))
    listed = set(re.findall(r"^\| `(skerry_gateway_\w+)` \| (\w+) \|", DOCUMENT.read_text(), re.M))
    assert shown == listed
    # A client has its answer a little before the request counts as ended; gauges are set each second.
    counted = "skerry_gateway_requests_total"
    wait_for(lambda: g.metrics()[counted + '{ended="complete"}'] == 1, "the answered request to be counted")
    wait_for(lambda: g.metrics()['skerry_gateway_islands{state="in"}'] == 1, "the island to be shown")
    found = g.metrics()
    assert found[counted + '{ended="not_ready"}'] == 1
    assert found["skerry_gateway_fleet_capacity"] == 256
    assert found["skerry_gateway_tokens_total"] >= 0


def test_the_members_of_the_fleet_document_are_those_of_the_page(gateway, island, engine):
    g = gateway()
    island(engine(), gateway=g)
    g.wait_for_islands(1)
    fleet, text = g.fleet(), DOCUMENT.read_text()
    names = {*fleet, *fleet["signals"], *fleet["islands"][0]}
    assert not [name for name in names if f"`{name}`" not in text]


def test_the_members_of_a_report_are_those_of_the_page(island, engine):
    a = island(engine())
    a.wait_for_version(0)
    report = json.loads(a.get("/v1/skerry/island")[1])
    assert (report["url"], report["run"], report["version"], report["ready"]) == (a.url, "r", 0, True)
    assert not [name for name in report if f"`{name}`" not in DOCUMENT.read_text()]
    assert request(a.url + "/v1/skerry/island", "POST", {})[0] == 405


@pytest.mark.parametrize("words", [
    ("--run", "r"), ("--agents", "http://a:1"), ("--run", "r", "--agents", "https://a:1"),
    ("--run", "r", "--agents", "http://a:1", "--listen", "nowhere"),
    ("--run", "r", "--agents", "http://a:1", "--silence", "9", "--forget", "8"),
])  # fmt: skip
def test_what_can_never_work_is_said_at_the_start(words):
    assert skerry("gateway", *words, expect=(FAILED, USAGE)).err
