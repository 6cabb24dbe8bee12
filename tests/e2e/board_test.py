"""Field cases of boards, publishers and readers, through the program."""

import json
import os
import shutil
import threading

import numpy as np
import pytest

import board_files
import small_model
from checkpoint_files import (
    Tensor,
    assert_same_files,
    bf16,
    files_of,
    flip_bit,
    tensor_bytes,
    write_checkpoint,
    write_safetensors,
)
from program import CONFLICT, CORRUPT, FAILED, OK, UNAVAILABLE, USAGE, finish, skerry, start

SHARD1, SHARD2 = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


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


# What a version is.


def test_F3_the_base_is_version_0_and_the_first_publish_is_version_1(board, ckpt, publish, pull, tmp_path):
    assert board_files.head_of(board, "r")["version"] == 0
    assert pull().json["version"] == 0
    assert_same_files(tmp_path / "island", ckpt[0])
    assert publish(ckpt[1]).json["version"] == 1


def test_F14_the_trainers_step_is_metadata_and_the_version_counts_publishes(board, ckpt, publish):
    for n, step in ((1, 5), (2, 10), (3, 15)):
        receipt = publish(ckpt[n], "--step", step).json
        assert (receipt["version"], receipt["step"]) == (n, step)
    log = skerry("log", board, "--run", "r", "--json").json["versions"]
    assert [(entry["version"], entry["step"]) for entry in log] == [(3, 15), (2, 10), (1, 5), (0, None)]
    assert [entry["version"] for entry in skerry("log", board, "--run", "r", "-n", 2, "--json").json["versions"]] == [3, 2]


def test_A18a_identical_bytes_are_no_version_unless_one_is_asked_for(board, ckpt, publish, pull, tmp_path):
    publish(ckpt[1])
    pull()
    again = publish(ckpt[1]).json
    assert (again["published"], again["version"], again["changed"]) == (False, 1, 0)
    assert board_files.head_of(board, "r")["version"] == 1
    forced = publish(ckpt[1], "--allow-empty").json
    assert (forced["published"], forced["version"], forced["changed"]) == (True, 2, 0)
    receipt = pull().json
    assert (receipt["version"], receipt["changed"]) == (2, 0)
    assert_same_files(tmp_path / "island", ckpt[1])
    skerry("verify", tmp_path / "island")


def test_A18b_a_delta_that_names_no_tensors_is_applied_and_never_taken_for_empty(board, ckpt, publish, pull, tmp_path):
    """Patches on a board have no names section: their positions are all there is."""
    publish(ckpt[1])
    (patch,) = board_files.version_dir(board, "r", 1).glob("delta-*.skerry")
    shown = skerry("show", patch, "--json").json
    assert shown["tensors_named"] == 0 and shown["changed"] > 0
    pull("island", "--version", 0)
    assert pull().json["changed"] == shown["changed"]
    assert_same_files(tmp_path / "island", ckpt[1])


def test_a_version_that_only_changes_a_side_file_is_a_version(board, ckpt, publish, pull, tmp_path):
    edited = tmp_path / "edited"
    shutil.copytree(ckpt[0], edited)
    (edited / "tokenizer.json").write_text('{"vocab": ["a", "b", "c"]}')
    receipt = publish(edited).json
    assert (receipt["published"], receipt["version"], receipt["changed"]) == (True, 1, 0)
    pull()
    assert_same_files(tmp_path / "island", edited)


def test_A6_a_value_that_went_there_and_back_between_two_publishes_is_no_change(board, ckpt, publish, tmp_path):
    """The trainer's directory is rewritten in between; only what was last published counts."""
    trainer = tmp_path / "trainer"
    shutil.copytree(ckpt[0], trainer)
    shard = trainer / SHARD1
    begin, _ = tensor_bytes(shard, "layers.0.w")
    flip_bit(shard, begin)
    flip_bit(shard, begin)
    assert publish(trainer).json["published"] is False


def test_A5_what_changed_since_the_last_publish_is_shipped_and_not_what_changed_in_the_last_step(ckpt, publish, pull, tmp_path):
    publish(ckpt[3])  # three steps at once
    pull()
    assert_same_files(tmp_path / "island", ckpt[3])


def test_F1_what_a_failed_publish_did_not_ship_is_in_the_next_one(ckpt, publish, pull, tmp_path):
    publish(ckpt[1])
    publish(ckpt[2], failpoints="publish.patch_stored:errno=28", expect=FAILED)
    assert publish(ckpt[3]).json["version"] == 2
    pull()
    assert_same_files(tmp_path / "island", ckpt[3])


