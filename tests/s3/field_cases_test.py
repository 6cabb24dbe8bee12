"""Failures of S3 boards that were reported in the field, one test for each; the names are the cases'. Those of races
(E1) are in stores_test.py."""

import json

import numpy as np
import pytest

from checkpoint_files import Tensor, assert_same_files, files_of, write_checkpoint
from fake_s3 import FakeS3
from program import CONFLICT, CORRUPT, FAILED, OK, UNAVAILABLE, skerry
from s3_board import RUN, S3Board
from servers import environment_of, url_of
from s3_objects import md5

MAX_TRIES = 12  # of one request, whatever the server says
MOST_OF_A_RANGE = 2 << 20  # bytes that one of 4 connections asks for at once


def swaps(request):
    return "if-match" in request.headers


def test_E3_a_condition_is_probed_where_the_board_is(fake):
    """Conditions work in the bucket, but not below the prefix at hand."""
    fake.fault("PUT", "versioned/*", ignore_condition=True)
    report = skerry("probe", url_of(fake.endpoint, "open"), "--writers", 4, "--json", env=environment_of()).json
    assert report["verdict"] == "full"
    report = skerry(
        *("probe", url_of(fake.endpoint, "versioned"), "--writers", 4, "--json"), env=environment_of(), expect=FAILED
    ).json
    assert report["verdict"] == "none"
    assert all(request.key.startswith(("open/probe/", "versioned/probe/")) for request in fake.requests("PUT"))


def test_E4_a_server_without_swaps_is_said_to_be_so_when_the_board_is_made(fake, ckpt, tmp_path):
    fake.fault("PUT", "*", when=swaps, status=501)
    board = S3Board(fake, ckpt, tmp_path)
    made = board.init()
    assert made.json["writes"] == "create-only" and "create-only" in made.err
    ran = board.probe(expect=FAILED)
    assert ran.json["can_swap"] is False and "501" in ran.json["reason"] + ran.err
    assert "can't publish after version 0" in ran.err


def test_E4_a_server_that_answers_501_is_not_asked_again_nor_written_without_a_condition(board, fake):
    before = board.head_bytes()
    fake.fault("PUT", board.head_key, when=swaps, status=501)
    ran = board.publish(1, expect=FAILED)
    assert "501" in ran.err or "NotImplemented" in ran.err
    writes = fake.requests("PUT", "head$")
    assert 1 <= len(writes) <= 2 and all(request.conditional for request in writes)
    assert board.head_bytes() == before


def test_E6_a_head_that_was_deleted_before_the_swap_is_a_lost_race(board, fake):
    fake.fault("PUT", board.head_key, times=1, action=lambda server, request: server.objects.delete(request.key))
    ran = board.publish(1, expect=CONFLICT)
    assert "deleted" in ran.err
    assert fake.body(board.head_key) is None, "no head was made up in its place"
    assert RUN in board.publish(1, expect=FAILED).err


@pytest.mark.parametrize("form", ['"{}"', "{}", 'W/"{}"'])
@pytest.mark.parametrize("tail", ["", "-2"])
def test_E7_etags_of_every_form_are_given_back_as_they_came(form, tail, ckpt, tmp_path):
    with FakeS3() as server:
        server.etag_form, server.etag_of = form, lambda body: md5(body[::-1]) + tail
        board = S3Board(server, ckpt, tmp_path)
        assert board.init().json["writes"] == "full"
        server.forget_requests()
        board.publish(1)
        board.publish(2)
        board.pull()
        assert_same_files(tmp_path / "island", ckpt[2])
        given = [request.headers["if-match"] for request in server.requests("PUT", "head$")]
        begin, end = form.split("{}")
        assert len(given) == 2
        assert all(etag.startswith(begin) and etag.endswith(tail + end) for etag in given), given


def test_E8_a_swap_whose_reply_was_lost_is_found_to_be_ones_own(board, fake):
    fake.fault("PUT", board.head_key, times=1, after_write="reset")
    assert board.publish(1).json["version"] == 1
    assert board.version == 1
    assert board.publish(2).json["version"] == 2


