"""Field cases of boards: files that come late, are damaged or somebody else's; what a board may be and hold."""

import json
import os
import shutil
import threading

import pytest

import board_files
import small_model
from checkpoint_files import assert_same_files, flip_bit
from program import CONFLICT, CORRUPT, FAILED, OK, UNAVAILABLE, USAGE, finish, skerry, start
from small_model import SHARD1, SHARD2

# Boards whose files are late, damaged, or somebody else's.


def test_D5_files_that_are_announced_but_not_visible_yet_are_waited_for(board, ckpt, publish, pull, tmp_path):
    """A cache shows the new head before the version's files; they come one by one while the reader waits."""
    pull()
    publish(ckpt[1])
    folder, away = board_files.version_dir(board, "r", 1), tmp_path / "away"
    shutil.move(folder, away)
    ran = pull("island", "--wait", 0, expect=UNAVAILABLE)
    assert "version 1" in ran.err
    assert_same_files(tmp_path / "island", ckpt[0])

    process = start("pull", board, "--run", "r", "-o", tmp_path / "island", "--wait", 120, "--json")

    def bring_back():
        folder.mkdir()
        for name in sorted(os.listdir(away), key=lambda name: name.startswith("delta")):
            os.link(away / name, folder / name)

    threading.Timer(0.3, bring_back).start()
    ran = finish(process)
    assert ran.code == OK, ran.err
    assert ran.json["version"] == 1
    assert_same_files(tmp_path / "island", ckpt[1])


@pytest.mark.parametrize("missing", ["delta-*", "manifest-*"])
def test_D5_a_version_whose_files_never_come_is_unavailable_and_the_old_one_stays(
    missing, board, ckpt, publish, pull, tmp_path
):
    pull()
    publish(ckpt[1])
    (hidden,) = board_files.version_dir(board, "r", 1).glob(missing)
    hidden.rename(tmp_path / "hidden")
    ran = pull("island", "--wait", 0, expect=UNAVAILABLE)
    assert hidden.name in ran.err
    assert_same_files(tmp_path / "island", ckpt[0])
    skerry("verify", tmp_path / "island")
    (tmp_path / "hidden").rename(hidden)
    pull()
    assert_same_files(tmp_path / "island", ckpt[1])


