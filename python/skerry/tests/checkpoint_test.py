"""Checkpoints from every kind of source, by their bits."""

import gc
import io
import mmap

import numpy as np
import pytest

import skerry
from checkpoint_files import random_tensors, safetensors_bytes, write_checkpoint

TENSORS = random_tensors()


@pytest.fixture
def directory(tmp_path):
    return write_checkpoint(tmp_path / "ckpt", TENSORS, config='{"a": 1}')


def opened(path):
    """One of each kind of source, by name."""
    content = path.read_bytes()
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return {
        "directory": path.parent,
        "text": str(path),
        "path": path,
        "bytes": content,
        "bytearray": bytearray(content),
        "memoryview": memoryview(content),
        "mmap": mapped,
        "array": np.frombuffer(content, np.uint8),
        "bytes file": io.BytesIO(content),
        "file": open(path, "rb"),
    }


def test_J1_all_sources_give_the_same(directory):
    path = directory / "model.safetensors"
    for kind, source in opened(path).items():
        checkpoint = skerry.Checkpoint(source)
        assert checkpoint.names == sorted(TENSORS), kind
        assert len(checkpoint) == len(TENSORS) and "model.norm" in checkpoint and "nothing" not in checkpoint
        for name, (dtype, shape, content) in TENSORS.items():
            info = checkpoint[name]
            assert (info.name, info.dtype, info.shape, info.nbytes) == (name, dtype, shape, len(content)), kind
            raw = checkpoint.read(name)
            assert raw.dtype == np.uint8 and raw.shape == (len(content),) and raw.tobytes() == content, (kind, name)
        assert checkpoint.nbytes == sum(len(content) for _, _, content in TENSORS.values())
        digests = checkpoint.layout_digest, checkpoint.tensors_digest, checkpoint.model_digest()
        expected = skerry.Checkpoint(directory)
        assert digests == (expected.layout_digest, expected.tensors_digest, expected.model_digest(threads=1)), kind
        checkpoint.check()


def test_J1_damage_is_the_same_error_from_every_source(directory):
    path = directory / "model.safetensors"
    content = path.read_bytes()
    for damaged in (content[:-1], content + b"x", content[:7], b"", b"version https://git-lfs.github.com/spec/v1\n"):
        path.write_bytes(damaged)
        messages = set()
        for source in (directory, path, damaged, memoryview(damaged), io.BytesIO(damaged)):
            with pytest.raises(skerry.Corrupt) as caught:
                skerry.Checkpoint(source)
            assert caught.value.code == "corrupt"
            messages.add(str(caught.value).replace(str(path), "the given bytes"))
        assert len(messages) == 1, messages


def test_J4_a_scalar_has_the_shape_of_no_axes_both_ways(directory):
    bits = TENSORS["model.temperature"][2]
    for source in opened(directory / "model.safetensors").values():
        checkpoint = skerry.Checkpoint(source)
        assert checkpoint["model.temperature"].shape == ()
        whole = checkpoint.array("model.temperature")
        assert whole.shape == () and whole.dtype == np.float32 and whole.tobytes() == bits
        assert whole[()].shape == () and whole[...].tobytes() == bits


def test_arrays_are_views_with_shape_and_dtype(directory):
    checkpoint = skerry.Checkpoint(directory)
    norm = checkpoint.array("model.norm")
    assert norm.dtype == np.float32 and norm.shape == (64,) and norm.tobytes() == TENSORS["model.norm"][2]
    assert np.shares_memory(norm, checkpoint.read("model.norm"))
    assert checkpoint.array("model.complex").dtype == np.complex64


def test_bf16_and_fp8_are_arrays_where_ml_dtypes_is_installed(directory):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    checkpoint = skerry.Checkpoint(directory)
    for name, dtype in (
        ("model.embed", ml_dtypes.bfloat16),
        ("model.quant", ml_dtypes.float8_e4m3fn),
        ("model.scales", ml_dtypes.float8_e8m0fnu),
        ("model.empty", ml_dtypes.bfloat16),
    ):
        array = checkpoint.array(name)
        assert array.dtype == dtype and array.shape == TENSORS[name][1] and array.tobytes() == TENSORS[name][2]


