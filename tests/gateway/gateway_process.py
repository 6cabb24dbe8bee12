"""A running `skerry gateway`, and what it says of its fleet."""

import json

from agent_process import Agent, each_ended, request, wait_for
from program import start

TOKEN = "fleet-secret-1234"


class Gateway(Agent):
    """Started, asked and ended as an agent is; it has no state."""

    def __init__(self, directory, *options, run="r"):
        given = {"--listen": "127.0.0.1:0"} | dict(zip(options[::2], options[1::2], strict=True))
        self.log_path = directory / f"gateway.{len(list(directory.glob('gateway.*.log')))}.log"
        with open(self.log_path, "w") as log:
            words = [part for pair in given.items() for part in pair]
            self.process = start("gateway", "--run", run, *words, stderr=log)
        self._url = None

    def fleet(self):
        code, text = self.get("/v1/skerry/fleet")
        assert code == 200
        return json.loads(text)

    def islands(self, state=None):
        """{address: what is said of it}, of those in a state."""
        found = {island["url"]: island for island in self.fleet()["islands"]}
        return {url: island for url, island in found.items() if state in (None, island["state"])}

    def wait_for_islands(self, count, version=None, state="in"):
        def there():
            found = self.islands(state)
            fit = [island for island in found.values() if version in (None, island["version"])]
            return found if len(fit) == count else None

        return wait_for(there, lambda: f"{count} islands {state}: {json.dumps(self.fleet(), indent=1)}\n{self.log}")

    def report(self, document, token=TOKEN, path="/v1/skerry/islands"):
        """A heartbeat; status and answer."""
        code, text, _ = request(self.url + path, "POST", document, token)
        return code, json.loads(text)


def a_report(url, version=0, **more):
    """What an agent would say."""
    return {"format": 1, "url": url, "name": "made", "instance": "1", "run": "r", "version": version, "head": version,
            "ready": True, "draining": False, "engines": 1, "running": 0, "held": 0, "capacity": 8} | more  # fmt: skip


def gateways():
    return each_ended(Gateway)
