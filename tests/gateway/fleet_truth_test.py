"""While versions commit and islands die and join, no answer is by a version that its request did not want, and no request
is lost without an error after which it can be asked again.

SKERRY_GATEWAY_COMMITS: how many versions the crowd lives through (5; with -m slow 50, and 10,000 requests).
"""

import os
import random
import threading
import time
from collections import Counter

import pytest

from agent_process import wait_for
from asking import ROUTE, assert_true, at_least, exact, read_events, read_json, refusal
from raw_client import Client, Cut

ISLANDS = 6
CLIENTS = 24
COMMITS = int(os.environ.get("SKERRY_GATEWAY_COMMITS", 5))
RETRYABLE = {(409, "WeightVersionNotReady"), (503, "NoEngineInRotation"), (503, "EngineUnreachable"),
             (503, "CutOffBySwitch"), (503, "TooManyRequests")}  # fmt: skip


class Crowd:
    """Clients that want all sorts of versions, and check every answer."""

    def __init__(self, gateway, digests):
        self.gateway, self.digests = gateway, digests
        self.stop, self.lock = threading.Event(), threading.Lock()
        self.newest, self.ends, self.islands, self.failed = 0, Counter(), Counter(), []
        self.threads = [threading.Thread(target=self._client, args=(n,), daemon=True) for n in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def _client(self, number):
        r = random.Random(number)
        client = None
        try:
            while not self.stop.is_set():
                client = client or Client(self.gateway.url)
                try:
                    end = self._ask(r, client)
                except (Cut, ConnectionError) as cut:
                    # Seen to be incomplete, which only what was being answered by an island that died may be.
                    assert cut.message is not None and cut.message.status == 200, cut
                    client, end = None, "cut"
                with self.lock:
                    self.ends[end] += 1
        except Exception as error:  # noqa: BLE001 (for the test to show)
            self.failed.append(error)

    def _ask(self, r, client):
        newest = self.newest
        wanted = r.choice([newest, newest, newest + 1, max(0, newest - 1)])
        fields = r.choice([[], at_least(wanted), exact(wanted)])
        if r.random() < 0.5:
            fields = [*fields, ("Skerry-Wait", r.choice(["0.2", "30"]))]
        if r.random() < 0.3:
            fields = [*fields, ("Skerry-Session", str(r.randint(0, 50)))]
        stream = r.random() < 0.5
        document = {"prompt": "a", "max_tokens": r.randint(1, 8), "stream": stream}
        got = client.post(ROUTE, document, fields)
        if got.status != 200:
            assert refusal(got) in RETRYABLE and got.get("Retry-After"), got
            if fields == [] or got.status == 409:
                time.sleep(0.01)
            return str(got.status)
        stamped = read_events(got) if stream else read_json(got)
        constraint = dict(fields)
        if "Skerry-Min-Version" in constraint:
            assert stamped.start >= wanted, (stamped, fields)
        if "Skerry-Exact-Version" in constraint:
            assert stamped.start == stamped.end == wanted, (stamped, fields)
        assert_true(stamped, self.digests, may_be_unsure=True)
        assert len(stamped.tokens) == document["max_tokens"], "it was never cut short unseen"
        with self.lock:
            self.newest = max(self.newest, stamped.start)
            self.islands[got.get("Skerry-Island")] += 1
        return "200"

    @property
    def requests(self):
        return sum(self.ends.values())

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(120)
        assert not self.failed, self.failed[:3]


def live_through(commits, requests, gateway, island, engine, trainer, summary):
    g = gateway("--silence", 3, "--forget", 6)
    alive = [island(engine("vllm plugin"), gateway=g) for _ in range(ISLANDS)]
    g.wait_for_islands(ISLANDS, version=0)
    crowd = Crowd(g, {version: trainer.digest(version) for version in range(commits + 1)})
    r, dead = random.Random(1), 0
    try:
        for version in range(1, commits + 1):
            trainer.publish(version)
            wait_for(lambda v=version: crowd.newest >= v or crowd.failed, "answers of the new version")
            if version % 2 == 1:  # one dies while the others switch, and another one joins
                alive.pop(r.randrange(len(alive))).kill()
                dead += 1
                alive.append(island(engine("vllm plugin"), gateway=g))
            seen = crowd.requests
            wait_for(lambda seen=seen: crowd.requests > seen + requests // commits or crowd.failed, "more requests")
        g.wait_for_islands(ISLANDS, version=commits)
    finally:
        crowd.end()
    assert crowd.ends["cut"] <= CLIENTS * dead
    assert len(crowd.islands) >= ISLANDS, "all had a part in it"
    summary.append(
        f"gateway: {crowd.requests} requests over {ISLANDS} islands during {commits} commits, {dead} islands killed and "
        f"replaced: {dict(crowd.ends)}; 0 answers by a wrong version, 0 lost without a retryable error"
    )


def test_no_answer_is_by_a_wrong_version_while_versions_commit_and_islands_die(gateway, island, engine, trainer, summary):
    live_through(COMMITS, 1500, gateway, island, engine, trainer, summary)


@pytest.mark.slow
def test_no_answer_is_by_a_wrong_version_during_50_commits(gateway, island, engine, trainer, summary):
    live_through(50, 10_000, gateway, island, engine, trainer, summary)