@pytest.mark.parametrize("target", ["delta-*", "manifest-*"])
def test_a_changed_byte_on_the_board_is_corrupt_data_and_the_old_version_stays(
    target, board, ckpt, publish, pull, tmp_path
):
    pull()
    publish(ckpt[1])
    (path,) = board_files.version_dir(board, "r", 1).glob(target)
    flip_bit(path, path.stat().st_size // 2)
    ran = pull(expect=CORRUPT)
    assert path.name in ran.err
    assert_same_files(tmp_path / "island", ckpt[0])
    flip_bit(path, path.stat().st_size // 2)
    pull()
    assert_same_files(tmp_path / "island", ckpt[1])


def test_an_object_with_the_right_name_and_size_and_other_bytes_is_never_applied(board, ckpt, publish, pull, tmp_path):
    publish(ckpt[1])
    anchor = board / "runs" / "r" / "anchors"
    (shard,) = anchor.rglob(SHARD2)
    flip_bit(shard, shard.stat().st_size - 1)
    ran = pull(expect=CORRUPT)
    assert "SHA-256" in ran.err and SHARD2 in ran.err
    assert not (tmp_path / "island").exists()


def test_D8_runs_on_one_board_do_not_touch_each_other(board, ckpt, publish, pull, tmp_path):
    other = small_model.write(tmp_path / "x0", 20)
    skerry("init", board, "--run", "other", "--base", other)
    for n in (1, 2, 3):
        publish(ckpt[n])
    publish(small_model.write(tmp_path / "x1", 21), run="other", state="s2")
    pull("a")
    pull("c", run="other")
    assert_same_files(tmp_path / "a", ckpt[3])
    assert_same_files(tmp_path / "c", tmp_path / "x1")
    assert [m["version"] for m in board_files.walk(board, "r")] == [3, 2, 1, 0]
    assert [m["version"] for m in board_files.walk(board, "other")] == [1, 0]
    ran = pull("a", run="other", expect=FAILED)
    assert "r version 3" in ran.err and "other" in ran.err
    assert_same_files(tmp_path / "a", ckpt[3])


def test_D8_a_head_that_strayed_from_another_run_is_refused(board, ckpt, publish, pull, tmp_path):
    skerry("init", board, "--run", "other", "--base", small_model.write(tmp_path / "x0", 20))
    pull()
    head = board_files.head_path(board, "r")
    kept = head.read_bytes()
    shutil.copy(board_files.head_path(board, "other"), head)
    ran = pull(expect=FAILED)
    assert "run other" in ran.err and "of r" in ran.err
    publish(ckpt[1], expect=FAILED)
    assert_same_files(tmp_path / "island", ckpt[0])
    head.write_bytes(kept)
    publish(ckpt[1])


def test_one_state_directory_used_for_two_runs_is_only_a_cache(board, ckpt, publish, pull, tmp_path):
    other = small_model.write(tmp_path / "x0", 20)
    skerry("init", board, "--run", "other", "--base", other)
    publish(ckpt[1])
    publish(small_model.write(tmp_path / "x1", 21), run="other")
    publish(ckpt[2])
    pull("a")
    pull("c", run="other")
    assert_same_files(tmp_path / "a", ckpt[2])
    assert_same_files(tmp_path / "c", tmp_path / "x1")


GARBLED = {
    "empty": b"",
    "NUL": bytes(600),
    "no JSON": b"\x1f\x8b\x08garbage",
    "an empty object": b"{}",
    "cut": None,
    "with NULs behind it": None,
    "version 0 without the rest": b'{"format":1,"run":"r","version":0}',
    "version -1": None,
}


@pytest.mark.parametrize("how", GARBLED)
def test_a_garbled_head_is_corrupt_data_and_never_version_0(how, board, ckpt, publish, pull, tmp_path):
    publish(ckpt[1])
    pull()
    head = board_files.head_path(board, "r")
    good = head.read_bytes()
    garbled = {
        "cut": good[: len(good) // 2],
        "with NULs behind it": good + bytes(512),
        "version -1": json.dumps(json.loads(good) | {"version": -1}).encode(),
    }.get(how, GARBLED[how])
    head.write_bytes(garbled)
    for command in (
        ["head", board, "--run", "r"],
        ["log", board, "--run", "r"],
        ["status", board],
        ["publish", board, ckpt[2], "--run", "r", "--state", tmp_path / "s"],
        ["init", board, "--run", "r", "--base", ckpt[0]],
        ["pull", board, "--run", "r", "-o", tmp_path / "island"],
        ["pull", board, "--run", "r", "-o", tmp_path / "fresh"],
    ):
        ran = skerry(*command, expect=CORRUPT)
        assert "head" in ran.err, (command, ran.err)
    assert head.read_bytes() == garbled
    assert not (tmp_path / "fresh").exists()
    assert_same_files(tmp_path / "island", ckpt[1])
    head.write_bytes(good)
    assert publish(ckpt[2]).json["version"] == 2


def test_an_older_head_that_comes_back_is_not_followed_silently_by_the_publisher(board, ckpt, publish, pull, tmp_path):
    """A restored backup: the head says 1, but version 2 is on the board with other bytes than what comes next."""
    publish(ckpt[1])
    kept = board_files.head_path(board, "r").read_bytes()
    publish(ckpt[2])
    before = board_files.immutable_objects(board)
    board_files.head_path(board, "r").write_bytes(kept)
    skerry("publish", board, ckpt[3], "--run", "r", "--state", tmp_path / "s", expect=(OK, CONFLICT))
    board_files.assert_nothing_lost(before, board)
    version = board_files.walk(board, "r")[0]["version"]
    pull("fresh")
    assert_same_files(tmp_path / "fresh", {1: ckpt[1], 2: ckpt[3]}[version])


def test_a_directory_without_board_json_is_no_board(tmp_path, ckpt):
    (tmp_path / "empty").mkdir()
    for command in (["status", tmp_path / "empty"], ["publish", tmp_path / "empty", ckpt[0], "--run", "r"]):
        ran = skerry(*command, expect=FAILED)
        assert "board.json" in ran.err and "skerry init" in ran.err
    assert "no such directory" in skerry("status", tmp_path / "nowhere", expect=FAILED).err
    assert not (tmp_path / "nowhere").exists()


def test_a_board_json_that_is_garbled_is_corrupt_data(board, ckpt):
    (board / "board.json").write_bytes(bytes(40))
    for command in (["status", board], ["init", board, "--run", "x", "--base", ckpt[0]]):
        assert "board.json" in skerry(*command, expect=CORRUPT).err


def test_an_unknown_run_is_answered_with_the_runs_that_exist(board, ckpt, pull, tmp_path):
    skerry("init", board, "--run", "second", "--base", ckpt[0])
    for command in (
        ["head", board, "--run", "thrid"],
        ["log", board, "--run", "thrid"],
        ["pull", board, "--run", "thrid", "-o", tmp_path / "x"],
        ["publish", board, ckpt[1], "--run", "thrid", "--state", tmp_path / "s"],
    ):
        ran = skerry(*command, expect=FAILED, timeout=20)
        assert "no run thrid" in ran.err and "r, second" in ran.err


@pytest.mark.parametrize("url", ["ftp://x/y", "gs://bucket"])
def test_a_scheme_that_the_program_does_not_know_is_named(url, ckpt):
    ran = skerry("init", url, "--run", "r", "--base", ckpt[0], expect=FAILED)
    assert url in ran.err and "directories" in ran.err


def test_a_file_url_is_a_directory(board, ckpt, tmp_path):
    skerry("pull", f"file://{board}", "--run", "r", "-o", tmp_path / "x")
    assert_same_files(tmp_path / "x", ckpt[0])
    assert "absolute" in skerry("status", "file://relative/board", expect=FAILED).err


@pytest.mark.parametrize("run", ["", "a/b", "..", ".hidden", "a b", "é", "x" * 300, "a\n"])
def test_J2_a_run_id_that_can_not_be_a_folders_name_is_refused_before_anything_is_made(run, ckpt, tmp_path):
    skerry("init", tmp_path / "b", "--run", run, "--base", ckpt[0], expect=(FAILED, USAGE))
    assert not (tmp_path / "b").exists()


# How the board holds a base, and what is not the program's to overwrite.


def test_a_base_by_hard_links_costs_no_copy(ckpt, tmp_path):
    base = tmp_path / "base"
    shutil.copytree(ckpt[0], base)
    skerry("init", tmp_path / "b", "--run", "r", "--base", base, "--hold", "link")
    inodes = {path.stat().st_ino for path in (tmp_path / "b").rglob("*") if path.is_file()}
    assert {path.stat().st_ino for path in base.glob("*.safetensors")} <= inodes
    skerry("pull", tmp_path / "b", "--run", "r", "-o", tmp_path / "island")
    assert_same_files(tmp_path / "island", ckpt[0])


def test_publishing_never_writes_through_a_linked_base(ckpt, tmp_path):
    base = tmp_path / "base"
    shutil.copytree(ckpt[0], base)
    skerry("init", tmp_path / "b", "--run", "r", "--base", base, "--hold", "link")
    for n in (1, 2, 3):
        skerry("publish", tmp_path / "b", ckpt[n], "--run", "r", "--state", tmp_path / "s")
    skerry("pull", tmp_path / "b", "--run", "r", "-o", tmp_path / "island", "--version", 0)
    skerry("pull", tmp_path / "b", "--run", "r", "-o", tmp_path / "island")
    assert_same_files(base, ckpt[0])
    board_files.walk(tmp_path / "b", "r")


def test_a_base_by_reference_is_read_from_where_it_is_and_refused_when_it_changed(ckpt, tmp_path):
    base = tmp_path / "base"
    shutil.copytree(ckpt[0], base)
    skerry("init", tmp_path / "b", "--run", "r", "--base", base, "--hold", "reference")
    assert not list((tmp_path / "b").rglob("*.safetensors"))
    skerry("publish", tmp_path / "b", ckpt[1], "--run", "r", "--state", tmp_path / "s")
    skerry("pull", tmp_path / "b", "--run", "r", "-o", tmp_path / "island")
    assert_same_files(tmp_path / "island", ckpt[1])
    flip_bit(base / SHARD1, (base / SHARD1).stat().st_size - 1)
    ran = skerry("pull", tmp_path / "b", "--run", "r", "-o", tmp_path / "another", expect=CORRUPT)
    assert str(base / SHARD1) in ran.err
    shutil.rmtree(base)
    ran = skerry("pull", tmp_path / "b", "--run", "r", "-o", tmp_path / "another", "--wait", 0, expect=UNAVAILABLE)
    assert str(base) in ran.err


def test_init_again_with_the_same_base_is_a_no_op_and_with_another_a_conflict(board, ckpt):
    before = board_files.immutable_objects(board)
    assert skerry("init", board, "--run", "r", "--base", ckpt[0], "--json").json["created"] is False
    assert "exists with base" in skerry("init", board, "--run", "r", "--base", ckpt[1], expect=CONFLICT).err
    assert board_files.immutable_objects(board) == before


def test_a_directory_that_is_not_an_island_is_never_overwritten(ckpt, pull, tmp_path):
    shutil.copytree(ckpt[3], tmp_path / "precious")
    ran = pull("precious", expect=CONFLICT)
    assert "precious" in ran.err
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("x")
    pull("notes", expect=CONFLICT)
    (tmp_path / "file").write_text("x")
    pull("file", expect=(FAILED, CONFLICT))
    assert_same_files(tmp_path / "precious", ckpt[3])
    assert (tmp_path / "notes" / "a.txt").read_text() == (tmp_path / "file").read_text() == "x"


def test_apply_never_replaces_an_existing_directory(ckpt, tmp_path):
    skerry("diff", ckpt[0], ckpt[1], "-o", tmp_path / "p")
    shutil.copytree(ckpt[3], tmp_path / "there")
    assert "exists" in skerry("apply", ckpt[0], tmp_path / "p", "-o", tmp_path / "there", expect=CONFLICT).err
    assert_same_files(tmp_path / "there", ckpt[3])


def test_names_with_blanks_and_a_trailing_slash_are_ordinary(ckpt, tmp_path):
    board, island = tmp_path / "my board", tmp_path / "my island"
    skerry("init", f"{board}/", "--run", "r", "--base", f"{ckpt[0]}/")
    skerry("publish", f"{board}/", f"{ckpt[1]}/", "--run", "r", "--state", tmp_path / "the state")
    skerry("pull", f"{board}/", "--run", "r", "-o", f"{island}/")
    assert_same_files(island, ckpt[1])
    assert {path.name for path in tmp_path.iterdir()} <= {"my board", "my island", ".my island.lock", "the state"}


def test_relative_paths_are_taken_from_the_current_directory(ckpt, tmp_path):
    skerry("init", "b", "--run", "r", "--base", os.path.relpath(ckpt[0], tmp_path), cwd=tmp_path)
    skerry("pull", "b", "--run", "r", "-o", "island", cwd=tmp_path)
    skerry("diff", "island", os.path.relpath(ckpt[1], tmp_path), "-o", "p", cwd=tmp_path)
    skerry("apply", "island", "p", "-o", "new", cwd=tmp_path)
    assert_same_files(tmp_path / "new", ckpt[1])


def test_the_default_state_of_a_publisher_is_in_the_cache_folder_by_board_and_run(board, ckpt, tmp_path):
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    skerry("publish", board, ckpt[1], "--run", "r", env=cache)
    skerry("publish", board, ckpt[2], "--run", "r", env=cache)
    board_id = json.loads((board / "board.json").read_text())["id"]
    assert (tmp_path / "cache" / "skerry" / "publishers" / board_id / "r" / "snapshot").is_dir()
    assert board_files.head_of(board, "r")["epoch"] == 2