def test_a_dtype_that_numpy_has_not_is_refused_by_array_and_not_converted(directory, monkeypatch):
    checkpoint = skerry.Checkpoint(directory)
    with pytest.raises(skerry.Unsupported, match=r"'model.packed' is F4: numpy has no such dtype; read\(\) gives"):
        checkpoint.array("model.packed")
    monkeypatch.setitem(__import__("sys").modules, "ml_dtypes", None)
    with pytest.raises(skerry.Unsupported, match="'model.embed' is BF16: .*ml_dtypes"):
        checkpoint.array("model.embed")


def test_reading_copies_nothing_and_is_read_only(directory):
    content = (directory / "model.safetensors").read_bytes()
    for source in (directory, content):
        checkpoint = skerry.Checkpoint(source)
        first, second = checkpoint.read("model.embed"), checkpoint.read("model.embed")
        assert np.shares_memory(first, second) and not first.flags.writeable
        with pytest.raises(ValueError):
            first[0] = 1
        with pytest.raises(ValueError):
            first.flags.writeable = True
    assert np.shares_memory(first, np.frombuffer(content, np.uint8))


def test_what_was_read_outlives_the_checkpoint_and_its_source(directory):
    reads = [
        skerry.Checkpoint(source).read("model.embed") for source in opened(directory / "model.safetensors").values()
    ]
    gc.collect()
    assert all(read.tobytes() == TENSORS["model.embed"][2] for read in reads)


def test_a_file_cut_short_meanwhile_is_told_and_is_no_signal(tmp_path):
    large = write_checkpoint(tmp_path / "large", {"w": ("U8", (1 << 20,), bytes([7]) * (1 << 20))})
    checkpoint = skerry.Checkpoint(large)
    raw = checkpoint.read("w")
    checkpoint.check()
    with open(large / "model.safetensors", "r+b") as file:
        file.truncate(4096)
    assert raw.sum() < 7 << 20
    with pytest.raises(skerry.Refused, match="shrank while it was in use"):
        checkpoint.check()


def test_sources_that_are_none_are_refused_by_name(tmp_path):
    with pytest.raises(skerry.NotFound, match="does not exist"):
        skerry.Checkpoint(tmp_path / "missing")
    (tmp_path / "text.safetensors").write_text("x")
    strided = memoryview(bytes(64))[::2]
    for source, message in (
        (None, "source: NoneType"),
        (7, "source: int"),
        ("", "source: ''"),
        (io.StringIO("x"), "source: a file opened as text"),
        (strided, "source: the bytes are not contiguous"),
        (object(), "source: object"),
    ):
        with pytest.raises(skerry.Invalid, match=message):
            skerry.Checkpoint(source)
    with pytest.raises(skerry.NotFound, match="tensor 'x' is not in the checkpoint, which has 1"):
        skerry.Checkpoint(safetensors_bytes({"w": ("U8", (1,), b"1")}))["x"]


def test_side_files_and_warnings_of_a_directory(directory):
    (directory / "old.bin").write_bytes(b"x")
    checkpoint = skerry.Checkpoint(directory)
    assert checkpoint.side_files == ["config.json"]
    assert len(checkpoint.warnings) == 1 and checkpoint.warnings[0].startswith("old.bin is left out")
    assert skerry.Checkpoint(directory / "model.safetensors").side_files == []


def test_progress_is_told_and_what_it_raises_ends_the_work(directory):
    told = []
    checkpoint = skerry.Checkpoint(directory)
    digest = checkpoint.model_digest(progress=lambda stage, done, total: told.append((stage, done, total)))
    assert told[-1] == ("verify", checkpoint.nbytes, checkpoint.nbytes) and digest == checkpoint.model_digest()
    with pytest.raises(skerry.Invalid, match="threads: -1"):
        checkpoint.model_digest(threads=-1)
