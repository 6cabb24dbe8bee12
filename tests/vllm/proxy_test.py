"""Requests by weight version through the agent to a real vLLM server: stamps against the server's own account of which
weights made which token, the stock `openai` package, and curl.

With SKERRY_CHAIN=DIR (v000, v001, … of a model with a tokenizer) the same with that model, and with text.
"""

import json
import os
import shutil
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from agent_process import agents
from agent_test import chain  # noqa: F401  (a fixture)
from program import skerry
from server import UNPACKED, Server

ROOT = Path(__file__).parents[2]
HAS_TEXT = "SKERRY_CHAIN" in os.environ
TOKENS = 400
STREAMERS = 4


def generate(url, seed, *, stream, **headers):
    prompt = [(7 * seed + 13 * i * i + i) % 400 + 4 for i in range(16)]
    body = {
        "token_ids": prompt, "model": "m", "stream": stream,
        "sampling_params": {"max_tokens": TOKENS, "temperature": 1.0, "seed": seed, "ignore_eos": True},
    }  # fmt: skip
    request = urllib.request.Request(
        f"{url}/inference/v1/generate", json.dumps(body).encode(), {"Content-Type": "application/json", **headers}
    )
    return urllib.request.urlopen(request, timeout=300)


def number(label):
    return int(label.split("@")[1])


def token_versions(spans):
    """The engine's own account, as a version for each token."""
    versions = []
    for span in spans:
        assert span["start"] == len(versions)
        versions += [number(span["version"])] * (span["end"] - span["start"])
    return versions


class Streamed:
    """One stream of /inference/v1/generate: for each token our stamp and the engine's."""

    def __init__(self, url, seed):
        self.stamped, self.accounted, self.summary = [], [], None
        with generate(url, seed, stream=True) as answer:
            self.start = int(answer.headers["Skerry-Version-Start"])
            event = None
            for line in answer:
                line = line.decode().strip()
                if line.startswith("event: "):
                    event = line[7:]
                if not line.startswith("data: {"):
                    continue
                data = json.loads(line[6:])
                if event == "skerry.summary":
                    self.summary = data
                    continue
                for choice in data.get("choices") or []:
                    self.stamped += [data["weight_version"]] * len(choice.get("token_ids") or [])
                    self.accounted += token_versions(choice.get("weight_versions") or [])


class Streamer:
    """Stream after stream, until it is told to stop."""

    def __init__(self, url, seed):
        self.streams, self.error, self.stop = [], None, threading.Event()
        self.thread = threading.Thread(target=self._run, args=(url, seed), daemon=True)
        self.thread.start()

    def _run(self, url, seed):
        try:
            while not self.stop.is_set():
                self.streams.append(Streamed(url, seed))
        except Exception as error:  # shown by the test's thread
            self.error = error

    def result(self):
        self.stop.set()
        self.thread.join(300)
        assert not self.thread.is_alive() and self.error is None, self.error
        return self.streams


@pytest.fixture
def island(chain, python, tmp_path):  # noqa: F811
    """The server and the agent at version 0, and publish(n)."""
    board, trainer = tmp_path / "b", tmp_path / "trainer"
    shutil.copytree(chain[0], trainer)
    skerry("init", board, "--run", "r", "--base", trainer)
    log = tmp_path / "vllm.log"
    with Server(python, chain[0], log, environment=UNPACKED, arguments=("--enable-scale-out",)) as server, agents() as begin:
        agent = begin(tmp_path / "state", board, f"vllm=http://127.0.0.1:{server.port}", options=("--kv", "namespace"))
        agent.wait_for_version(0)

        def publish(version):
            skerry("publish", board, chain[version], "--run", "r", "--state", tmp_path / "s")

        yield agent, publish, server


