#!/usr/bin/env python3
"""Writes the fuzz targets' seeds anew: `corpus/TARGET/`, a few small files each.

    python make_corpus.py

The targets container, block and kernel take numbers from the end of their input (libFuzzer's FuzzedDataProvider), so
their seeds are made in the order in which the target asks.
"""

import json
import shutil
import struct
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "reference")]

import craft  # noqa: E402
import skerry_reference as reference  # noqa: E402
from reference_checkpoint import DTYPE_OF_NAME, Checkpoint, Layout  # noqa: E402

TARGET_HEADER = (  # of container_fuzz.cc
    '{"a":{"dtype":"U8","shape":[140000],"data_offsets":[0,140000]},'
    '"b":{"dtype":"BF16","shape":[20,20],"data_offsets":[140000,140800]},'
    '"c":{"dtype":"F32","shape":[2,0],"data_offsets":[140800,140800]},'
    '"d":{"dtype":"F4","shape":[64],"data_offsets":[140800,140832]},'
    '"e":{"dtype":"F64","shape":[50],"data_offsets":[140832,141232]}}'
)


class Numbers:
    """What FuzzedDataProvider takes from the end of the input."""

    def __init__(self):
        self.taken = b""

    def integral(self, value: int, low: int, high: int) -> "Numbers":
        offset, size = value - low, 0
        while size < 8 and (high - low) >> (8 * size) > 0:
            size += 1
        self.taken += offset.to_bytes(size, "big")
        return self

    def boolean(self, value: bool) -> "Numbers":
        return self.integral(int(value), 0, 1)

    def after(self, rest: bytes) -> bytes:
        return rest + self.taken[::-1]


def safetensors():
    layout = Layout([("model.safetensors", TARGET_HEADER), ("b.safetensors", "{}  ")])
    return {
        "header": TARGET_HEADER.encode(),
        "metadata": b'{"__metadata__":{"format":"pt"},"\\u00e9\\ud83d\\udc0b":{"dtype":"F8_E4M3","shape":[],'
                    b'"data_offsets":[0,1]}} \n',
        "layout": layout.json(),
    }  # fmt: skip


