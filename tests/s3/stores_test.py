"""Stores as they are: the suite that every store passes, what a probe finds, and who may publish then."""

import os
import subprocess
import threading

import pytest

from checkpoint_files import assert_same_files
from fake_s3 import FakeS3
from link import Link
from program import BINARY, CONFLICT, FAILED, OK, finish, skerry, start
from s3_board import S3Board
from servers import environment_of, url_of

CONFORMANCE = BINARY.parents[2] / "tests" / "conformance" / "store_conformance"


def conformance(url, env, race, deviations="", timeout=300):
    """Runs the suite of src/skerry/board/store_conformance.h on the store."""
    store = {"SKERRY_TEST_STORE": url, "SKERRY_TEST_RACE": race, "SKERRY_TEST_DEVIATIONS": deviations}
    done = subprocess.run(
        [CONFORMANCE, "--gtest_brief=1"],
        env=os.environ | env | store,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "PASSED" in done.stdout


# The conformance suite.


def test_seaweedfs_conforms(seaweedfs):
    conformance(seaweedfs.fresh_url(), seaweedfs.environment, "4x20")


def test_moto_conforms(moto):
    conformance(moto.fresh_url(), moto.environment, "4x20", deviations="upload-times")


@pytest.mark.parametrize("mode", ["full", "bare"])
def test_the_fake_conforms(mode):
    with FakeS3(mode) as server:
        conformance(url_of(server.endpoint, "t"), environment_of(), "16x20")


@pytest.mark.slow
def test_radosgw_conforms_with_100_rounds_of_32_writers(rados):
    conformance(rados.fresh_url(), rados.environment, "32x100", timeout=500)


@pytest.mark.slow
def test_seaweedfs_conforms_with_20_rounds_of_32_writers(seaweedfs):
    conformance(seaweedfs.fresh_url(), seaweedfs.environment, "32x20", timeout=500)


# Probes.


def probe(url, env, *more, writers=8, rounds=3, expect=OK):
    ran = skerry("probe", url, "--writers", writers, "--rounds", rounds, "--json", *more, env=env, expect=expect)
    return ran.json, ran.err


def assert_full(report, writers, rounds):
    assert (report["verdict"], report["reason"], report["leftover"]) == ("full", "", "")
    assert all(check["right"] for check in report["checks"])
    assert {race["name"] for race in report["races"]} == {"create", "swap"}
    for race in report["races"]:
        assert (race["rounds"], race["one_winner"], race["most_winners"]) == (rounds, rounds, 1), race
    assert report["writers"] == writers


def test_a_directory_is_full(tmp_path):
    report, _ = probe(tmp_path, {}, writers=32, rounds=5)
    assert_full(report, 32, 5)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_seaweedfs_is_full(seaweedfs):
    report, _ = probe(seaweedfs.fresh_url(), seaweedfs.environment, writers=4, rounds=3)
    assert_full(report, 4, 3)


def test_moto_is_full(moto):
    report, _ = probe(moto.fresh_url(), moto.environment)
    assert_full(report, 8, 3)


def test_rclone_keeps_to_no_condition(rclone):
    report, said = probe(rclone.fresh_url(), rclone.environment, expect=FAILED)
    assert (report["verdict"], report["races"]) == ("none", [])
    assert "create one that exists: ignored the condition" in report["reason"]
    assert "'none'" in said and "one publisher only" in said


def test_localbucket_can_only_create(localbucket):
    report, said = probe(localbucket.fresh_url(), localbucket.environment, expect=FAILED)
    assert report["verdict"] == "create-only" and report["can_swap"]
    assert "swap with a stale token: ignored the condition" in report["reason"]
    assert [race["most_winners"] for race in report["races"]] == [1]
    assert "'create-only'" in said and "one publisher only" in said


@pytest.mark.parametrize(
    "mode, verdict", [("full", "full"), ("bare", "full"), ("create-only", "create-only"), ("none", "none")]
)
def test_the_fake_is_what_its_mode_says_and_is_left_clean(mode, verdict):
    with FakeS3(mode) as server:
        report, _ = probe(url_of(server.endpoint, "p"), environment_of(), expect=OK if verdict == "full" else FAILED)
        assert report["verdict"] == verdict
        assert server.objects.keys() == []
        assert all(request.key.startswith("p/probe/") for request in server.requests("PUT"))


def test_the_report_tells_which_form_of_the_etag_the_server_takes():
    for mode, word in (("full", "as the server sends it"), ("bare", "without quotes")):
        with FakeS3(mode) as server:
            report, _ = probe(url_of(server.endpoint, "p"), environment_of())
            assert word in " ".join(report["tokens"]), report["tokens"]


@pytest.mark.slow
def test_radosgw_is_full(rados):
    report, _ = probe(rados.fresh_url(), rados.environment, writers=32, rounds=5)
    assert_full(report, 32, 5)


# Who may publish.


def second_publisher_is_refused(server, ckpt, tmp_path, verdict, env=None):
    board = S3Board(server, ckpt, tmp_path, prefix="refused", env=env or environment_of())
    made = board.init()
    assert made.json["writes"] == verdict
    assert f"'{verdict}'" in made.err and "one publisher only" in made.err
    board.publish(1, state="first")
    refused = board.publish(2, state="second", expect=CONFLICT)
    assert f"'{verdict}'" in refused.err and "owned by another publisher" in refused.err
    assert board.version == 1
    board.publish(2, state="first")
    board.pull()
    assert_same_files(tmp_path / "island", ckpt[2])


def test_a_second_publisher_is_refused_on_rclone(rclone, ckpt, tmp_path):
    second_publisher_is_refused(rclone, ckpt, tmp_path, "none")


def test_a_second_publisher_is_refused_on_localbucket(localbucket, ckpt, tmp_path):
    second_publisher_is_refused(localbucket, ckpt, tmp_path, "create-only")


@pytest.mark.parametrize("mode, verdict", [("two-winners", "unsafe"), ("create-only", "create-only"), ("none", "none")])
def test_a_second_publisher_is_refused_on_the_fake(mode, verdict, ckpt, tmp_path):
    with FakeS3(mode) as server:
        second_publisher_is_refused(server, ckpt, tmp_path, verdict)


def test_a_second_publisher_takes_over_on_seaweedfs(seaweedfs, ckpt, tmp_path):
    board = S3Board(seaweedfs, ckpt, tmp_path, prefix="taken-over")
    assert board.init().json["writes"] == "full"
    board.publish(1, state="first")
    board.publish(2, state="second")
    assert "owned by another publisher" not in board.publish(3, state="second").err
    assert board.version == 3
    board.pull()
    assert_same_files(tmp_path / "island", ckpt[3])


# Case E1.


@pytest.mark.parametrize("rounds", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_E1_racing_swaps_have_one_winner_through_one_and_two_endpoints(fake, rounds):
    with Link(fake.port) as other:
        for endpoints in ([], ["--endpoint", fake.endpoint, "--endpoint", other.endpoint]):
            report, _ = probe(url_of(fake.endpoint, "p"), environment_of(), *endpoints, writers=32, rounds=rounds)
            assert_full(report, 32, rounds)
        assert other.connections > 1


def test_E1_a_server_with_two_winners_is_unsafe(tmp_path):
    with FakeS3("two-winners") as server, Link(server.port) as other:
        for endpoints in ([], ["--endpoint", server.endpoint, "--endpoint", other.endpoint]):
            report, said = probe(url_of(server.endpoint, "p"), environment_of(), *endpoints, writers=32, expect=FAILED)
            assert report["verdict"] == "unsafe"
            assert all(check["right"] for check in report["checks"]), "one at a time all is well"
            assert max(race["most_winners"] for race in report["races"]) == 2
            assert "up to 2 of them won at once" in said


def test_E1_two_publishers_that_both_won_find_out_by_reading_back(ckpt, tmp_path):
    """Both claim a fresh run at once, and the server tells both that they won."""
    with FakeS3("two-winners") as server:
        board = S3Board(server, ckpt, tmp_path)
        assert board.init().json["writes"] == "unsafe"
        meet = threading.Barrier(2)
        server.fault("PUT", board.head_key, times=2, action=lambda *_: meet.wait(30), delay=0.3)
        publish = ["publish", board.url, ckpt[1], "--run", "r", "--state"]
        running = [start(*publish, tmp_path / state, env=board.env) for state in ("first", "second")]
        done = [finish(process) for process in running]
        assert sorted(ran.code for ran in done) == [OK, CONFLICT], [ran.err for ran in done]
        assert board.version == 1


# What publishing costs.


def test_a_small_patch_is_published_with_five_requests(fake, ckpt, tmp_path):
    """Patch, digests, the alias of the version before, manifest, head; what it wrote itself it need not read."""
    board = S3Board(fake, ckpt, tmp_path)
    board.init()
    board.publish(1)
    fake.forget_requests()
    board.publish(2)
    asked = [(request.method, request.key.rpartition("/")[2]) for request in fake.requests()]
    assert len(asked) <= 5, asked
    assert {method for method, _ in asked} == {"PUT"}
    assert asked[-1] == ("PUT", "head"), "what it names stands before the head moves"
