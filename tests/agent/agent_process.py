"""A running `skerry agent`: started on a free port, watched through its status, ended by its process id."""

import contextlib
import json
import os
import re
import signal
import time
import urllib.error
import urllib.request
from pathlib import Path

from program import skerry, start

# The machine may be busy: nothing here depends on how long something takes, as long as it comes.
PATIENCE = int(os.environ.get("SKERRY_TEST_PATIENCE", 120))
BETWEEN_LOOKS = 0.02


def wait_for(condition, what, patience=PATIENCE):
    """What `condition` returns once that is true. `what`: a text, or a function that gives one, for the failure."""
    end = time.monotonic() + patience
    while not (found := condition()):
        assert time.monotonic() < end, f"waited {patience} s for {what() if callable(what) else what}"
        time.sleep(BETWEEN_LOOKS)
    return found


def request(url, method="GET", body=None, token=None):
    """Status, text and headers of the answer."""
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url, data, method=method)
    if token:
        asked.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(asked, timeout=PATIENCE) as reply:
            return reply.status, reply.read().decode(), reply.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers


class Agent:
    """`engines` are specifications or stand_in.StandIn. The log goes to a file beside the state directory."""

    def __init__(self, state, board, *engines, run="r", name="agent", options=(), failpoints=None, env=None):
        self.state, self.name = Path(state), name
        self.state.parent.mkdir(parents=True, exist_ok=True)
        named = [arg for engine in engines for arg in ("--engine", getattr(engine, "specification", engine))]
        given = {"--poll": 100, "--scrub-rate": 0, "--listen": "127.0.0.1:0"}
        given |= dict(zip(options[::2], options[1::2], strict=True))
        logs = len(list(self.state.parent.glob(f"{self.state.name}.{name}.*.log")))
        self.log_path = self.state.parent / f"{self.state.name}.{name}.{logs}.log"
        with open(self.log_path, "w") as log:
            self.process = start(
                "agent", "--board", board, "--run", run, "--state", state, "--name", name, *named,
                *(part for pair in given.items() for part in pair), stderr=log, failpoints=failpoints, env=env,
            )  # fmt: skip
        self._url = None

    # Process

    @property
    def log(self):
        return self.log_path.read_text()

    @property
    def ended(self):
        return self.process.poll() is not None

    @property
    def is_listening(self):
        return " listens on " in self.log

    def kill(self):
        self.process.kill()
        return self.process.wait(PATIENCE)

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def wait_until_dead(self):
        """Its exit status."""
        wait_for(lambda: self.ended, lambda: f"the agent's end\n{self.log}")
        return self.process.returncode

    # HTTP

    @property
    def url(self):
        """It answers there from the moment that its log says so."""
        if self._url is None:

            def listening():
                assert not self.ended, f"the agent ended with {self.process.returncode}\n{self.log}"
                return re.search(r"listens on (https?://\S+)", self.log)

            self._url = wait_for(listening, lambda: f"the agent to listen\n{self.log}").group(1)
        return self._url

    @property
    def contact(self):
        return json.loads((self.state / "agents" / self.name / "contact.json").read_text())

    def ask(self, method, path, body=None, token=None):
        return request(self.url + path, method, body, token)

    def get(self, path):
        return self.ask("GET", path)[:2]

    def order(self, method, path, body=None):
        return self.ask(method, path, body, self.contact["admin_token"])[:2]

    def status(self):
        code, text = self.get("/v1/skerry/status")
        assert code == 200
        return json.loads(text)

    def metrics(self):
        """{"name{labels}": value}"""
        lines = [line for line in self.get("/metrics")[1].splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}

    # What it has come to

    def wait(self, condition, what="its status"):
        """The first status that meets the condition."""
        last = None

        def look():
            nonlocal last
            try:
                last = self.status()
            except OSError:
                assert not self.ended, f"the agent ended with {self.process.returncode}\n{self.log}"
                return None
            return last if condition(last) else None

        return wait_for(look, lambda: f"{what}\n{json.dumps(last, indent=1)}\n{self.log}")

    def wait_for_version(self, version, run="r"):
        """Until all its engines serve it and nothing is wrong. The status of that moment."""

        def there(status):
            return (
                status["serves"] == f"{run}@{version}"
                and status["checkpoint"]["version"] == version
                and status["phase"] == "waiting"
                and not status["degraded"]
                and all(engine["in_rotation"] for engine in status["engines"])
            )

        return self.wait(there, f"version {version} of run {run}")

    # Orders, as an operator gives them

    def command(self, *words, **how):
        return skerry("agent", *words, "--state", self.state, "--name", self.name, **how)

    def follow(self, *what):
        return self.command("follow", *what)


def passes(agent, more=2):
    """Waits until the agent has looked at the board so many times more, and done what followed from it."""

    def looked():
        return agent.metrics()["skerry_board_lookups_total"]

    before = looked()
    wait_for(lambda: looked() > before + more, "looks at the board")


@contextlib.contextmanager
def each_ended(kind):
    """Starts what `kind` makes (agents, gateways, relays) and kills those that are still there."""
    started = []

    def begin(*arguments, **how):
        started.append(kind(*arguments, **how))
        return started[-1]

    try:
        yield begin
    finally:
        for one in started:
            if not one.ended:
                one.kill()
            one.process.stdout.close()


def agents():
    return each_ended(Agent)
