"""Pulls that are killed while a large object comes in many ranges at once: who goes on fetches only what is missing."""

import re
import time

import numpy as np
import pytest

from checkpoint_files import Tensor, assert_same_files, write_checkpoint
from link import Link
from program import OK, finish, start
from s3_board import RUN, S3Board
from servers import url_of

SIZE = 32 << 20
IN_FLIGHT = 8 << 20  # what all connections of a pull read into buffers at once


@pytest.fixture
def big(fake, tmp_path):
    """A board whose only version is one large object."""
    data = np.random.default_rng(4).integers(0, 1 << 16, SIZE // 2, dtype=np.uint16).tobytes()
    board = S3Board(fake, [write_checkpoint(tmp_path / "base", {"w": Tensor("BF16", (SIZE // 2,), data)})], tmp_path)
    board.init()
    fake.forget_requests()
    return board


def start_pull(board, link, where="island"):
    url = url_of(link.endpoint, board.prefix)
    return start("pull", url, "--run", RUN, "-o", board.directory / where, "--json", env=board.env)


def wait_for(link, size):
    while link.down < size:
        time.sleep(0.005)


def ranges(fake):
    """How often each range of the large object was asked for."""
    asked = {}
    for request in fake.requests("GET"):
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("range", ""))
        if found and request.key.endswith(".safetensors"):
            span = (int(found[1]), int(found[2]) + 1)
            asked[span] = asked.get(span, 0) + 1
    return asked


@pytest.mark.parametrize("part", [0.2, 0.5, 0.8])
def test_a_killed_pull_goes_on_with_the_ranges_that_are_missing(fake, big, summary, part):
    with Link(fake.port, bandwidth=64 << 20) as link:
        process = start_pull(big, link)
        wait_for(link, part * SIZE)
        process.kill()
        process.wait()
        before = link.down
    first = ranges(fake)
    assert len(first) >= part * SIZE / IN_FLIGHT
    fake.forget_requests()
    big.pull()
    assert_same_files(big.directory / "island", big.checkpoints[0])
    second = ranges(fake)
    fetched = sum(end - begin for begin, end in second)
    assert all(times == 1 for times in second.values())
    assert fetched <= SIZE - before + IN_FLIGHT
    assert not list(big.directory.glob("**/*.part*"))
    summary.append(f"killed after {before:,} of {SIZE:,} bytes: {fetched:,} bytes fetched on the second go")


def test_G14_when_the_one_of_four_that_fetches_is_killed_another_goes_on(fake, big, summary):
    with Link(fake.port, bandwidth=64 << 20) as link:
        first = start_pull(big, link)
        wait_for(link, SIZE // 4)
        others = [start_pull(big, link) for _ in range(3)]
        wait_for(link, SIZE // 2)
        first.kill()
        first.wait()
        done = [finish(process) for process in others]
        assert [ran.code for ran in done] == [OK] * 3, [ran.err for ran in done]
        assert_same_files(big.directory / "island", big.checkpoints[0])
        builders = [ran for ran in done if ran.json["bytes_fetched"] > 0]
        assert len(builders) == 1, "one goes on, the others find its work done"
        summary.append(f"four pulls of one directory, one killed: {link.down / SIZE:.3f} x the bytes came down")
        assert link.down <= SIZE + IN_FLIGHT + (1 << 20)
