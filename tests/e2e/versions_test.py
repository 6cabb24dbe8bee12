"""Field cases of versions: what makes one, what is shipped, and bases that are not the same bytes."""

import shutil

import numpy as np

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
from program import CONFLICT, CORRUPT, FAILED, skerry
from small_model import SHARD1

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
    assert [entry["version"] for entry in skerry("log", board, "--run", "r", "-n", 2, "--json").json["versions"]] == [
        3,
        2,
    ]


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


def test_A5_what_changed_since_the_last_publish_is_shipped_and_not_what_changed_in_the_last_step(
    ckpt, publish, pull, tmp_path
):
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


def other_split(directory, version):
    """A version's tensors and side files in one shard, keys in falling order."""
    return write_checkpoint(directory, small_model.tensors(version), 1, small_model.side_files(version), reverse=True)


def test_A13_a_base_in_another_split_and_order_keeps_its_split_and_gets_the_targets_tensors(ckpt, tmp_path):
    """The patch is made between two shards each; the receiver has the same tensors in one file, keys turned round."""
    mine = other_split(tmp_path / "mine", 0)
    assert skerry("diff", ckpt[0], mine, "-o", tmp_path / "none", "--json").json["changed"] == 0
    skerry("diff", ckpt[0], ckpt[1], "-o", tmp_path / "p")
    skerry("apply", mine, tmp_path / "p", "-o", tmp_path / "new")
    assert_same_files(tmp_path / "new", other_split(tmp_path / "wanted", 1))
    skerry("apply", mine, tmp_path / "p", "--in-place")
    assert_same_files(mine, tmp_path / "wanted")


def test_A13_a_patch_to_other_shards_makes_them_from_a_base_in_a_third_split_but_not_in_place(ckpt, tmp_path):
    mine = other_split(tmp_path / "mine", 0)
    skerry("diff", ckpt[0], ckpt["1r"], "-o", tmp_path / "p")
    assert "layout" in skerry("apply", mine, tmp_path / "p", "--in-place", expect=FAILED).err
    assert_same_files(mine, other_split(tmp_path / "wanted", 0))
    skerry("apply", mine, tmp_path / "p", "-o", tmp_path / "new")
    assert_same_files(tmp_path / "new", ckpt["1r"])


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
    assert (
        skerry("diff", tmp_path / "exported", tmp_path / "target", "-o", tmp_path / "q", "--json").json["changed"] == 2
    )
    skerry("apply", tmp_path / "exported", tmp_path / "q", "-o", tmp_path / "new")
    assert_same_files(tmp_path / "new", tmp_path / "target")


def test_G16_an_island_that_holds_another_models_version_of_that_number_is_refused(
    ckpt, board, publish, pull, tmp_path
):
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
