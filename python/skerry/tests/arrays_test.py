"""Arrays of other kinds than are asked for are refused, or taken by their bits: never converted."""

import numpy as np
import pytest

import skerry
from checkpoint_files import safetensors_bytes
from skerry import _core

AT = np.array([1], np.uint64)
BITS = np.array([0x3F80], np.uint16)


def scatter(target, at=AT):
    _core.scatter(target, 2, at, BITS.view(np.uint8))


def test_an_array_of_numbers_is_not_taken_for_bytes():
    for target in (np.zeros(4, np.float32), np.zeros(4, np.float16), np.zeros(4, np.uint16), np.zeros(8, np.int8)):
        with pytest.raises(TypeError):
            scatter(target)
        assert not target.any()
    for target in (np.zeros(16, np.uint8)[::2], np.zeros((4, 2), np.uint8), [0, 0, 0, 0]):
        with pytest.raises(TypeError):
            scatter(target)
    read_only = np.zeros(8, np.uint8)
    read_only.flags.writeable = False
    with pytest.raises(TypeError):
        scatter(read_only)


def test_positions_of_another_type_are_refused():
    for at in (AT.astype(np.int64), AT.astype(np.float64), AT.astype(np.uint16)):
        with pytest.raises((TypeError, ValueError)):
            scatter(np.zeros(8, np.uint8), at=at)


def test_bf16_and_fp8_of_ml_dtypes_are_refused():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        target = np.zeros(8, dtype)
        with pytest.raises((TypeError, BufferError, ValueError)):
            scatter(target)
        assert target.view(np.uint8).tolist() == [0] * target.nbytes


def test_tensors_of_torch_are_taken_as_bytes_only():
    torch = pytest.importorskip("torch")
    target = torch.zeros(8, dtype=torch.uint8)
    scatter(target)
    assert target.view(torch.bfloat16).tolist() == [0.0, 1.0, 0.0, 0.0]
    for dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.float16, torch.float32, torch.int8):
        refused = torch.zeros(8, dtype=torch.float32).to(dtype)
        with pytest.raises((TypeError, BufferError)):
            scatter(refused)
        assert not refused.view(torch.uint8).any()
    strided = torch.zeros(16, dtype=torch.uint8)[::2]
    trained = torch.zeros(8, requires_grad=True)
    for refused in (strided, trained):
        with pytest.raises((TypeError, BufferError, RuntimeError)):
            scatter(refused)
        assert not refused.detach().any()


def test_a_checkpoint_takes_any_buffer_by_its_bytes_and_no_tensor():
    content = safetensors_bytes({"w": ("U8", (8,), bytes(range(8)))})
    as_floats = np.frombuffer(content, np.float32)
    assert skerry.Checkpoint(as_floats).read("w").tolist() == list(range(8))
    with pytest.raises(skerry.Invalid, match="not contiguous"):
        skerry.Checkpoint(np.frombuffer(content, np.uint8)[::2])
    torch = pytest.importorskip("torch")
    with pytest.raises(skerry.Invalid, match="source: Tensor"):
        skerry.Checkpoint(torch.zeros(4))
