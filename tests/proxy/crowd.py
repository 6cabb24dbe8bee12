"""Clients that always ask for just the version that they think is live, and check every answer."""

import threading
import time

from asking import ROUTE, assert_true, exact, read_events, read_json, refusal
from raw_client import Client


class Crowd:
    """Clients that always ask for just the version that they think is live."""

    def __init__(self, agent, digests, count, streams=False):
        self.agent, self.digests, self.streams = agent, digests, streams
        self.stop, self.failed = threading.Event(), []
        self.answered = self.refused = self.moved = 0
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self._client, args=(i,), daemon=True) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def _client(self, number):
        version = 0
        try:
            with Client(self.agent.url) as client:
                while not self.stop.is_set():
                    stream = self.streams and number % 2 == 0
                    document = {"prompt": "a", "max_tokens": 4 + number % 5, "stream": stream}
                    got = client.post(ROUTE, document, exact(version))
                    if got.status == 200:
                        stamped = read_events(got) if stream else read_json(got)
                        assert stamped.start == stamped.end == version, stamped
                        assert_true(stamped, self.digests)
                        assert len(stamped.tokens) == document["max_tokens"], "it was never cut short"
                    else:
                        assert refusal(got) in ((409, "WeightVersionNotReady"), (503, "NoEngineInRotation")), got
                        applied = got.json["error"].get("applied")
                        version = version if applied is None else applied
                        time.sleep(0.01)
                    with self.lock:
                        self.answered += got.status == 200
                        self.refused += got.status != 200
        except Exception as error:  # noqa: BLE001 (for the test to show)
            self.failed.append(error)

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(120)
        assert not self.failed, self.failed[:3]
