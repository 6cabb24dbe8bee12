"""A trainer and an island behind a poor link: everything arrives exactly, and lost connections cost little."""

import numpy as np
import pytest

import small_model
from checkpoint_files import Tensor, assert_same_files, write_checkpoint
from link import Link
from s3_board import S3Board
from servers import url_of

ROUND_TRIP = 0.030
MBIT = 1_000_000 // 8
LOSS = 0.01  # of the chunks that a connection carries
WASTE = 0.05  # of the bytes of an object: what may be sent again


@pytest.mark.parametrize("versions", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_versions_are_published_and_pulled_over_a_poor_link(fake, tmp_path, summary, versions):
    ckpt = [small_model.write(tmp_path / "ckpt" / f"v{n}", n) for n in range(versions + 1)]
    with Link(fake.port, delay=ROUND_TRIP / 2, bandwidth=10 * MBIT, reset=LOSS, seed=5) as link:
        board = S3Board(fake, ckpt, tmp_path)
        board.url = url_of(link.endpoint, board.prefix)
        board.init()
        board.pull()
        for version in range(1, versions + 1):
            board.publish(version)
            board.pull()
            assert_same_files(tmp_path / "island", ckpt[version])
        assert board.version == versions
        requests = len(fake.requests())
        summary.append(
            f"poor link, {versions} versions: {requests} requests, {link.resets} resets on {link.connections} "
            f"connections, {link.up:,} bytes up, {link.down:,} down"
        )
        if versions >= 50:
            assert link.resets > 0
        assert requests <= 60 + 30 * versions, "no request is repeated without end"


def test_a_big_object_goes_on_where_its_connection_was_lost(fake, tmp_path, summary):
    size = 48 << 20
    data = np.random.default_rng(3).integers(0, 1 << 16, size // 2, dtype=np.uint16).tobytes()
    base = write_checkpoint(tmp_path / "base", {"w": Tensor("BF16", (size // 2,), data)})
    board = S3Board(fake, [base], tmp_path)
    with Link(fake.port, reset=LOSS, seed=11) as link:
        board.url = url_of(link.endpoint, board.prefix)
        board.init()
        up, resets_up = link.up, link.resets
        board.pull()
        assert_same_files(tmp_path / "island", base)
        assert resets_up > 0 and link.resets > resets_up, "the link lost connections both ways"
        summary.append(
            f"{size:,} bytes over a link that loses 1 % of its chunks: {up / size:.3f} x sent up with {resets_up} "
            f"resets, {link.down / size:.3f} x sent down with {link.resets - resets_up}"
        )
        assert link.down <= (1 + WASTE) * size