def test_F9_an_old_number_with_other_bytes_is_a_conflict_and_with_its_own_bytes_a_no_op(board, ckpt, publish):
    for n in (1, 2):
        publish(ckpt[n])
    before = board_files.immutable_objects(board)
    head = board_files.head_path(board, "r").read_bytes()
    for number in (0, 1, 2):
        ran = publish(ckpt[3], "--version", number, expect=CONFLICT)
        assert f"version {number}" in ran.err
        assert publish(ckpt[number], "--version", number).json["published"] is False
    assert "side files or file layout differ" in publish(ckpt["1r"], "--version", 1, expect=CONFLICT).err
    assert board_files.immutable_objects(board) == before
    assert board_files.head_path(board, "r").read_bytes() == head


def test_a_number_beyond_the_next_one_is_refused(board, ckpt, publish):
    ran = publish(ckpt[1], "--version", 2, expect=FAILED)
    assert "the next one is 1" in ran.err
    assert board_files.head_of(board, "r")["version"] == 0


def test_F9_publishing_an_older_checkpoint_moves_the_version_forward(ckpt, publish, pull, tmp_path):
    """A trainer that resumes from an earlier checkpoint: numbers only rise, and readers get the old bytes."""
    for n in (1, 2, 3):
        publish(ckpt[n])
    pull()
    assert publish(ckpt[1], state="resumed").json["version"] == 4
    pull()
    assert_same_files(tmp_path / "island", ckpt[1])


def test_F13_missing_tensors_are_listed(board, publish, tmp_path):
    tensors = small_model.tensors(1)
    part = write_checkpoint(tmp_path / "part", {"norm.weight": tensors["norm.weight"]}, 1, small_model.side_files(1))
    ran = publish(part, expect=FAILED)
    assert "layers.0.w" in ran.err and "layers.0.w_scale_inv" in ran.err
    assert board_files.head_of(board, "r")["version"] == 0


def test_A14_a_tensor_of_another_dtype_is_refused_by_name(publish, tmp_path):
    tensors = small_model.tensors(1)
    scales = np.frombuffer(tensors["layers.0.w_scale_inv"].data, "<f4")
    tensors["layers.0.w_scale_inv"] = bf16((scales.view("<u4") >> 16).astype(np.uint16))
    ran = publish(write_checkpoint(tmp_path / "cast", tensors, 2, small_model.side_files(1)), expect=FAILED)
    assert "layers.0.w_scale_inv" in ran.err and "F32" in ran.err and "BF16" in ran.err


# Bases that are not the same bytes.


def test_A12_a_patch_for_another_version_or_model_is_refused_before_anything_is_written(ckpt, tmp_path):
    skerry("diff", ckpt[2], ckpt[3], "-o", tmp_path / "2-3")
    skerry("diff", small_model.write(tmp_path / "x", 7), small_model.write(tmp_path / "y", 8), "-o", tmp_path / "other")
    shutil.copytree(ckpt[1], tmp_path / "here")
    for patch in ("2-3", "other"):
        for how in (["--in-place"], ["-o", tmp_path / "new"]):
            ran = skerry("apply", tmp_path / "here", tmp_path / patch, *how, expect=FAILED)
            assert "base digest" in ran.err and "the checkpoint has" in ran.err
    assert_same_files(tmp_path / "here", ckpt[1])
    assert not (tmp_path / "new").exists()


def other_split(checkpoint, directory, version):
    """The same tensors and side files in one file, keys in falling order."""
    files = {path: text for path, text in small_model.side_files(version).items()}
    return write_checkpoint(directory, small_model.tensors(version), 1, files, reverse=True)


def test_A13_a_base_in_another_split_and_order_gives_the_targets_files(ckpt, tmp_path):
    """The patch is made against two shards; the receiver has the same tensors in one, with their keys turned round."""
    mine = other_split(ckpt[0], tmp_path / "mine", 0)
    assert skerry("diff", ckpt[0], mine, "-o", tmp_path / "none", "--json").json["changed"] == 0
    skerry("diff", ckpt[0], ckpt["1r"], "-o", tmp_path / "p")
    skerry("apply", mine, tmp_path / "p", "-o", tmp_path / "new")
    for file, sha256 in files_of(ckpt["1r"]).items():
        if file.endswith(".safetensors"):
            assert files_of(tmp_path / "new")[file] == sha256


