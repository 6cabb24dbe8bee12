"""Agents of one run that each follow another view of it: the same versions at once, weights of their own."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

import pytest

from agent_process import PATIENCE
from checkpoint_files import assert_same_files
from program import skerry

VIEW = "fp8-block"
OF_VIEW = 60  # version n of the view is model 60 + n


class Run(NamedTuple):
    """What an agent is to follow."""

    board: Path
    run: str


@pytest.fixture
def board(models, tmp_path):
    """publish(version): run v, with a further view."""
    board, state = tmp_path / "views", tmp_path / "publisher"

    def publish(version):
        view = f"{VIEW}={models.path(OF_VIEW + version)}"
        if version == 0:
            skerry("init", board, "--run", "v", "--base", models.path(0), "--view", view)
        else:
            skerry("publish", board, models.path(version), "--run", "v", "--state", state, "--view", view)

    publish(0)
    return board, publish


def sample(island, header):
    """Status, text and headers of a completion."""
    asked = urllib.request.Request(island.url + "/v1/completions", json.dumps({"prompt": "a", "max_tokens": 1}).encode())
    asked.add_header("Content-Type", "application/json")
    asked.add_header(*header)
    try:
        with urllib.request.urlopen(asked, timeout=PATIENCE) as reply:
            return reply.status, reply.read().decode(), reply.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers


def test_each_island_serves_its_own_view_of_the_same_version(board, agent, engine, models, tmp_path):
    at, publish = board
    places = {"v": 0, f"v/{VIEW}": OF_VIEW}
    engines = {run: engine("vllm plugin", model=models.path(first)) for run, first in places.items()}
    islands = {
        run: agent(Run(at, run), engines[run], state=tmp_path / run.replace("/", "-")) for run in places
    }
    for version in (0, 1, 2):
        if version > 0:
            publish(version)
        for run, first in places.items():
            status = islands[run].wait_for_version(version, run)
            assert (status["run"], status["head"], status["behind"]) == (run, version, 0)
            assert_same_files(islands[run].state / "checkpoint", models.files(first + version))
            assert engines[run].serves() == models.digest(first + version)
    # Whoever samples asks for a version, and is told a version, of the run.
    for island in islands.values():
        status, text, headers = sample(island, ("Skerry-Min-Version", "2"))
        assert status == 200, text
        assert (headers["Skerry-Run"], headers["Skerry-Version-Start"]) == ("v", "2")
        status, text, _ = sample(island, ("Skerry-Exact-Version", "0"))
        assert status == 409, text
        assert json.loads(text)["error"]["run"] == "v"


def test_a_running_agent_goes_over_to_another_view(board, agent, models, tmp_path):
    at, publish = board
    publish(1)
    island = agent(Run(at, "v"))
    island.wait_for_version(1, "v")
    assert_same_files(island.state / "checkpoint", models.files(1))
    skerry("agent", "follow", "head", "--run", f"v/{VIEW}", "--state", island.state)
    publish(2)
    island.wait_for_version(2, f"v/{VIEW}")
    assert_same_files(island.state / "checkpoint", models.files(OF_VIEW + 2))
