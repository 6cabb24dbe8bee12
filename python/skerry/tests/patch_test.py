"""diff, apply and Patch: the same as the command, and what a patch says."""

import io
import subprocess

import numpy as np
import pytest

import skerry
from checkpoint_files import changed, random_tensors, write_checkpoint

TENSORS = random_tensors()
CHANGED = {"model.embed": [1, 8, 9, 4000], "model.norm": [12], "model.packed": [5], "model.complex": [16]}
AFTER = changed(TENSORS, CHANGED)


@pytest.fixture
def pair(tmp_path):
    return (
        write_checkpoint(tmp_path / "v0", TENSORS, config="{}"),
        write_checkpoint(tmp_path / "v1", AFTER, config='{"a": 1}'),
    )


@pytest.fixture
def patch(pair, tmp_path):
    skerry.diff(*pair, tmp_path / "p.skerry")
    return tmp_path / "p.skerry"


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize("level", ["compact", "fast"])
@pytest.mark.parametrize("threads", [0, 1])
def test_a_patch_is_the_one_that_the_command_makes_and_rebuilds_every_byte(pair, tmp_path, command, level, threads):
    base, new = pair
    receipt = skerry.diff(base, new, tmp_path / "a.skerry", level=level, threads=threads)
    subprocess.run([command, "diff", base, new, "-o", tmp_path / "b.skerry", "--level", level], check=True)
    assert (tmp_path / "a.skerry").read_bytes() == (tmp_path / "b.skerry").read_bytes()
    assert receipt.patch == str(tmp_path / "a.skerry")
    assert receipt.patch_bytes == (tmp_path / "a.skerry").stat().st_size
    assert (receipt.changed, receipt.tensors_changed, receipt.tensors, receipt.side_files_changed) == (6, 4, 8, 1)
    assert receipt.base_model == skerry.Checkpoint(base).model_digest()
    assert receipt.target_model == skerry.Checkpoint(new).model_digest()
    assert receipt.density == receipt.changed / receipt.elements
    assert set(receipt.seconds) == {"compare", "encode"}

    applied = skerry.apply(base, tmp_path / "a.skerry", tmp_path / "out", threads=threads)
    assert contents(tmp_path / "out") == contents(new)
    assert (
        applied.model == receipt.target_model and applied.changed == 6 and applied.checkpoint == str(tmp_path / "out")
    )


def test_one_file_and_bytes_are_compared_without_side_files(pair, tmp_path):
    base, new = (path / "model.safetensors" for path in pair)
    skerry.diff(base, new, tmp_path / "files.skerry")
    skerry.diff(skerry.Checkpoint(base.read_bytes()), skerry.Checkpoint(new.read_bytes()), tmp_path / "bytes.skerry")
    assert (tmp_path / "files.skerry").read_bytes() == (tmp_path / "bytes.skerry").read_bytes()
    assert skerry.Patch(tmp_path / "files.skerry").side_files == {}
    skerry.apply(base, tmp_path / "files.skerry", tmp_path / "out")
    assert contents(tmp_path / "out") == {"model.safetensors": new.read_bytes()}
    with pytest.raises(skerry.Invalid, match="base: bytes in memory"):
        skerry.apply(base.read_bytes(), tmp_path / "files.skerry", tmp_path / "out2")


def test_J1_a_patch_says_the_same_from_every_source(pair, patch):
    base, new = pair
    content = patch.read_bytes()
    for source in (patch, str(patch), content, memoryview(content), bytearray(content), io.BytesIO(content)):
        opened = skerry.Patch(source)
        assert opened.base_model == skerry.Checkpoint(base).model_digest()
        assert opened.target_model == skerry.Checkpoint(new).model_digest()
        assert opened.base_layout == opened.target_layout == skerry.Checkpoint(base).layout_digest
        assert (opened.changed, opened.structural, opened.nbytes) == (6, False, len(content))
        assert [(t.name, t.dtype, t.shape, t.changed) for t in opened.tensors] == [
            ("model.complex", "C64", (3,), 1),
            ("model.embed", "BF16", (300, 64), 3),
            ("model.norm", "F32", (64,), 1),
            ("model.packed", "F4", (4, 32), 1),
        ]
        assert opened.side_files == {"config.json": True}


