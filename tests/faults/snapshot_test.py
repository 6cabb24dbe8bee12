"""A publish that fails, wherever, loses no change: the next one, of another checkpoint, is against the last version
that is out, and what readers rebuild from it is bit for bit what was published.

The publish that fails is the one that makes a skip and an anchor (long_run.py).
"""

import errno
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "s3"))

import board_files
from checkpoint_files import assert_same_files
from fake_s3 import FakeS3
from long_run import PUBLISH, SEEDS, LongRun
from operations import STORE
from program import CONFLICT, FAILED, OK, UNAVAILABLE, skerry
from servers import environment_of, url_of
from small_disk import MIB, disk  # noqa: F401 (a fixture)


@pytest.fixture(scope="module", params=SEEDS, ids=lambda seed: f"model {seed}")
def run(request, tmp_path_factory):
    return LongRun(tmp_path_factory.mktemp("run"), request.param)


class Place:
    """A copy of the board at version 7 and its publisher, wherever the two are."""

    def __init__(self, run, board, state, island, env=None):
        self.run, self.board, self.state, self.island, self.env = run, board, state, island, env

    def publish(self, version, *more, state=None, **how):
        command = ["publish", self.board, self.run.ckpt[version], "--run", "r", "--state", state or self.state]
        return skerry(*command, "--json", *more, env=self.env, **how)

    def pull(self, where, version, content=None):
        """The island where it is, or a new directory; it must have the content of that checkpoint then."""
        command = ["pull", self.board, "--run", "r", "-o", self.island.parent / where, "--version", version]
        skerry(*command, env=self.env)
        assert_same_files(self.island.parent / where, self.run.files[content or version])

    def version(self):
        return skerry("head", self.board, "--run", "r", "--json", env=self.env).json["version"]

    def check_next(self):
        """Version 9's content becomes the next version, after 7 or 8; readers get it on every way."""
        last = self.version()
        assert last in (7, 8)
        assert self.publish(9).json["version"] == last + 1
        for where in ("fresh", self.island.name):
            self.pull(where, last, content=last)
            self.pull(where, last + 1, content=9)


@pytest.fixture
def place(run, tmp_path):
    shutil.copytree(run.places / "board at 7", tmp_path / "p")
    return Place(run, tmp_path / "p" / "b", tmp_path / "p" / "s", tmp_path / "p" / "island")


@pytest.mark.parametrize("failpoint", PUBLISH + STORE)
def test_a_publish_that_fails_for_space_at_any_stage_loses_nothing(failpoint, place):
    ran = place.publish(8, failpoints=f"{failpoint}:errno={errno.ENOSPC}", expect=(OK, FAILED))
    if failpoint != "store.cas_renamed":  # then the head has moved, and a look at it says so
        assert "No space left" in ran.err
    place.check_next()
    board_files.walk(place.board, "r")


def test_a_publish_that_fails_at_two_stages_one_after_the_other_loses_nothing(place):
    place.publish(8, failpoints="publish.patch_stored:error", expect=FAILED)
    place.publish(8, failpoints="publish.manifest_stored:error", expect=FAILED)
    place.check_next()


FREE = [0, *(4096 << n for n in range(7))]  # bytes


@pytest.mark.parametrize("what", ["board", "state"])
def test_a_disk_with_too_little_space_loses_nothing(what, run, tmp_path, disk):  # noqa: F811
    disk.resize(16 * MIB)
    published = set()
    for free in FREE:
        shutil.rmtree(disk.path / "p", ignore_errors=True)
        shutil.rmtree(tmp_path / "q", ignore_errors=True)
        for name in ("b", "s", "island"):
            full = name == {"board": "b", "state": "s"}[what]
            shutil.copytree(run.places / "board at 7" / name, (disk.path / "p" if full else tmp_path / "q") / name)
        board, state = (disk.path / "p" / "b", tmp_path / "q" / "s")
        if what == "state":
            board, state = tmp_path / "q" / "b", disk.path / "p" / "s"
        place = Place(run, board, state, tmp_path / "q" / "island")
        disk.fill(but=free)
        ran = place.publish(8, expect=(OK, FAILED))
        published.add("with a warning" if ran.code == OK and ran.err else ran.code)
        disk.drop_ballast()
        place.check_next()
        board_files.walk(board, "r")
    assert {OK, FAILED} <= published, "the sizes are not those at which it fails and succeeds"


def test_a_head_that_another_publisher_moved_loses_nothing(place, tmp_path):
    assert place.publish(8, state=tmp_path / "other").json["version"] == 8
    assert "version 8" in place.publish(9, expect=CONFLICT).err  # lost the swap to it; from then on it knows
    assert "took over" in place.publish(9, expect=CONFLICT).err
    assert place.version() == 8
    assert place.publish(9, "--take-over").json["version"] == 9
    assert place.publish(10).json["version"] == 10
    assert "version 10" in place.publish(9, state=tmp_path / "other", expect=CONFLICT).err
    assert "took over" in place.publish(9, state=tmp_path / "other", expect=CONFLICT).err
    for where in ("fresh", place.island.name):
        for version in (8, 9, 10):
            place.pull(where, version)
    board_files.walk(place.board, "r")


STORMS = {
    "everything": ("*", "*"),
    "patches": ("PUT", "*/delta-*"),
    "skips": ("PUT", "*/skip-*"),
    "digests": ("PUT", "*/digests-*"),
    "aliases": ("PUT", "*/manifest.json"),
    "manifests": ("PUT", "*/manifest-*"),
    "head": ("PUT", "*/head"),
    "anchors": ("PUT", "*/anchors/*"),
}


def publish_in_a_storm(storm, run, directory):
    with FakeS3() as server:
        env = environment_of()
        place = Place(run, url_of(server.endpoint, "b"), directory / "s", directory / "island", env)
        skerry("init", place.board, "--run", "r", "--base", run.ckpt[0], env=env)
        for version in range(1, 8):
            place.publish(version)
        place.pull("island", 7)
        method, key = STORMS[storm]
        server.fault(method, key, status=503, headers={"Retry-After": "0"})
        ran = place.publish(8, expect=OK if storm == "anchors" else UNAVAILABLE)
        assert "503" in ran.err
        server.clear_faults()
        place.check_next()


def test_a_server_that_answers_503_to_one_kind_of_request_loses_nothing(tmp_path):
    """Each kind on a server of its own, all at once: a publish takes seconds until it gives up."""
    run = LongRun(tmp_path / "run", seed=1, boards=False)
    with ThreadPoolExecutor(len(STORMS)) as pool:
        for done in [pool.submit(publish_in_a_storm, storm, run, tmp_path / storm) for storm in STORMS]:
            done.result()
