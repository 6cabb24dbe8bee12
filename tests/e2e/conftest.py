"""Checkpoints, a board, and a publisher and a reader of it."""

import pytest

import small_model
from program import skerry


@pytest.fixture(scope="module")
def ckpt(tmp_path_factory):
    """Versions 0 … 3 of a small model; "1r" is version 1 in three shards."""
    directory = tmp_path_factory.mktemp("ckpt")
    made = {n: small_model.write(directory / f"v{n}", n) for n in range(4)}
    made["1r"] = small_model.write(directory / "v1r", 1, shards=3)
    return made


@pytest.fixture
def board(ckpt, tmp_path):
    """A board whose run r is at version 0."""
    skerry("init", tmp_path / "b", "--run", "r", "--base", ckpt[0])
    return tmp_path / "b"


@pytest.fixture
def publish(board, tmp_path):
    def run(checkpoint, *more, run="r", state="s", **how):
        return skerry("publish", board, checkpoint, "--run", run, "--state", tmp_path / state, "--json", *more, **how)

    return run


@pytest.fixture
def pull(board, tmp_path):
    def do(where="island", *more, run="r", **how):
        return skerry("pull", board, "--run", run, "-o", tmp_path / where, "--json", *more, **how)

    return do
