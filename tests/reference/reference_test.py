"""The reference reader against an independent encoder (craft.py) and against the formulas of the document."""

import hashlib
import json
import math
import random
import struct

import pytest

import craft
import skerry_reference as reference
from reference_checkpoint import DTYPES, Checkpoint, Layout, Refused, parse_header, running_digest


def checkpoint(tensors, side_files=None):
    """From {name: (dtype name, shape, bytes)}."""
    at, header = 0, {}
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    layout = Layout([("model.safetensors", json.dumps(header))])
    return Checkpoint(layout, [tensors[t.name][2] for t in layout.tensors], side_files or {})


def changed(data, unit, density, rng, step=None):
    out = bytearray(data)
    for i in range(0, len(data), unit):
        if rng.random() < density:
            value = int.from_bytes(data[i : i + unit], "little")
            moved = value + rng.choice([1, -1]) * (step or rng.choice([1, 1, 1, 2, 30, 5000]))
            out[i : i + unit] = (moved % (1 << 8 * unit)).to_bytes(unit, "little")
    return bytes(out)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("density", [0.002, 0.1, 0.7])
def test_what_the_second_encoder_writes_is_read_back(dtype, density):
    rng = random.Random(f"{dtype.name} {density}")
    data = rng.randbytes(600 * dtype.unit)
    shape = [len(data) * 8 // dtype.element_bits]
    base = checkpoint({"w": (dtype.name, shape, data)})
    target = checkpoint({"w": (dtype.name, shape, changed(data, dtype.unit, density, rng))})
    patch = reference.read_patch(craft.encode_patch(base, target).assemble())
    assert reference.apply_patch(patch, base).tensors == target.tensors


def test_blocks_of_several_cells_and_dense_blocks_are_read_back():
    rng = random.Random(5)
    zeros = bytes(2 * 150_000)
    small = rng.randbytes(300)
    base = checkpoint({"a": ("BF16", [150_000], zeros), "b": ("U8", [300], small), "c": ("U8", [0], b"")})
    target = checkpoint(
        {"a": ("BF16", [150_000], changed(zeros, 2, 0.003, rng)), "b": ("U8", [300], changed(small, 1, 0.9, rng)),
         "c": ("U8", [0], b"")})  # fmt: skip
    for cells in (1, 2, 64):
        parts = craft.encode_patch(base, target, cells_per_block=cells, dense={"b"})
        assert reference.apply_patch(reference.read_patch(parts.assemble()), base).tensors == target.tensors


def test_taking_apart_and_assembling_changes_nothing():
    base = checkpoint({"w": ("U8", [3], b"abc")})
    patch = craft.encode_patch(base, checkpoint({"w": ("U8", [3], b"abd")}, {"config.json": b"{}"})).assemble()
    parts = craft.take_apart(patch)
    assert parts.assemble() == patch
    craft.set_blocks(parts, craft.blocks_of(patch))
    assert parts.assemble() == patch


def test_a_patch_is_refused_on_another_base():
    base, target = checkpoint({"w": ("U8", [3], b"abc")}), checkpoint({"w": ("U8", [3], b"abd")})
    patch = reference.read_patch(craft.encode_patch(base, target).assemble())
    with pytest.raises(Refused, match="the patch is for model"):
        reference.apply_patch(patch, checkpoint({"w": ("U8", [3], b"xbc")}))
    with pytest.raises(Refused, match="the patch is for tensors"):
        reference.apply_patch(patch, checkpoint({"v": ("U8", [3], b"abc")}))


def test_the_ratio_table_is_what_its_formula_says():
    for e, row in enumerate(reference.RATIOS):
        for f, ratio in enumerate(row):
            # e >= 2 codes the quotient by 2^(e-2); the last row is the limit for large e.
            mean = (1 + (f + 0.5) / 4) * 2**e
            b = max(0, e - 2)
            exact = (1 - 1 / mean) ** (2**b) if e < 5 else math.exp(-(2**b) / mean)
            assert ratio == round(65536 * exact)


def test_gap_tables_sum_to_4096_and_can_code_every_symbol():
    for units, changes in [(1, 1), (2, 1), (3, 2), (100, 99), (65536, 1), (65536, 300), (1 << 22, 1), (1 << 22, 4096)]:
        frequencies, low_bits = reference.gap_model(units, changes)
        assert sum(frequencies) == 4096 and min(frequencies) >= 1
        assert (units // changes) >> low_bits < 8


def test_the_running_digest_is_additive_over_whole_words():
    data = random.Random(1).randbytes(803)
    a, b = running_digest(data)
    for i in range(100):
        moved = bytearray(data)
        moved[8 * i : 8 * i + 8] = bytes(8)
        without, zero = running_digest(bytes(moved)), running_digest(bytes(8 * i) + data[8 * i : 8 * i + 8])
        zeros = running_digest(bytes(8 * i + 8))
        assert (without[0] + zero[0] - zeros[0]) % 2**64 == a and (without[1] + zero[1] - zeros[1]) % 2**64 == b


def test_a_tensor_may_have_the_name_of_a_python_attribute_or_none():
    for name in ("", "keys", "__class__", "a\u0000b", "\U0001f40b"):
        header = json.dumps({name: {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}, ensure_ascii=False)
        assert [tensor.name for tensor in parse_header(header, "x")] == [name]


def test_layouts_are_written_with_sorted_keys_and_without_white_space():
    layout = checkpoint({"w": ("U8", [1], b"a")}).layout
    header = json.dumps({"w": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}})
    expected = '{"files":[{"header":%s,"name":"model.safetensors"}],"format":1}' % json.dumps(header)
    assert layout.json() == expected.encode()
    assert layout.digest() == hashlib.sha256(expected.encode()).digest()


def test_the_tensors_digest_is_over_names_dtypes_and_shapes():
    expected = b"skerry tensors 1\n" + struct.pack("<I", 1) + b"w" + struct.pack("<BIQQ", 10, 2, 3, 4)
    layout = checkpoint({"w": ("BF16", [3, 4], bytes(24))}).layout
    assert layout.tensors_digest() == hashlib.sha256(expected).digest()