def test_changes_of_a_tensor_are_its_positions_and_new_bits(pair, patch):
    base, _ = pair
    opened = skerry.Patch(patch)
    for name, (dtype, _, content) in TENSORS.items():
        unit = {"BF16": np.uint16, "F32": np.uint32, "C64": np.uint64}.get(dtype, np.uint8)
        before, after = np.frombuffer(content, unit), np.frombuffer(AFTER[name][2], unit)
        positions, values = opened.changes(base, name)
        assert positions.dtype == np.uint64 and values.dtype == unit, name
        assert positions.tolist() == np.flatnonzero(before != after).tolist(), name
        assert values.tolist() == after[before != after].tolist(), name
    by_checkpoint = opened.changes(skerry.Checkpoint(base), "model.norm")
    assert by_checkpoint[0].tolist() == [3]
    with pytest.raises(skerry.NotFound, match="tensor 'x'"):
        opened.changes(base, "x")


def test_changes_against_another_base_are_refused(pair, patch, tmp_path):
    _, new = pair
    with pytest.raises(skerry.Corrupt):
        skerry.Patch(patch).changes(new, "model.embed")
    other = write_checkpoint(tmp_path / "other", {"w": ("U8", (1,), b"1")})
    with pytest.raises(skerry.Mismatch, match="was made for tensors"):
        skerry.Patch(patch).changes(other, "model.embed")


def test_a_structural_patch_has_its_new_tensors_whole(pair, tmp_path):
    base, _ = pair
    new = write_checkpoint(tmp_path / "new", {**TENSORS, "model.more": ("U8", (5,), b"12345")}, config="{}")
    with pytest.raises(skerry.Invalid, match="model.more"):
        skerry.diff(base, new, tmp_path / "p.skerry")
    assert not (tmp_path / "p.skerry").exists()
    skerry.diff(base, new, tmp_path / "p.skerry", structural=True)
    patch = skerry.Patch(tmp_path / "p.skerry")
    assert patch.structural
    positions, values = patch.changes(base, "model.more")
    assert positions.tolist() == [0, 1, 2, 3, 4] and values.tobytes() == b"12345"
    skerry.apply(base, patch, tmp_path / "out")
    assert contents(tmp_path / "out") == contents(new)


def test_a_wrong_base_a_damaged_patch_and_a_taken_place_are_told_apart(pair, patch, tmp_path):
    base, new = pair
    with pytest.raises(skerry.Mismatch):
        skerry.apply(new, patch, tmp_path / "out")
    content = bytearray(patch.read_bytes())
    content[len(content) // 2] ^= 1
    with pytest.raises(skerry.Corrupt):
        skerry.apply(base, bytes(content), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    with pytest.raises(skerry.Conflict):
        skerry.apply(base, patch, tmp_path / "out")
    with pytest.raises(skerry.NotFound):
        skerry.Patch(tmp_path / "missing.skerry")


def test_J2_a_wrong_argument_is_named(pair, tmp_path):
    for arguments, options, message in (
        ((None, pair[1], tmp_path / "p"), {}, "NoneType"),
        ((*pair, None), {}, "out: None"),
        ((*pair, ""), {}, "out: ''"),
        ((*pair, tmp_path / "p"), {"level": "best"}, 'level: "best"'),
        ((*pair, tmp_path / "p"), {"threads": -2}, "threads: -2"),
    ):
        with pytest.raises(skerry.Invalid, match=message):
            skerry.diff(*arguments, **options)
    assert not (tmp_path / "p").exists()


def test_progress_is_told_of_the_stages(pair, patch, tmp_path):
    told = []
    skerry.apply(*pair[:1], patch, tmp_path / "out", progress=lambda *state: told.append(state))
    assert told and all(len(state) == 3 and state[1] <= state[2] for state in told)