def container():
    layout = Layout([("model.safetensors", TARGET_HEADER)])
    zeros = [bytes(tensor.end - tensor.begin) for tensor in layout.tensors]
    news = [bytearray(data) for data in zeros]
    for tensor, new in zip(layout.tensors, news):
        for position in range(0, tensor.units, 1 + tensor.units // 20):
            new[position * tensor.dtype.unit] = 1 + position % 200
    base = Checkpoint(layout, zeros, {"config.json": b"{}"})
    target = Checkpoint(layout, [bytes(new) for new in news], {"config.json": b"[]", "new.txt": b"x"})
    sparse = craft.encode_patch(base, target, cells_per_block=64)
    dense = craft.encode_patch(base, target, cells_per_block=1, dense={"b", "d", "e"}, names=False)
    whole = {"sparse": sparse.assemble(), "dense": dense.assemble()}
    dense.set(reference.LAYOUT, craft.compressed(layout.json()))
    whole["layout"] = dense.assemble()
    seeds = {f"whole_{name}": patch + b"\0" for name, patch in whole.items()}

    # Section contents, from the front; a string ends with a backslash and another character.
    patch = reference.read_patch(sparse.assemble())
    numbers = Numbers().boolean(True).boolean(False).boolean(True)
    numbers.integral(patch.changes, 0, 2**32 - 1).integral(patch.block_count, 0, 64)
    contents = [sparse.payloads]
    for kind in range(2, 7):
        present = kind in dict(sparse.sections)
        numbers.boolean(present)
        if present:
            section = sparse.get(kind)
            contents.append(section if kind < 4 else reference.decompressed(section, kind).rest())
    seeds["built"] = numbers.after(b"".join(raw.replace(b"\\", b"\\\\") + b"\\." for raw in contents))
    return seeds


def block():
    seeds = {}
    blocks = {"U8": (300, [0, 7, 299]), "BF16": (70_000, [5, 69_999]), "I64": (40, list(range(40)))}
    for name, (units, positions) in blocks.items():
        dtype = DTYPE_OF_NAME[name]
        counts = [200, 200] + [1] * 30
        share = [1 + count * 4064 // sum(counts) for count in counts]
        share[share.index(max(share))] += 4096 - sum(share)
        payload = craft.encode_sparse_flat(units, positions, [(i % 2, 0, 0) for i in range(len(positions))], share)
        numbers = Numbers().integral(dtype.code, 0, 21).boolean(True)
        large = units > 300
        numbers.integral(large, 0, 15).integral(units, 1, 70_000 if large else 300).integral(len(positions), 1, units)
        for count in counts:
            numbers.integral(count, 0, 255)
        seeds[f"decode_{name}"] = numbers.boolean(False).after(payload)
        numbers = Numbers().integral(dtype.code, 0, 21).boolean(False)
        numbers.integral(large, 0, 15).integral(units, 1, 70_000 if large else 300)
        seeds[f"encode_{name}"] = numbers.after(bytes(range(100)))
    return seeds


def kernel():
    seeds = {}
    for unit, flips in ((0, 3), (1, 0), (3, 40)):
        numbers = Numbers().integral(unit, 0, 3).integral(3, 0, 64).integral(17, 0, 64).integral(5, 0, 2**64 - 1)
        numbers.integral(9, 0, 255).integral(20, 1, 32).integral(flips, 0, 40)
        for flip in range(flips):
            numbers.integral(37 * flip, 0, 65535).integral(1 << flip % 8, 0, 255)
        seeds[f"unit_{1 << unit}"] = numbers.after(bytes(range(100)))
    return seeds


def manifest():
    digest, other = "ab" * 32, "0123456789abcdef" * 4
    reference_to = {"key": "runs/r/versions/000000007/delta-000-0123456789abcdef.skerry", "size": 9, "sha256": digest}
    whole = {
        "format": 1, "features": [], "run": "r", "version": 7, "parent": other, "time": "2026-01-01T00:00:00.000Z",
        "step": 3, "layout": digest, "model": other, "tensor_digests": reference_to,
        "side_files": [{"path": "config.json", "size": 2, "sha256": digest}],
        "edges": [{"kind": "delta", "from": 6, "base_model": digest, "objects": [reference_to]}],
        "anchor": {"files": [{"path": "model.safetensors",
                              "object": {"uri": "file:///base/model.safetensors", "size": 1, "sha256": other}}]},
        "nearest_anchor": 7,
        "stats": {"elements": 9, "changed": 1, "tensors_changed": 1, "checkpoint_bytes": 18, "patch_bytes": 400},
    }  # fmt: skip
    head = {
        "format": 1, "run": "r", "epoch": 1, "version": 7, "manifest": {"key": "runs/r/m.json", "sha256": digest},
        "model": other, "publisher": "p", "nonce": "n", "sequence": 3, "time": "2026-01-01T00:00:00.000Z",
    }  # fmt: skip
    run = {"format": 1, "run": "r", "base": "a model", "layout": digest,
           "parent": {"run": "q", "version": 3, "manifest": other}}  # fmt: skip
    documents = {"manifest": whole, "head": head, "run": run, "board": {"format": 1, "id": "0123"}}
    seeds = {name: json.dumps(document, separators=(",", ":")).encode() for name, document in documents.items()}
    seeds["layout"] = craft.compressed(TARGET_HEADER.encode())[2:]
    assert struct.unpack("<I", seeds["layout"][:4]) == (0xFD2FB528,)
    return seeds


def main():
    shutil.rmtree(HERE / "corpus", ignore_errors=True)
    for make in (safetensors, container, block, kernel, manifest):
        (HERE / "corpus" / make.__name__).mkdir(parents=True)
        for name, seed in make().items():
            (HERE / "corpus" / make.__name__ / name).write_bytes(seed)


if __name__ == "__main__":
    sys.exit(main())
