"""Agents, engines and a trainer."""

import contextlib
import shutil
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / folder) for folder in ("faults", "s3"))]

import small_model  # noqa: E402
from agent_process import agents  # noqa: E402
from checkpoint_files import assert_same_files, write_checkpoint  # noqa: E402
from program import skerry  # noqa: E402
from stand_in import StandIn  # noqa: E402
from trainer import Models, Trainer  # noqa: E402
from watched_island import Island  # noqa: E402

VERSIONS = 100  # of run r


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    return Models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def trained(models, tmp_path_factory):
    """Run r with 100 versions and run other with 3, published on one board."""
    board = tmp_path_factory.mktemp("trained") / "b"
    return Trainer(models, board).train(VERSIONS), Trainer(models, board, "other", first=200).train(3)


@pytest.fixture
def trainer(trained, tmp_path):
    """Run r on a board of the test's own, at version 0; publish(n) moves it."""
    return trained[0].copy(tmp_path / "b", 0)


@pytest.fixture
def other_run(trainer, trained):
    """Run other on the same board, at version 0."""
    return trained[1].copy(trainer.board, 0)


@pytest.fixture
def agent(tmp_path):
    """agent(trainer, engine, …, options=(…)): a running agent on a state directory that all of the test's share."""
    with agents() as begin:

        def started(trainer, *engines, state=None, **how):
            board = how.pop("board", trainer.board)
            return begin(state or tmp_path / "state", board, *engines, **({"run": trainer.run} | how))

        yield started


@pytest.fixture
def engine(models):
    """engine(kind): a stand-in with version 0 of the small model as its boot weights."""
    with contextlib.ExitStack() as stack:

        def started(kind="vllm plugin", **options):
            made = StandIn(kind, options.pop("model", models.path(0)), **options)
            stack.callback(made.close)
            return made

        yield started


@pytest.fixture(scope="session")
def foreign_patch(models, tmp_path_factory):
    """One that no version of run r can take."""
    directory = tmp_path_factory.mktemp("foreign")
    pair = [write_checkpoint(directory / f"{n}", small_model.tensors(n), 2) for n in (150, 151)]
    for path in pair:
        shutil.copytree(models.path(0), path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.safetensors"))
    skerry("diff", *pair, "-o", directory / "p")
    return directory / "p"


@pytest.fixture(scope="module")
def islands(trained, foreign_patch, tmp_path_factory):
    """islands(kind): the island that the tests before have left; after a failure a new one."""
    trainer, there = trained[0], {}

    def of(kind, fresh=False):
        if (fresh or kind not in there) and kind in there:
            there.pop(kind).close()
        if kind not in there:
            there[kind] = Island(tmp_path_factory.mktemp("island"), trainer, kind, foreign_patch)
        return there[kind]

    yield of
    for island in there.values():
        island.close()


@pytest.fixture
def assert_at():
    """assert_at(agent, trainer, version, engine, …): the checkpoint is the trainer's, file by file, and so are the
    weights that each engine serves."""

    def check(agent, trainer, version, *engines):
        assert_same_files(agent.state / "checkpoint", trainer.files(version), f"(version {version})")
        for engine in engines:
            assert engine.serves() == trainer.digest(version), f"{engine.name} does not serve version {version}"
            assert not engine.paused, engine.name
            assert engine.token().startswith(f"w:{trainer.digest(version)[:8]}")

    return check