def test_E8_a_swap_that_another_writer_won_meanwhile_is_lost(board, fake):
    def other_wins(server, request):
        other = json.loads(request.body) | {"nonce": "another", "publisher": "somebody-else"}
        server.put(request.key, json.dumps(other, sort_keys=True, separators=(",", ":")).encode())

    fake.fault("PUT", board.head_key, times=1, action=other_wins, before_write="reset")
    assert "somebody-else" in board.publish(1, expect=CONFLICT).err
    assert board.head_bytes()["publisher"] == "somebody-else"


def test_E8_a_swap_whose_outcome_can_not_be_read_is_unknown_until_it_can(board, fake):
    def hide(server, request):
        server.fault("GET", board.head_key, status=403, code="AccessDenied")

    fake.fault("PUT", board.head_key, times=1, action=hide, after_write="reset")
    said = board.publish(1, expect=UNAVAILABLE).err
    assert "unknown whether the head moved" in said
    assert board.publish(1, expect=None).code not in (OK, CONFLICT), "nothing is published until it is known"
    fake.clear_faults()
    assert board.head_bytes()["version"] == 1
    again = board.publish(1).json
    assert (again["version"], again["published"]) == (1, False)
    assert board.publish(2).json["version"] == 2


def test_E9_uploads_carry_no_checksum_that_a_server_could_refuse(fake, tmp_path):
    """1 KiB and 20 MiB, on both sides of the threshold for uploads in parts."""
    fake.refuse_checksums = True
    for name, size in (("small", 1 << 10), ("big", 20 << 20)):
        base = write_base(tmp_path / name, size)
        board = S3Board(fake, [base], tmp_path, prefix=name)
        board.init()
        board.pull(f"island-{name}")
        assert_same_files(tmp_path / f"island-{name}", base)
    assert [request for request in fake.requests("POST", "^big/")], "the big one went up in parts"
    for request in fake.requests():
        assert "aws-chunked" not in request.headers.get("content-encoding", "")
        assert not [name for name in request.headers if name.startswith(("x-amz-checksum", "x-amz-trailer"))]


