"""The whole way into a real engine: versions published on a board, an agent, a vLLM server with the plugin.

With SKERRY_CHAIN=DIR (v000, v001, … of a model that vLLM can serve) the same with that chain and with fresh servers at the
first, the middle and the last version:  SKERRY_CHAIN=DIR VLLM_PYTHON=… pytest -s tests/vllm/agent_test.py
"""

import json
import os
import shutil
import signal
import time
import urllib.request
from pathlib import Path

import checkpoints
import pytest
from program import skerry, start
from server import UNPACKED, Server

VERSIONS = 11


@pytest.fixture
def chain(models, tmp_path):
    """Directories of versions 0, 1, …"""
    if given := os.environ.get("SKERRY_CHAIN"):
        return [str(path) for path in sorted(Path(given).glob("v[0-9]*"))]
    base = tmp_path / "model"
    os.symlink(models / "tied", base)
    return checkpoints.make_versions(str(base), VERSIONS, fraction=0.002)


class Agent:
    def __init__(self, board, state, engine, log):
        self.state = state
        self.log = open(log, "w")
        self.process = start(
            "agent", "--board", board, "--run", "r", "--state", state, "--engine", engine, "--listen", "127.0.0.1:0",
            "--poll", "100", stdout=self.log, stderr=self.log,
        )  # fmt: skip

    def status(self):
        try:
            contact = json.loads((self.state / "agents" / "agent" / "contact.json").read_text())
            with urllib.request.urlopen(contact["url"] + "/v1/skerry/status", timeout=10) as answer:
                return json.load(answer)
        except (OSError, ValueError):
            return {}

    def wait_for(self, version, timeout=300):
        """The status once the version is live and its update is told."""

        def is_there(status):
            return status.get("version") == version and (status["last_update"] or {}).get("to") == f"r@{version}"

        end = time.monotonic() + timeout
        while not is_there(status := self.status()):
            assert self.process.poll() is None, "the agent has ended"
            assert time.monotonic() < end, json.dumps(status, indent=2)
            time.sleep(0.05)
        return status

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0
        self.log.close()


def fresh_answers(python, directory, tmp_path):
    with Server(python, directory, tmp_path / "fresh.log", plugin=False, environment=UNPACKED) as server:
        return server.answers(), server.checksums()


def test_an_engine_follows_published_versions_as_if_it_had_been_started_on_each(chain, python, tmp_path):
    board, state, trainer = tmp_path / "b", tmp_path / "state", tmp_path / "trainer"
    last = len(chain) - 1
    compared = {0, last // 2, last} if "SKERRY_CHAIN" in os.environ else {last}
    shutil.copytree(chain[0], trainer)
    skerry("init", board, "--run", "r", "--base", trainer)
    with Server(python, chain[0], tmp_path / "plugin.log", environment=UNPACKED) as server:
        agent = Agent(board, state, f"vllm=http://127.0.0.1:{server.port}", tmp_path / "agent.log")
        answers, paused = {}, []
        for version, directory in enumerate(chain):
            if version:
                skerry("publish", board, directory, "--run", "r", "--state", tmp_path / "s")
            update = agent.wait_for(version)["last_update"]
            assert update["engines_by_changes"] == (1 if version else 0), update
            if version:
                paused.append(update["seconds"]["paused"])
            if version in compared | {0, last - 1}:
                answers[version] = server.answers(), server.checksums()
        assert answers[last][0] != answers[last - 1][0]

        # 10 back and forward again.
        skerry("agent", "rollback", "--to", last - min(last, 8), "--state", state)
        assert agent.wait_for(last - min(last, 8))["last_update"]["how"] == "undo"
        skerry("agent", "follow", "--reset", "--state", state)
        agent.wait_for(last)
        assert (server.answers(), server.checksums()) == answers[last]
        verified = skerry("verify", state / "checkpoint", "--json").json
        assert verified["model_digest"] == agent.status()["checkpoint"]["model_digest"]
        agent.stop()
        print(f"paused for {sorted(paused)[len(paused) // 2] * 1000:.0f} ms (median of {len(paused)})")
    for version in compared:
        assert fresh_answers(python, chain[version], tmp_path) == answers[version], version


@pytest.mark.skipif("SKERRY_CHAIN" in os.environ, reason="one model is enough")
def test_a_server_without_the_plugin_is_moved_by_reloads(chain, python, tmp_path):
    """A tied model whose matrices are not packed: vLLM's own reload is right for it, which the agent can't see from outside."""
    board, trainer = tmp_path / "b", tmp_path / "trainer"
    shutil.copytree(chain[0], trainer)
    skerry("init", board, "--run", "r", "--base", trainer)
    with Server(python, chain[0], tmp_path / "stock.log", plugin=False, environment=UNPACKED) as server:
        engine = f"vllm=http://127.0.0.1:{server.port}?reload=trust"
        agent = Agent(board, tmp_path / "state", engine, tmp_path / "agent.log")
        for version in range(3):
            if version:
                skerry("publish", board, chain[version], "--run", "r", "--state", tmp_path / "s")
            assert agent.wait_for(version)["last_update"]["engines_by_changes"] == 0
        assert server.call("/weight_info", method="GET") == {"weight_version": "r@2"}
        answers = server.answers(), server.checksums()
        agent.stop()
    assert answers == fresh_answers(python, chain[2], tmp_path)
