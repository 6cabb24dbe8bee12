"""Stand-ins for engines (tests/engines), run in this process so that a test sees the very weights that they serve."""

import contextlib
import json
import sys
import threading
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "engines"))

from contract_base import serve  # noqa: E402
from sglang_contract import SglangContract  # noqa: E402
from vllm_contract import VllmContract  # noqa: E402

# Which calls are what, by the kind of the stand-in.
PAUSE = ("POST /pause", "POST /pause_generation")
LOAD = ("POST /collective_rpc skerry_commit", "POST /collective_rpc reload_weights", "POST /update_weights_from_disk")
RESET = ("POST /reset_prefix_cache", "POST /flush_cache")
VERIFY = ("POST /collective_rpc skerry_verify",)
RESUME = ("POST /resume", "POST /continue_generation")
PREPARE = ("POST /collective_rpc skerry_prepare",)
PHASES = {"prepare": PREPARE, "pause": PAUSE, "load": LOAD, "reset": RESET, "verify": VERIFY, "resume": RESUME}

LONG_PROMPT = "x" * 256  # kept in the prefix cache


def make(kind, model, **options):
    if kind == "sglang":
        return SglangContract(model, **options)
    return VllmContract(model, plugin=kind == "vllm plugin", **options)


class StandIn:
    """kind: "vllm plugin", "vllm reload" or "sglang". `query` goes behind its address, `user` before its host."""

    KINDS = ("vllm plugin", "vllm reload", "sglang")

    def __init__(self, kind, model, query="", user="", **options):
        self.kind, self.contract = kind, make(kind, model, **options)
        self.server = serve(self.contract, 0)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.specification = f"{kind.split()[0]}=http://{user}127.0.0.1:{self.port}{query}"
        self.name = f"{kind.split()[0]} {self.url}"
        self._held, self._slow = set(), {}
        self._take_fault, self.contract.take_fault = self.contract.take_fault, self._before_a_call

    def serves(self):
        """Digest of the weights that would make the next token."""
        with self.contract.lock:
            return self.contract.served()

    @property
    def paused(self):
        with self.contract.lock:
            return self.contract.paused

    def token(self, prompt="hello", **more):
        """Asks for one token: "w:<first digits of what it serves>[/p:<of what computed the prefix>]"."""
        route = "/generate" if self.kind == "sglang" else "/v1/completions"
        body = json.dumps({"prompt": prompt, "max_tokens": 1, **more}).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url + route, body), timeout=120) as reply:
            answer = json.loads(reply.read())
        return answer["text"] if self.kind == "sglang" else answer["choices"][0]["text"]

    def calls(self, phase):
        """The calls of one phase so far, in order."""
        with self.contract.lock:
            return [dict(entry) for entry in self.contract.trace if entry["route"] in PHASES[phase]]

    def count(self, phase):
        return len(self.calls(phase))

    def forget(self):
        with self.contract.lock:
            self.contract.trace.clear()

    def fault(self, phase, kind, times=1):
        """The next calls of the phase fail, whatever this engine's route for it is called."""
        with self.contract.lock:
            for route in PHASES[phase]:
                self.contract.faults[route.removeprefix("POST ")] = {"kind": kind, "times": times}

    def mend(self):
        """No fault any more, and calls that hang go on."""
        with self.contract.lock:
            self.contract.faults.clear()
            self.contract.released += 1
            self.contract.lock.notify_all()

    def _before_a_call(self, route, path):
        """Under the contract's lock, which is free while this waits."""
        lock, entry = self.contract.lock, f"POST {route}"
        lock.wait_for(lambda: entry not in self._held)
        if entry in self._slow:
            lock.wait_for(lambda: False, self._slow[entry])
        return self._take_fault(route, path)

    def hold(self, phase):
        """Calls of this phase don't begin their work until release()."""
        with self.contract.lock:
            self._held.update(PHASES[phase])

    def release(self):
        with self.contract.lock:
            self._held.clear()
            self.contract.lock.notify_all()

    def slow_down(self, phase, seconds):
        with self.contract.lock:
            self._slow |= dict.fromkeys(PHASES[phase], seconds)

    def restart(self):
        """As a new process on the same address: boot weights."""
        with self.contract.lock:
            self.contract.boot()
            self.contract.end_requests()

    def die(self):
        """Nobody listens there any more."""
        self.server.shutdown()
        self.server.server_close()

    def come_back(self):
        self.restart()
        self.server = serve(self.contract, self.port)

    def close(self):
        self.mend()
        self.release()
        with self.contract.lock:
            self.contract.paused = False
            self.contract.end_requests()
        with contextlib.suppress(OSError):
            self.die()


class Request:
    """A request that runs until the engine ends it or its tokens are there."""

    def __init__(self, engine, tokens, **more):
        self.text = None
        self.thread = threading.Thread(target=self._run, args=(engine, tokens, more), daemon=True)
        self.thread.start()

    def _run(self, engine, tokens, more):
        self.text = engine.token(max_tokens=tokens, **more)

    def tokens(self):
        self.thread.join(120)
        assert self.text is not None, "the request did not end"
        return self.text.split()