def write_base(directory, size):
    """A checkpoint of one file of about `size` bytes."""
    data = np.random.default_rng(3).integers(0, 1 << 16, size // 2, dtype=np.uint16).tobytes()
    return write_checkpoint(directory, {"w": Tensor("BF16", (size // 2,), data)})


def test_E10_an_object_that_is_replaced_between_two_ranges_is_never_mixed(fake, tmp_path):
    base = write_base(tmp_path / "base", 24 << 20)
    board = S3Board(fake, [base], tmp_path)
    board.init()
    (anchor,) = [key for key in fake.objects.keys(board.prefix) if key.endswith(".safetensors")]
    right = fake.body(anchor)
    fake.forget_requests()
    replace = lambda server, request: server.put(request.key, right[:100] + bytes(len(right) - 100))
    fake.fault("GET", anchor, skip=1, times=1, action=replace)
    ran = board.pull(expect=(CORRUPT, CONFLICT, UNAVAILABLE))
    assert anchor.rpartition("/")[2] in ran.err
    island = tmp_path / "island"
    assert not island.exists() or not files_of(island), "nothing was rebuilt from it"
    ranges = (24 << 20) // MOST_OF_A_RANGE
    assert len(fake.requests("GET", "safetensors$")) <= 5 * ranges, "each range is asked for a few times at most"
    fake.put(anchor, right)
    board.pull()
    assert_same_files(island, base)


def test_E12_ranges_are_of_bytes_and_never_of_upload_parts(fake, tmp_path):
    base = write_base(tmp_path / "base", 20 << 20)
    board = S3Board(fake, [base], tmp_path)
    board.init()
    board.pull()
    assert_same_files(tmp_path / "island", base)
    assert fake.requests("GET", "safetensors$")
    assert not [
        request for request in fake.requests() if request.method in ("GET", "HEAD") and request.has("partNumber")
    ]


def test_E13_listings_of_more_than_1000_names_are_read_to_the_end(board, fake):
    for n in range(1050):
        fake.put(board.key(f"runs/x{n:04}/head"), b"not read here")
    said = board.run("head", "--run", "none", expect=FAILED).err
    assert "x0000" in said and "x1049" in said
    lists = [request for request in fake.requests("GET", "^$")]
    assert len(lists) == 2 and "continuation-token" in lists[1].query


def test_E13_gc_sees_objects_beyond_the_first_1000(board, fake):
    board.publish(1)
    board.publish(2)
    stray = [board.key(f"runs/{RUN}/versions/000000001/delta-000-{n:016x}.skerry") for n in range(1050)]
    for key in stray:
        fake.put(key, b"nobody names this")
    (report,) = board.run("gc", "--dry-run", "--json").json["runs"]
    found = {board.key(key["key"]) for key in report["keys"]}
    assert found == set(stray)


def test_E13_publishing_and_pulling_list_nothing(board, fake):
    board.publish(1)
    board.publish(2)
    board.pull()
    assert fake.requests() and not fake.requests("GET", "^$")


def copy_objects(fake, replica, leave_out=()):
    for key in fake.objects.keys():
        if not any(part in key for part in leave_out):
            replica.put(key, fake.body(key))


@pytest.fixture
def replica(board, fake, ckpt, tmp_path):
    """A second bucket with the first one's run at version 1, and an island that follows it."""
    board.publish(1)
    with FakeS3() as second:
        made = S3Board(second, ckpt, tmp_path)
        copy_objects(fake, second)
        made.pull("island")
        yield made


def publish_all_but(late, board, fake, replica):
    """Version 2, of which the replica has the head but not yet what is named by `late`."""
    board.publish(2)
    copy_objects(fake, replica.server, leave_out=[f"versions/000000002/{late}"])
    assert replica.version == 2


@pytest.mark.parametrize("late", ["manifest-", "delta-"])
def test_E15_an_island_keeps_its_version_while_a_replica_lacks_what_its_head_names(
    board, fake, replica, ckpt, tmp_path, late
):
    publish_all_but(late, board, fake, replica)
    assert late in replica.pull("island", "--wait", 0, expect=UNAVAILABLE).err
    assert_same_files(tmp_path / "island", ckpt[1])
    copy_objects(fake, replica.server)
    replica.pull("island", "--wait", 0)
    assert_same_files(tmp_path / "island", ckpt[2])


def test_E15_what_a_replica_lacks_is_waited_for(board, fake, replica, ckpt, tmp_path):
    publish_all_but("delta-", board, fake, replica)
    arrives = lambda server, request: copy_objects(fake, server)
    replica.server.fault("GET", "*/delta-*", skip=1, times=1, action=arrives)
    replica.pull("island", "--wait", 30)
    assert_same_files(tmp_path / "island", ckpt[2])


def test_E15_an_older_head_does_not_move_a_reader_back(board, fake, ckpt, tmp_path):
    board.publish(1)
    older = fake.body(board.head_key)
    board.publish(2)
    board.pull()
    fake.put(board.head_key, older)
    said = board.pull("island", "--wait", 0, expect=UNAVAILABLE).err
    assert "shows run r at version 1" in said and "is at 2 already" in said
    assert_same_files(tmp_path / "island", ckpt[2])


def test_E16_a_conflict_at_the_end_of_an_upload_starts_a_new_one(fake, tmp_path):
    base = write_base(tmp_path / "base", 20 << 20)
    completes = lambda request: request.has("uploadId")
    fake.fault("POST", "*", when=completes, times=1, status=409)
    board = S3Board(fake, [base], tmp_path)
    board.init()
    begun = [request for request in fake.requests("POST") if request.has("uploads")]
    assert len(begun) == 2, "not only the completion is tried again"
    assert fake.objects.uploads() == [], "the abandoned upload was given up"
    board.pull()
    assert_same_files(tmp_path / "island", base)


def test_E16_a_conflict_that_does_not_end_is_an_error_and_leaves_no_upload(fake, tmp_path):
    base = write_base(tmp_path / "base", 20 << 20)
    fake.fault("POST", "*", when=lambda request: request.has("uploadId"), status=409)
    board = S3Board(fake, [base], tmp_path)
    board.init(expect=(CONFLICT, UNAVAILABLE))
    assert len([request for request in fake.requests("POST") if request.has("uploadId")]) <= MAX_TRIES
    assert fake.objects.uploads() == []
