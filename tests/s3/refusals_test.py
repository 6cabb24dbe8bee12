"""Wrong addresses and credentials: the error says which of them is wrong and what to do, and names no secret. Servers
that are slow, overloaded or lose connections: waited for, within bounds."""

from datetime import timedelta

import pytest

from checkpoint_files import assert_same_files
from program import FAILED, UNAVAILABLE
from s3_board import S3Board
from servers import SECRET, environment_of, free_ports, url_of

MAX_TRIES = 12  # of one request, whatever the server says


@pytest.fixture
def other(board):
    """The same board for another user, region or bucket."""

    def make(bucket="skerry", endpoint=None, **credentials):
        made = S3Board(board.server, board.checkpoints, board.directory, env=environment_of(**credentials))
        made.url = url_of(endpoint or board.server.endpoint, board.prefix, bucket)
        return made

    return make


def refused(board, *words, command="pull", expect=FAILED):
    """All of the words are in the one line that is said."""
    ran = board.pull(expect=expect) if command == "pull" else board.publish(1, expect=expect)
    lines = ran.err.strip().splitlines()
    assert len(lines) == 1, ran.err
    for word in words:
        assert word.lower() in ran.err.lower(), (word, ran.err)
    assert SECRET not in ran.err + ran.out
    return ran.err


def test_a_wrong_bucket_is_named(other, fake):
    refused(other(bucket="none-such"), "none-such", "bucket")
    assert len(fake.requests()) <= 2, "it is not tried again"


def test_a_wrong_access_key_is_named(other, fake):
    refused(other(key="nobody"), "InvalidAccessKeyId", "does not know the access key", "nobo")
    assert len(fake.requests()) <= 2


def test_a_wrong_secret_key_is_told_and_not_shown(other):
    said = refused(other(secret="not-the-secret"), "SignatureDoesNotMatch", "secret key does not belong")
    assert "not-the-secret" not in said


def test_a_clock_that_is_wrong_is_told(other, fake):
    fake.clock_ahead = timedelta(hours=2)
    refused(other(), "RequestTimeTooSkewed", "clock")


def test_a_wrong_region_is_told_with_the_right_one(other, fake):
    fake.region = "eu-central-1"
    refused(other(), "us-east-1", "eu-central-1", "region")


def test_a_token_that_expired_is_told(other, fake):
    fake.fault("*", "*", status=400, code="ExpiredToken")
    refused(other(token="old-token"), "ExpiredToken", "get new temporary keys")
    assert len(fake.requests()) <= 4, "it is not tried again for long"


def test_credentials_that_may_only_read_can_pull_and_are_told_when_they_publish(other, fake, board, tmp_path):
    fake.keys["reader"] = ("readersecret", None)
    fake.read_only.add("reader")
    reader = other(key="reader", secret="readersecret")
    refused(reader, "AccessDenied", "PUT", "grant", command="publish")
    assert board.version == 0
    reader.pull()
    assert_same_files(tmp_path / "island", board.checkpoints[0])


def test_no_server_is_told_with_its_address(other):
    (port,) = free_ports(1)
    refused(other(endpoint=f"http://127.0.0.1:{port}"), f"127.0.0.1:{port}", expect=UNAVAILABLE)


def test_seaweedfs_refuses_a_wrong_key_secret_and_bucket(seaweedfs, ckpt, tmp_path):
    board = S3Board(seaweedfs, ckpt, tmp_path, prefix="refusals")
    board.init()
    for bucket, credentials, word in (
        ("skerry", {"key": "nobody"}, "InvalidAccessKeyId"),
        ("skerry", {"secret": "wrong"}, "SignatureDoesNotMatch"),
        ("none-such", {}, "none-such"),
    ):
        wrong = S3Board(seaweedfs, ckpt, tmp_path, env=environment_of(**credentials))
        wrong.url = url_of(seaweedfs.endpoint, "refusals", bucket)
        refused(wrong, word)


# Servers that can't, for a while.


@pytest.mark.parametrize("status", [500, 503])
def test_a_server_that_is_overloaded_for_a_moment_is_tried_again(board, fake, tmp_path, status):
    for method in ("GET", "PUT"):
        fake.fault(method, "*", times=3, status=status, headers={"Retry-After": "0"})
    board.publish(1)
    fake.fault("GET", "*.skerry", times=2, status=status)
    board.pull()
    assert_same_files(tmp_path / "island", board.checkpoints[1])


def test_a_swap_that_was_undecided_is_tried_again(board, fake):
    fake.fault("PUT", board.head_key, times=1, status=409)
    board.publish(1)
    assert board.version == 1


def test_a_server_that_stays_overloaded_is_given_up(board, fake, tmp_path):
    fake.fault("*", "*", status=503, headers={"Retry-After": "0"})
    refused(board, "503", expect=UNAVAILABLE)
    assert 2 <= len(fake.requests()) <= MAX_TRIES
    fake.clear_faults()
    board.publish(1)


@pytest.mark.parametrize("fault", [{"truncate": 10}, {"after_write": "reset"}, {"before_write": "reset"}])
def test_a_connection_that_ends_early_is_tried_again(board, fake, tmp_path, fault):
    for key in ("*/head", "*manifest*", "*.skerry", "*.safetensors"):
        fake.fault("GET", key, times=2, **fault)
        fake.fault("PUT", key, times=1, **({} if "truncate" in fault else fault))
    board.publish(1)
    board.pull()
    assert_same_files(tmp_path / "island", board.checkpoints[1])


def test_a_body_that_is_damaged_is_never_applied(board, fake, tmp_path):
    board.publish(1)
    (delta,) = [key for key in fake.objects.keys() if "delta-" in key]
    right = fake.body(delta)
    board.pull("island", "--version", "0")
    fake.put(delta, right[:50] + bytes([right[50] ^ 1]) + right[51:])
    assert "delta-" in board.pull(expect=4).err
    assert_same_files(tmp_path / "island", board.checkpoints[0])
    fake.put(delta, right)
    board.pull()
    assert_same_files(tmp_path / "island", board.checkpoints[1])
