"""Servers of S3, each started when the first test needs it and kept for the session."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import radosgw  # noqa: E402
import servers  # noqa: E402
import small_model  # noqa: E402
from fake_s3 import FakeS3  # noqa: E402
from s3_board import S3Board  # noqa: E402


def _session_server(kind, tmp_path_factory):
    with kind(tmp_path_factory.mktemp("servers") / kind.__name__.lower()) as server:
        yield server


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory):
    yield from _session_server(servers.SeaweedFS, tmp_path_factory)


@pytest.fixture(scope="session")
def moto(tmp_path_factory):
    yield from _session_server(servers.Moto, tmp_path_factory)


@pytest.fixture(scope="session")
def rclone(tmp_path_factory):
    yield from _session_server(servers.Rclone, tmp_path_factory)


@pytest.fixture(scope="session")
def localbucket(tmp_path_factory):
    yield from _session_server(servers.LocalBucket, tmp_path_factory)


@pytest.fixture(scope="session")
def rados(tmp_path_factory):
    if missing := radosgw.missing_programs():
        pytest.skip(f"{', '.join(missing)} not installed (apt-get install --no-install-recommends {radosgw.PACKAGES})")
    yield from _session_server(radosgw.RadosGW, tmp_path_factory)


@pytest.fixture
def fake():
    with FakeS3() as server:
        yield server


@pytest.fixture(scope="session")
def ckpt(tmp_path_factory):
    """Versions 0 … 3 of a small model."""
    directory = tmp_path_factory.mktemp("ckpt")
    return [small_model.write(directory / f"v{n}", n) for n in range(4)]


@pytest.fixture
def board(fake, ckpt, tmp_path):
    """A board on the fake server whose run is at version 0."""
    made = S3Board(fake, ckpt, tmp_path)
    made.init()
    fake.forget_requests()
    return made
