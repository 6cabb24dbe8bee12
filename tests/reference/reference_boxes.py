"""Patches over boxes of a model's tensors, as docs/patch-format.md has them: cut out, patched, laid back."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

from reference_checkpoint import Checkpoint, Layout, Refused, Tensor
from skerry_reference import Box, Patch, apply_patch


def name_of(tensor: Tensor, box: Box) -> str:
    axes = (f"{start}:{start + size}" for start, size in zip(box.start, box.size))
    return f"{tensor.name}[{','.join(axes)}]"


def runs_of(tensor: Tensor, box: Box) -> list[tuple[int, int]]:
    """Where the box's bytes lie among the tensor's: (begin, end) of each run, rising."""
    what, nbytes, bits = f"a box of tensor {tensor.name!r}", tensor.end - tensor.begin, tensor.dtype.element_bits
    if len(box.size) != len(tensor.shape):
        raise Refused(f"{what} has {len(box.size)} axes, but the tensor {len(tensor.shape)}")
    for start, size, axis in zip(box.start, box.size, tensor.shape):
        if size < 1 or start + size > axis:
            raise Refused(f"{what}: {start} to {start + size} of {axis} elements")
    strides = [1] * len(tensor.shape)
    for axis in range(len(strides) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * tensor.shape[axis + 1]
    inner = len(strides)  # the first axis within a run: all behind it are whole
    while inner > 0 and (inner == len(strides) or box.size[inner] == tensor.shape[inner]):
        inner -= 1
    length = strides[inner] * box.size[inner] if strides else 1
    outer = [range(start, start + size) for start, size in zip(box.start[:inner], box.size[:inner])]
    first = strides[inner] * box.start[inner] if strides else 0
    runs = []
    for at in itertools.product(*outer):
        begin = (first + sum(i * stride for i, stride in zip(at, strides))) * bits
        if begin % 8 or length * bits % 8:
            raise Refused(f"{what} cuts a byte")
        runs.append((begin // 8, (begin + length * bits) // 8))
    for begin, end in runs:
        if begin % 8 or (end % 8 and not (len(runs) == 1 and end == nbytes)):
            raise Refused(f"{what}: bytes {begin} to {end} cut a word")
    return runs


def cut_out(model: Checkpoint, boxes: Sequence[Box]) -> Checkpoint:
    """The boxes as a checkpoint of their own. They must be in the order of their names."""
    header, at, names, contents, places = {}, 0, [], [], {}
    for box in boxes:
        if box.ordinal >= len(model.tensors):
            raise Refused(f"a box of tensor {box.ordinal}, but the model has {len(model.tensors)}")
        tensor = model.layout.tensors[box.ordinal]
        for begin, end in runs_of(tensor, box):
            taken = places.setdefault(box.ordinal, bytearray(tensor.end - tensor.begin))
            if any(taken[begin:end]):
                raise Refused(f"two boxes of tensor {tensor.name!r} overlap")
            taken[begin:end] = b"\1" * (end - begin)
        contents.append(b"".join(model.tensors[box.ordinal][begin:end] for begin, end in runs_of(tensor, box)))
        names.append(name_of(tensor, box))
        header[names[-1]] = {
            "dtype": tensor.dtype.name,
            "shape": list(box.size),
            "data_offsets": [at, at + len(contents[-1])],
        }
        at += len(contents[-1])
    if names != sorted(names, key=str.encode):
        raise Refused(f"the boxes are not in the order of their names: {names[:5]}")
    return Checkpoint(Layout([("boxes.safetensors", json.dumps(header))]), contents, {})


def apply_boxed(patch: Patch, model: Checkpoint) -> Checkpoint:
    """The model with the patch's boxes moved to the target."""
    moved = apply_patch(patch, cut_out(model, patch.boxes))
    tensors = [bytearray(content) for content in model.tensors]
    for box, content in zip(patch.boxes, moved.tensors):
        at = 0
        for begin, end in runs_of(model.layout.tensors[box.ordinal], box):
            tensors[box.ordinal][begin:end] = content[at : at + end - begin]
            at += end - begin
    return Checkpoint(model.layout, [bytes(content) for content in tensors], dict(model.side_files))