def test_A13_a_base_with_a_canonicalised_nan_is_refused(tmp_path):
    """One tensor went through F32 and back and its NaN lost its bits: same value, other bytes, never patched over."""
    random = np.random.default_rng(1)
    weights = random.integers(0x3C00, 0x3F00, (64, 64), dtype=np.uint16)
    weights[3, 3] = 0xFFC1
    target = weights.copy()
    target[5, 5] += 1
    exported = weights.copy()
    exported[3, 3] = 0x7FC0
    for name, bits in (("base", weights), ("target", target), ("exported", exported)):
        write_checkpoint(tmp_path / name, {"w": bf16(bits)})
    skerry("diff", tmp_path / "base", tmp_path / "target", "-o", tmp_path / "p")
    there = files_of(tmp_path / "exported")
    ran = skerry("apply", tmp_path / "exported", tmp_path / "p", "--in-place", expect=FAILED)
    assert "base digest" in ran.err
    assert_same_files(tmp_path / "exported", there)
    # The other way round the NaN is an ordinary change.
    assert skerry("diff", tmp_path / "exported", tmp_path / "target", "-o", tmp_path / "q", "--json").json["changed"] == 2
    skerry("apply", tmp_path / "exported", tmp_path / "q", "-o", tmp_path / "new")
    assert_same_files(tmp_path / "new", tmp_path / "target")


def test_G16_an_island_that_holds_another_models_version_of_that_number_is_refused(ckpt, board, publish, pull, tmp_path):
    """Two boards have a run of the same name; the island comes from the other one."""
    skerry("init", tmp_path / "b2", "--run", "r", "--base", small_model.write(tmp_path / "x", 7))
    skerry("pull", tmp_path / "b2", "--run", "r", "-o", tmp_path / "island")
    there = files_of(tmp_path / "island")
    publish(ckpt[1])
    ran = pull(expect=FAILED)
    assert "model digest" in ran.err and "version 0" in ran.err
    assert_same_files(tmp_path / "island", there)


def test_C5_other_shards_at_the_next_version_cost_one_change_and_give_the_new_files(publish, pull, tmp_path):
    tensors = small_model.tensors(0)
    data = bytearray(tensors["norm.weight"].data)
    data[0] ^= 1
    tensors["norm.weight"] = Tensor("BF16", (256,), bytes(data))
    resharded = write_checkpoint(tmp_path / "three", tensors, 3, small_model.side_files(0))
    pull()
    assert publish(resharded).json["changed"] == 1
    receipt = pull().json
    assert (receipt["from"], receipt["changed"]) in ((0, 1), (None, 1))
    assert_same_files(tmp_path / "island", resharded)


def test_C2_a_stray_shard_beside_the_index_is_warned_of_and_not_published(ckpt, publish, pull, tmp_path):
    dirty = tmp_path / "dirty"
    shutil.copytree(ckpt[1], dirty)
    write_safetensors(dirty / "model.safetensors", small_model.tensors(3))
    assert "model.safetensors is ignored" in publish(dirty).err
    pull()
    assert_same_files(tmp_path / "island", ckpt[1])


def test_a_changed_byte_of_an_island_is_found_and_healed(ckpt, publish, pull, tmp_path):
    """In a tensor that the next patch touches: the pull finds it and rebuilds; elsewhere verify finds it."""
    pull()
    begin, _ = tensor_bytes(tmp_path / "island" / SHARD1, "norm.weight")
    flip_bit(tmp_path / "island" / SHARD1, begin + 100)
    ran = skerry("verify", tmp_path / "island", expect=CORRUPT)
    assert "norm.weight" in ran.err and "r version 0" in ran.err
    publish(ckpt[1])
    ran = pull()
    assert ran.json["healed"] and "warning" in ran.err
    assert_same_files(tmp_path / "island", ckpt[1])


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
def test_D5_a_version_whose_files_never_come_is_unavailable_and_the_old_one_stays(missing, board, ckpt, publish, pull, tmp_path):
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
def test_a_changed_byte_on_the_board_is_corrupt_data_and_the_old_version_stays(target, board, ckpt, publish, pull, tmp_path):
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
    """A restored backup: the head says 1, but version 2 is on the board with other bytes than what is published next."""
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


@pytest.mark.parametrize("url", ["s3://bucket/prefix", "https://relay:8080/", "ftp://x/y", "gs://bucket"])
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
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my board", "my island", "the state"]


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