def test_stamps_agree_with_the_engines_own_account(island, python, tmp_path, summary):
    agent, publish, server = island

    # In-place switches while streams run.
    streamers = [Streamer(agent.url, seed) for seed in range(STREAMERS)]
    whole = []
    for version in range(1, 5):
        time.sleep(0.3)
        publish(version)
        agent.wait_for_version(version)
        with generate(agent.url, version, stream=False, **{"Skerry-Exact-Version": str(version)}) as answer:
            whole.append((version, dict(answer.headers), json.load(answer)))
    streams = [stream for streamer in streamers for stream in streamer.result()]
    moved, wrong = 0, []
    for stream in streams:
        assert len(stream.stamped) == len(stream.accounted) == TOKENS
        assert stream.summary["weight_version_start"] == stream.start <= min(stream.accounted)
        assert stream.summary["weight_version_end"] >= max(stream.accounted)
        moved += len(set(stream.accounted)) > 1
        pairs = enumerate(zip(stream.stamped, stream.accounted, strict=True))
        wrong += [(stream.start, stream.summary, token, ours, engines) for token, (ours, engines) in pairs if ours != engines]
    summary.append(
        f"{TOKENS * len(streams)} streamed tokens, {moved} of {len(streams)} streams moved to another version in their midst: "
        f"{len(wrong)} stamps differ from vLLM's spans"
    )
    assert moved > 0
    assert wrong == []

    for version, headers, body in whole:
        assert headers["Skerry-Version-Start"] == headers["Skerry-Version-End"] == str(version)
        assert headers["Skerry-Spans"] == f"{version}:0-{TOKENS}"
        assert body["weight_version_start"] == body["weight_version_end"] == version
        assert token_versions(body["choices"][0]["weight_versions"]) == [version] * TOKENS

    # Constraints that can't be met, and the control routes.
    with pytest.raises(urllib.error.HTTPError) as refused:
        generate(agent.url, 1, stream=False, **{"Skerry-Min-Version": "5"})
    assert refused.value.code == 409
    assert json.load(refused.value)["error"]["applied"] == 4
    assert agent.ask("POST", "/pause", {})[0] == 403

    # Clients that know nothing of Skerry.
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    if not HAS_TEXT:
        body = json.dumps({"model": "m", "prompt": [5, 6, 7], "max_tokens": 4, "stream": True, "ignore_eos": True})
    else:
        body = json.dumps({"model": "m", "prompt": "The sea", "max_tokens": 4, "stream": True})
        for example in (["client_openai.py", "--chat"], ["client_stream.py"]):
            ran = subprocess.run(
                [python, ROOT / "examples" / example[0], agent.url, "--min-version", "4", *example[1:]],
                capture_output=True, text=True, timeout=300, env=environment,
            )  # fmt: skip
            assert ran.returncode == 0, ran.stdout + ran.stderr
            print(ran.stdout)
    curl = subprocess.run(
        ["curl", "-sN", f"{agent.url}/v1/completions", "-H", "Content-Type: application/json", "-d", body],
        capture_output=True, text=True, timeout=300, check=True,
    ).stdout  # fmt: skip
    print(curl)
    events = [json.loads(line[6:]) for line in curl.splitlines() if line.startswith("data: {")]
    assert "data: [DONE]" in curl
    assert all(event["weight_version"] == 4 for event in events[:-1])
    assert events[-1] == {"run": "r", "weight_version_start": 4, "weight_version_end": 4, "events": {"4": len(events) - 1}}
    program = (
        "import sys, openai\n"
        "from skerry.client import stamps\n"
        "client = openai.OpenAI(base_url=sys.argv[1] + '/v1', api_key='none', default_headers={'Skerry-Min-Version': '4'})\n"
        "answer = client.completions.create(model='m', prompt=[5, 6, 7], max_tokens=4)\n"
        "chunks = list(client.completions.create(model='m', prompt=[5, 6, 7], max_tokens=4, stream=True))\n"
        "print(stamps(answer).version_end, {stamps(chunk).event_version for chunk in chunks})\n"
    )
    ran = subprocess.run([python, "-c", program, agent.url], capture_output=True, text=True, timeout=300, env=environment)
    assert ran.stdout.split() == ["4", "{4}"], ran.stdout + ran.stderr
