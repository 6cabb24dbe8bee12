"""Versions in parts, by one publisher and by several at once; a board that another has taken the place of."""

import shutil

import board_files
import small_model
from checkpoint_files import assert_same_files, files_of
from program import CONFLICT, FAILED, OK, UNAVAILABLE, USAGE, finish, skerry, start


def make_board(tmp_path, versions=3):
    ckpt = [small_model.write(tmp_path / f"v{n}", n) for n in range(versions + 1)]
    skerry("init", tmp_path / "b", "--run", "r", "--base", ckpt[0])
    return tmp_path / "b", ckpt


def parts_of_head(board):
    return board_files.walk(board, "r")[0]["edges"][0]["objects"]


def test_a_version_in_parts_comes_out_like_any_other(tmp_path):
    board, ckpt = make_board(tmp_path)
    for n in (1, 2, 3):
        receipt = skerry(
            "publish", board, ckpt[n], "--run", "r", "--state", tmp_path / "s", "--parts", 3, "--json"
        ).json
        assert receipt["parts"] == len(parts_of_head(board)) > 1
        skerry("pull", board, "--run", "r", "-o", tmp_path / "island")
        assert_same_files(tmp_path / "island", files_of(ckpt[n]))
    skerry("pull", board, "--run", "r", "-o", tmp_path / "late", "--version", 2)
    assert_same_files(tmp_path / "late", files_of(ckpt[2]))


def publish_as(writer, of, board, ckpt, tmp_path, attempt, wait=60):
    return start(
        "publish", board, ckpt, "--run", "r", "--state", tmp_path / f"writer-{writer}", "--writer", f"{writer}/{of}",
        "--attempt", attempt, "--wait", wait, "--json",
    )  # fmt: skip


def test_D10_processes_that_publish_together_make_one_version_and_get_the_same_result(tmp_path):
    board, ckpt = make_board(tmp_path)
    for n in (1, 2, 3):
        writers = [publish_as(k, 3, board, ckpt[n], tmp_path, f"job.{n}") for k in range(3)]
        receipts = [finish(writer) for writer in writers]
        assert [ran.code for ran in receipts] == [OK] * 3, [ran.err for ran in receipts]
        assert {(ran.json["version"], ran.json["model_digest"]) for ran in receipts} == {
            (n, receipts[0].json["model_digest"])
        }
        assert board_files.head_of(board, "r")["sequence"] == n + 1
        skerry("pull", board, "--run", "r", "-o", tmp_path / "island")
        assert_same_files(tmp_path / "island", files_of(ckpt[n]))


def test_a_writer_that_is_missing_is_named_and_the_next_attempt_goes_through(tmp_path):
    board, ckpt = make_board(tmp_path)
    ran = finish(publish_as(0, 2, board, ckpt[1], tmp_path, "job.1", wait=1))
    assert ran.code == UNAVAILABLE
    assert "part 1 of 2 of version 1" in ran.err
    assert board_files.head_of(board, "r")["version"] == 0
    writers = [publish_as(k, 2, board, ckpt[2], tmp_path, "job.2") for k in range(2)]
    assert [finish(writer).code for writer in writers] == [OK, OK]
    skerry("pull", board, "--run", "r", "-o", tmp_path / "island")
    assert_same_files(tmp_path / "island", files_of(ckpt[2]))


def test_a_writer_needs_a_place_and_an_attempt(tmp_path):
    board, ckpt = make_board(tmp_path, 1)
    publish = ["publish", board, ckpt[1], "--run", "r", "--state", tmp_path / "s"]
    assert "--attempt" in skerry(*publish, "--writer", "0/2", expect=USAGE).err
    for wrong in ("2/2", "0/0", "-1/2", "one/2", "1"):
        assert wrong in skerry(*publish, "--writer=" + wrong, "--attempt", "a", expect=USAGE).err


def test_an_island_follows_a_fork_of_its_run_without_a_new_anchor(tmp_path):
    board, ckpt = make_board(tmp_path)
    for n in (1, 2):
        skerry("publish", board, ckpt[n], "--run", "r", "--state", tmp_path / "s")
    skerry("pull", board, "--run", "r", "-o", tmp_path / "island", "--version", 1)
    skerry("fork", board, "--run", "f", "--from", "r", "--version", 1)
    skerry("publish", board, ckpt[3], "--run", "f", "--state", tmp_path / "sf")
    receipt = skerry("pull", board, "--run", "f", "-o", tmp_path / "island", "--json").json
    assert (receipt["version"], receipt["from"], receipt["patches"]) == (1, 1, 1)
    assert_same_files(tmp_path / "island", files_of(ckpt[3]))
    # Back to the run that was left: its version 2 did not come before the fork.
    assert "f version 1" in skerry("pull", board, "--run", "r", "-o", tmp_path / "island", expect=FAILED).err


def test_a_board_that_took_the_place_of_another_is_noticed(tmp_path):
    board, ckpt = make_board(tmp_path)
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    publish = ["publish", board, "--run", "r"]
    skerry(*publish, ckpt[1], env=env)
    skerry(*publish, ckpt[2], env=env)
    shutil.rmtree(board)
    skerry("init", board, "--run", "r", "--base", ckpt[1])
    ran = skerry(*publish, ckpt[3], env=env, expect=CONFLICT)
    assert "the head is at version 0" in ran.err
    skerry(*publish, ckpt[3], env=env)
    assert [m["version"] for m in board_files.walk(board, "r")] == [1, 0]
    skerry("pull", board, "--run", "r", "-o", tmp_path / "island")
    assert_same_files(tmp_path / "island", files_of(ckpt[3]))
