"""The reference reader against an independent encoder (craft.py) and against the formulas of the document."""

import hashlib
import json
import math
import random
import struct

import pytest

import craft
import skerry_reference as reference
from reference_checkpoint import DTYPE_OF_NAME, DTYPES, Checkpoint, Layout, Refused, parse_header, running_digest


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


WITH_MAGNITUDE = [dtype for dtype in DTYPES if dtype.magnitude_bits > 0]
DENSITIES = [0.002, 0.1, 0.4, 0.7, 0.99, 1]


def a_model_and_its_next(dtype, density, rng):
    data = rng.randbytes(600 * dtype.unit)
    shape = [len(data) * 8 // dtype.element_bits]
    base = checkpoint({"w": (dtype.name, shape, data)})
    return base, checkpoint({"w": (dtype.name, shape, changed(data, dtype.unit, density, rng))})


def four_classes(dtype):
    """Of rising magnitude; the third one shares the table of the second."""
    top = 1 << dtype.magnitude_bits
    return craft.Classes([0, top // 4, top // 2, top // 2 + top // 4], frozenset({2}))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("density", DENSITIES)
def test_what_the_second_encoder_writes_is_read_back(dtype, density):
    rng = random.Random(f"{dtype.name} {density}")
    base, target = a_model_and_its_next(dtype, density, rng)
    patch = reference.read_patch(craft.encode_patch(base, target).assemble())
    assert reference.apply_patch(patch, base).tensors == target.tensors


@pytest.mark.parametrize("dtype", WITH_MAGNITUDE, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("escape_every", [0, 3])
def test_what_the_second_encoder_writes_by_magnitude_is_read_back(dtype, density, escape_every):
    rng = random.Random(f"{dtype.name} {density} {escape_every}")
    base, target = a_model_and_its_next(dtype, density, rng)
    parts = craft.encode_patch(base, target, classes={dtype.name: four_classes(dtype)}, escape_every=escape_every)
    patch = reference.read_patch(parts.assemble())
    assert {block.method for block in patch.blocks} <= {reference.SPARSE_MAGNITUDE}
    assert reference.apply_patch(patch, base).tensors == target.tensors


@pytest.mark.parametrize("classes", [1, 16])
def test_a_model_has_one_to_16_classes(classes):
    rng = random.Random(classes)
    base, target = a_model_and_its_next(DTYPES[10], 0.2, rng)
    model = craft.Classes([0, *range(1000, 1000 * classes, 1000)])
    patch = reference.read_patch(craft.encode_patch(base, target, classes={"BF16": model}).assemble())
    assert len(patch.models[10].lowest) == classes
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


@pytest.mark.parametrize("dense", [set(), {"a.0", "c.2", "d.4"}], ids=["sparse", "some dense"])
@pytest.mark.parametrize("cells", [1, 3, 64])
def test_blocks_that_span_tensors_of_one_dtype_are_read_back(cells, dense):
    """Tensors of several dtypes in turn, of a few units to more than a cell, some of them empty or without a change."""
    rng = random.Random(cells)
    old, new = {}, {}
    for i, count in enumerate([5, 0, 70_000, 66, 1]):
        for letter, name, unit in (("a", "BF16", 2), ("b", "U8", 1), ("c", "F4", 1), ("d", "BF16", 2)):
            data = rng.randbytes(count * unit)
            old[f"{letter}.{i}"] = (name, [2 * count if name == "F4" else count], data)
            new[f"{letter}.{i}"] = (*old[f"{letter}.{i}"][:2], changed(data, unit, 0 if count == 66 else 0.01, rng))
            if count == 1:
                new[f"{letter}.{i}"] = (*old[f"{letter}.{i}"][:2], bytes(byte ^ 0x21 for byte in data))
    base, target = checkpoint(old), checkpoint(new)
    classes = {name: four_classes(DTYPE_OF_NAME[name]) for name in ("BF16", "U8", "F4")}
    parts = craft.encode_patch(base, target, cells, dense, classes=classes, spanning=True)
    patch = reference.read_patch(parts.assemble())
    assert max(len(placed.runs) for placed in reference.place(patch, target.layout)) > 1 or cells == 1
    assert reference.apply_patch(patch, base).tensors == target.tensors


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
    for e, row in reference.RATIOS.items():
        for f, ratio in enumerate(row):
            # e >= 2 codes the quotient by 2^(e-2); the last row is the limit for large e.
            mean = (1 + (f + 0.5) / 4) * 2**e
            b = max(0, e - 2)
            exact = (1 - 1 / mean) ** (2**b) if e < 5 else math.exp(-(2**b) / mean)
            assert ratio == round(65536 * exact)


@pytest.mark.parametrize("units", [1, 2, 3, 100, 4096, 65536, 1 << 22])
def test_gap_tables_sum_to_4096_and_can_code_what_occurs(units):
    few = {1, 2, 3, units // 2 - 1, units // 2, units // 2 + 1, units - 3, units - 2, units - 1, units}
    for changes in sorted(k for k in few | {units * i // 1000 for i in range(1000)} if 1 <= k <= units):
        frequencies, low_bits, escape = reference.gap_model(units, changes)
        assert sum(frequencies) == 4096 and len(frequencies) == 32
        assert min(frequencies[: escape + 1]) >= 1 or changes == units
        assert not any(frequencies[escape + 1 :])
        assert (units // changes) >> low_bits < 8
        assert escape == (7 if 2 * changes > units else 31)


@pytest.mark.parametrize("density", [0.001, 0.01, 0.1, 0.3, 0.49, 0.51, 0.75, 0.9, 0.99, 0.999, 0.9999])
def test_gap_tables_are_as_good_as_the_entropy(density):
    frequencies, low_bits, escape = reference.gap_model(1 << 20, round(density * 2**20))
    bits, still = 0.0, 1.0  # probability of this gap or a longer one
    for gap in range(int(40 / density)):
        escapes, last = divmod(gap >> low_bits, escape)
        cost = [12 - math.log2(frequencies[symbol]) for symbol in (escape, last)]
        bits += still * density * (escapes * cost[0] + cost[1] + low_bits)
        still *= 1 - density
    entropy = -math.log2(density) - (1 - density) / density * math.log2(1 - density)
    assert entropy - 1e-6 < bits < 1.03 * entropy + 0.003


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
