"""Patches over boxes: the reference reader against the second encoder."""

import os
import random
import subprocess
from pathlib import Path

import pytest

import craft
import skerry_reference as reference
from reference_boxes import apply_boxed, cut_out
from reference_checkpoint import Refused
from reference_test import changed, checkpoint
from skerry_reference import Box

BINARY = Path(os.environ.get("SKERRY_BINARY", Path(__file__).parents[2] / "build/dev/apps/skerry/skerry")).resolve()
RNG = random.Random(8)
DATA = {"a.weight": RNG.randbytes(64 * 24 * 2), "b.scale": RNG.randbytes(4), "c.rows": RNG.randbytes(9 * 4)}


def model(data):
    return checkpoint(
        {
            "a.weight": ("BF16", [64, 24], data["a.weight"]),
            "b.scale": ("F32", [], data["b.scale"]),
            "c.rows": ("F32", [9], data["c.rows"]),
        }
    )


BASE = model(DATA)
TARGET = model({name: changed(data, 2, 0.1, RNG) for name, data in DATA.items()})
ROWS, COLUMNS = Box(0, [0, 0], [20, 24]), Box(0, [20, 8], [44, 12])  # columns 8 to 20, rows 20 to 64
SCALAR, TAIL = Box(1, [], []), Box(2, [2], [7])
BOXES = [ROWS, COLUMNS, SCALAR, TAIL]


def boxes_section(boxes):
    out = craft.varint(len(boxes))
    for box in boxes:
        out += craft.varint(box.ordinal) + craft.varint(len(box.size))
        out += b"".join(craft.varint(start) + craft.varint(size) for start, size in zip(box.start, box.size))
    return craft.compressed(out)


def boxed_patch(boxes=BOXES):
    parts = craft.encode_patch(cut_out(BASE, boxes), cut_out(TARGET, boxes))
    parts.features |= reference.BOXED
    parts.set(reference.BOXES, boxes_section(boxes))
    return parts


def test_a_patch_over_rows_columns_and_a_scalar_moves_these_and_nothing_else():
    patch = reference.read_patch(boxed_patch().assemble())
    assert patch.boxes == BOXES and [name for _, name, *_ in patch.names][0] == "a.weight[0:20,0:24]"
    moved = apply_boxed(patch, BASE)
    assert moved.tensors[1] == TARGET.tensors[1]
    assert moved.tensors[2] == BASE.tensors[2][:8] + TARGET.tensors[2][8:]
    row = 24 * 2
    for i in range(64):
        old, new, got = (c.tensors[0][i * row : (i + 1) * row] for c in (BASE, TARGET, moved))
        assert got == (new if i < 20 else old[:16] + new[16:40] + old[40:]), i


def test_the_product_reads_what_it_says(tmp_path):
    (tmp_path / "p.skerry").write_bytes(boxed_patch().assemble())
    done = subprocess.run([BINARY, "show", tmp_path / "p.skerry", "--tensors"], capture_output=True, text=True)
    assert done.returncode == 0 and "a.weight[0:20,0:24]" in done.stdout, done.stderr


@pytest.mark.parametrize(
    "box, message",
    [
        (Box(0, [60, 0], [5, 24]), "60 to 65 of 64"),
        (Box(0, [0, 0], [64, 0]), "0 to 0 of 24"),
        (Box(0, [0], [64]), "has 1 axes"),
        (Box(3, [0], [1]), "tensor 3"),
        (Box(0, [0, 2], [64, 8]), "cut a word"),
        (Box(0, [0, 0], [64, 6]), "cut a word"),
        (Box(2, [1], [8]), "cut a word"),
        (Box(2, [0], [7]), "cut a word"),
    ],
)
def test_a_box_that_is_none_is_refused(box, message):
    parts = boxed_patch([TAIL])
    parts.set(reference.BOXES, boxes_section([box]))
    with pytest.raises(Refused, match=message):
        apply_boxed(reference.read_patch(parts.assemble()), BASE)


def test_boxes_that_overlap_are_there_twice_or_out_of_order_are_refused():
    for boxes, message in (
        ([ROWS, Box(0, [16, 0], [8, 24])], "overlap"),
        ([TAIL, TAIL], "overlap"),
        ([TAIL, SCALAR], "not in the order"),
    ):
        with pytest.raises(Refused, match=message):
            cut_out(BASE, boxes)


def test_the_section_and_its_feature_bit_go_together(tmp_path):
    without_bit, without_section, without_boxes, trailing = (boxed_patch() for _ in range(4))
    without_bit.features = 0
    without_section.remove(reference.BOXES)
    without_boxes.set(reference.BOXES, boxes_section([]))
    trailing.set(reference.BOXES, craft.compressed(craft.varint(0) + b"x"))
    for parts in (without_bit, without_section, without_boxes, trailing):
        content = parts.assemble()
        with pytest.raises(Refused):
            reference.read_patch(content)
        (tmp_path / "p.skerry").write_bytes(content)
        done = subprocess.run([BINARY, "show", tmp_path / "p.skerry"], capture_output=True, text=True)
        assert done.returncode == 4, done.stderr
