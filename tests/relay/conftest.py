"""A trainer's board, origins that show it, relays over them, agents behind these."""

import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / folder) for folder in ("agent", "engines", "faults", "s3"))]

from agent_process import agents  # noqa: E402
from checkpoint_files import bf16, write_checkpoint  # noqa: E402
from origin import Origin  # noqa: E402
from program import skerry  # noqa: E402
from relay_process import relays  # noqa: E402
from trainer import Models, Trainer  # noqa: E402

VERSIONS = 12  # of run r
LARGE = (6000, 1024)  # elements of the large model: 12 MiB, three segments


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    return Models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def trained(models, tmp_path_factory):
    return Trainer(models, tmp_path_factory.mktemp("trained") / "b").train(VERSIONS)


@pytest.fixture
def trainer(trained, tmp_path):
    """Run r on a board of the test's own, at version 0; publish(n) moves it."""
    return trained.copy(tmp_path / "b", 0)


@pytest.fixture(scope="session")
def large(tmp_path_factory):
    """A board whose anchor is an object of several segments, and the checkpoint that it holds."""
    directory = tmp_path_factory.mktemp("large")
    weights = np.random.default_rng(3).integers(0, 1 << 16, LARGE, dtype=np.uint16)
    ckpt = write_checkpoint(directory / "v0", {"w": bf16(weights)}, 1, {"config.json": "{}"})
    skerry("init", directory / "b", "--run", "r", "--base", ckpt)
    return directory / "b", ckpt


@pytest.fixture
def origin(trainer):
    with Origin(trainer.board) as served:
        yield served


@pytest.fixture
def large_origin(large):
    with Origin(large[0]) as served:
        yield served


@pytest.fixture
def relay(tmp_path):
    """relay(board, …, cache=, options=(…)): a running relay."""
    with relays() as begin:

        def started(*boards, cache=None, **how):
            return begin(cache or tmp_path / "cache", *(getattr(board, "url", board) for board in boards), **how)

        yield started


@pytest.fixture
def agent(tmp_path):
    """agent(board, name, options=(…)): a running agent without an engine, which is looked at seldom: what it learns in
    the test it was told."""
    with agents() as begin:

        def started(board, name="island", options=(), **how):
            quiet = ("--poll", 600_000)
            return begin(tmp_path / name, getattr(board, "url", board), options=quiet + tuple(options), **how)

        yield started


@pytest.fixture
def pull(tmp_path):
    """pull(board, name, …): `skerry pull` of run r into a directory of that name, which is returned."""

    def pulled(board, name="pulled", *options, **how):
        skerry("pull", getattr(board, "url", board), "--run", "r", "-o", tmp_path / name, *options, **how)
        return tmp_path / name

    return pulled
