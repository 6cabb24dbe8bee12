"""The reference reader against the product: each reads what the other's encoder writes, over all dtypes and densities.

SKERRY_BINARY names the product; without it, it is the dev preset's.
"""

import os
import random
import struct
import subprocess
from pathlib import Path

import pytest

import craft
import skerry_reference as reference
from reference_checkpoint import DTYPES, read_checkpoint
from reference_test import WITH_MAGNITUDE, checkpoint, four_classes

BINARY = Path(os.environ.get("SKERRY_BINARY", Path(__file__).parents[2] / "build/dev/apps/skerry/skerry")).resolve()
DENSITIES = [0, 1e-4, 1e-2, 0.3, 0.5, 0.9, 0.999, 1]


def skerry(*arguments):
    done = subprocess.run([BINARY, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def write(checkpoint, directory):
    for name, content in reference.checkpoint_files(checkpoint).items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
    return directory


def values(dtype, count, rng):
    """Values as weights have them: many small ones, few large ones; some zeros, infinities and NaNs of every kind."""
    if dtype.magnitude_bits == 0 or dtype.unit == 1:
        return rng.randbytes(count * dtype.unit)
    form = {"F16": "<e", "BF16": "<f", "F32": "<f", "F64": "<d"}[dtype.name]
    out = []
    for _ in range(count):
        if rng.random() < 0.02:
            out.append(rng.choice([bytes(dtype.unit), rng.randbytes(dtype.unit), b"\xff" * dtype.unit]))
        else:
            out.append(struct.pack(form, rng.gauss(0, 0.04))[-dtype.unit :])
    return b"".join(out)


def next_values(data, dtype, density, rng):
    """Most change by a step or two, the more likely the smaller they are; some to anything."""
    unit, width = dtype.unit, 8 * dtype.unit
    out, mask = bytearray(data), (1 << (width - 1)) - 1
    for at in range(0, len(data), unit):
        old = int.from_bytes(data[at : at + unit], "little")
        likely = density if density in (0, 1) else density * (1.8 if (old & mask) < mask // 2 else 0.2)
        if rng.random() >= likely:
            continue
        any_size = rng.randrange(1, 1 << rng.randrange(1, width))
        step = rng.choice([1, -1]) * rng.choice([1, 1, 1, 1, 1, 1, 2, 3, any_size])
        out[at : at + unit] = ((old + step) % (1 << width)).to_bytes(unit, "little")
    return bytes(out)


def pair(density, rng):
    """Two tensors of each dtype and some that blocks can go on in."""
    old, new = {}, {}
    for dtype in DTYPES:
        for i, count in enumerate([rng.randrange(1, 40), rng.choice([4096, 700, 64]), 0, 3]):
            count = 4 * count if dtype.element_bits < 8 else count  # whole bytes
            data = values(dtype, count * dtype.element_bits // 8 // dtype.unit, rng)
            name = f"{i}.{dtype.name}" if rng.random() < 0.5 else f"{dtype.name}.{i}"
            old[name] = (dtype.name, [count], data)
            new[name] = (dtype.name, [count], next_values(data, dtype, density, rng))
    large = values(DTYPES[10], 70_000, rng)
    old["large"] = ("BF16", [70_000], large)
    new["large"] = ("BF16", [70_000], next_values(large, DTYPES[10], min(density, 0.05), rng))
    return checkpoint(old), checkpoint(new, {"config.json": b"{}"})


@pytest.mark.parametrize("density", DENSITIES)
def test_each_reads_what_the_other_writes(density, tmp_path):
    rng = random.Random(f"pair {density}")
    base, target = pair(density, rng)
    old, new = write(base, tmp_path / "old"), write(target, tmp_path / "new")
    for level in ("fast", "compact"):
        skerry("diff", old, new, "-o", tmp_path / level, "--level", level)
        patch = reference.read_patch((tmp_path / level).read_bytes())
        assert reference.apply_patch(patch, read_checkpoint(old)).tensors == target.tensors
        assert level == "compact" or reference.SPARSE_MAGNITUDE not in {block.method for block in patch.blocks}
    assert (tmp_path / "compact").stat().st_size <= (tmp_path / "fast").stat().st_size + 200

    classes = {dtype.name: four_classes(dtype) for dtype in WITH_MAGNITUDE}
    options = [
        dict(cells_per_block=64),
        dict(cells_per_block=1, classes=classes, escape_every=5),
        dict(cells_per_block=5, classes=classes, spanning=True),
        dict(cells_per_block=64, spanning=True, dense={"large"}, escape_every=2),
    ]
    for i, option in enumerate(options):
        (tmp_path / f"{i}").write_bytes(craft.encode_patch(base, target, **option).assemble())
        skerry("apply", old, tmp_path / f"{i}", "-o", tmp_path / f"out{i}")
        assert read_checkpoint(tmp_path / f"out{i}").tensors == target.tensors


def test_what_is_wasteful_but_not_wrong_is_read_by_both(tmp_path):
    """Old values that travel as new ones, frequencies of zero that are listed, tables and models that no block uses."""
    base = checkpoint({"a": ("U8", [5], b"abcde"), "b": ("F4", [8], b"\x01\x23\x45\x67"), "c": ("F32", [3], bytes(12))})
    table = [1000] + [0] * 30 + [3096]
    model = bytes([0, 0, 31]) + craft.varint(1000) + bytes(30)
    parts = craft.encode_patch(base, base)
    parts.set(reference.TABLES, bytes([2, 1, 31]) + craft.varint(1000) + bytes(30) + bytes([3, 0])
              + bytes([3, 9]) + model + bytes([11]) + model + bytes([19]) + model)  # fmt: skip
    flat = craft.encode_sparse_flat(5, [1], [(31, ord("b"), 8)], table)
    codes = craft.Strand(8, [2, 5], [(31, 3, 4), (31, 4, 4)], table)
    wide = craft.Strand(3, [2], [(31, 0, 32)], table)
    craft.set_blocks(parts, [
        craft.Block(0, 1, reference.SPARSE_FLAT, 1, flat, craft.sparse_checksum([1], [b"b"])),
        craft.Block(0, 1, reference.SPARSE_MAGNITUDE, 1, craft.encode_sparse_magnitude([wide]),
                    craft.sparse_checksum([2], [bytes(4)])),
        craft.Block(0, 1, reference.SPARSE_MAGNITUDE, 2, craft.encode_sparse_magnitude([codes]),
                    craft.sparse_checksum([1, 2], [b"\x23", b"\x45"])),
    ])  # fmt: skip
    patch = parts.assemble()
    assert reference.apply_patch(reference.read_patch(patch), base).tensors == base.tensors
    write(base, tmp_path / "old")
    (tmp_path / "patch").write_bytes(patch)
    skerry("apply", tmp_path / "old", tmp_path / "patch", "-o", tmp_path / "out")
    assert read_checkpoint(tmp_path / "out").tensors == base.tensors
