"""A running `skerry relay`: started on a free port, watched through its status, ended by its process id."""

import json
import re
import signal
from pathlib import Path

from agent_process import PATIENCE, each_ended, request, wait_for
from program import start


class Relay:
    """`boards` are its upstreams. The log goes to a file beside the cache."""

    def __init__(self, cache, *boards, options=(), env=None):
        self.cache = Path(cache)
        self.cache.parent.mkdir(parents=True, exist_ok=True)
        given = {"--listen": "127.0.0.1:0", "--head-fresh": 100, "--cache-size": "1GiB"}
        given |= dict(zip(options[::2], options[1::2], strict=True))
        number = len(list(self.cache.parent.glob(f"{self.cache.name}.*.log")))
        self.log_path = self.cache.parent / f"{self.cache.name}.{number}.log"
        with open(self.log_path, "w") as log:
            self.process = start(
                "relay", *(part for board in boards for part in ("--board", board)), "--cache", cache,
                *(part for pair in given.items() for part in pair), stderr=log, env=env,
            )  # fmt: skip
        self._url = None

    @property
    def log(self):
        return self.log_path.read_text()

    @property
    def ended(self):
        return self.process.poll() is not None

    @property
    def url(self):
        if self._url is None:

            def listening():
                assert not self.ended, f"the relay ended with {self.process.returncode}\n{self.log}"
                return re.search(r"listens on (https?://\S+)", self.log)

            self._url = wait_for(listening, lambda: f"the relay to listen\n{self.log}").group(1)
        return self._url

    @property
    def port(self):
        return int(self.url.rsplit(":", 1)[1])

    def kill(self):
        self.process.kill()
        return self.process.wait(PATIENCE)

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def ask(self, method, path, body=None, token=None):
        return request(self.url + path, method, body, token)

    def status(self):
        code, text, _ = self.ask("GET", "/v1/skerry/status")
        assert code == 200
        return json.loads(text)

    def upstream(self, index=0):
        return self.status()["upstreams"][index]

    def metrics(self):
        """{"name{labels}": value}"""
        lines = [line for line in self.ask("GET", "/metrics")[1].splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}

    def wait(self, condition, what="its status"):
        """The first status that meets the condition."""
        last = None

        def look():
            nonlocal last
            last = self.status()
            return last if condition(last) else None

        return wait_for(look, lambda: f"{what}\n{json.dumps(last, indent=1)}\n{self.log}")

    def wait_for_head(self, version, run="r"):
        return self.wait(
            lambda status: any(seen["run"] == run and seen["version"] == version for seen in status["runs"]),
            f"version {version} of run {run}",
        )


def relays():
    return each_ended(Relay)
