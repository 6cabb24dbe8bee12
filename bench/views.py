#!/usr/bin/env python3
"""Turns a chain of bf16 Hugging Face checkpoints (v000, v001, ...) into a chain of a quantised view of them.

usage: views.py fp8-block CHAIN OUT [--scales fixed|recomputed] [--block 128]
       views.py mxfp4 CHAIN OUT [--scales fixed|recomputed] [--packed-as f4|u8]
       views.py nf4 CHAIN OUT [--scales fixed|recomputed]
       views.py scales-move CHAIN OUT [--block 128]

fp8-block    every matrix as F8_E4M3 codes with an F32 scale a block (NAME_scale_inv: weight = code * scale), as
             DeepSeek's checkpoints have them. Scales are amax / 448 of each version, or stay those of v000, where codes
             that no longer fit saturate.
mxfp4        every matrix whose rows are multiples of 32 as F4 (E2M1) codes, two a byte, the first in the low bits, with
             an F8_E8M0 scale for 32 elements of a row (NAME_scale), by the rule of the OCP MX specification. As u8 the
             same bytes are U8 tensors (NAME_packed, NAME_scale), as compressed-tensors and others store them.
nf4          every matrix of a multiple of 64 elements as NF4 codes, two a byte in a U8 tensor [n / 2, 1], the first in
             the high bits, with the largest magnitude of 64 elements in F32 (NAME.absmax), as bitsandbytes stores them.
scales-move  the fp8 view of v000, whose scales all move by 1 to 200 units in the last place at every version, while no
             code changes. The draws are the same each time.

Everything that is not such a matrix is copied. Needs numpy and ml_dtypes (requirements-bench.txt).
"""

import argparse
import json
import shutil
import struct
import sys
from pathlib import Path

import ml_dtypes
import numpy as np

FP8_MAX = 448.0  # of E4M3 without infinities
F4_MAX = 6.0
F4_MAX_EXPONENT = 2
MX_BLOCK = 32
NF4_BLOCK = 64
# The levels of NF4 (QLoRA, arXiv:2305.14314, appendix E); a weight becomes the nearest one.
NF4_LEVELS = np.array(
    [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
     -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
     0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0], np.float32)  # fmt: skip


def read_shard(path):
    """[(name, dtype, shape, bytes)] in the order of the data, and the file's metadata."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__", None)
    body = memoryview(data)[8 + length :]
    tensors = []
    for name, info in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = info["data_offsets"]
        tensors.append((name, info["dtype"], info["shape"], body[begin:end]))
    return tensors, metadata


def write_shard(path, tensors, metadata):
    header, offset = {}, 0
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, _, data in tensors:
            file.write(data)


def blocks_of(matrix, block):
    """The matrix padded with zeros to whole blocks, as [row block, row, column block, column]."""
    rows, columns = (-(-size // block) for size in matrix.shape)
    padded = np.zeros((rows * block, columns * block), np.float32)
    padded[: matrix.shape[0], : matrix.shape[1]] = matrix
    return padded.reshape(rows, block, columns, block)


def fp8_scales(matrix, block):
    largest = np.abs(blocks_of(matrix, block)).max(axis=(1, 3))
    return np.where(largest > 0, largest / np.float32(FP8_MAX), np.float32(1)).astype(np.float32)


def fp8_codes(matrix, scales, block):
    scaled = blocks_of(matrix, block) / scales[:, None, :, None]
    scaled = scaled.reshape(scales.shape[0] * block, -1)[: matrix.shape[0], : matrix.shape[1]]
    return np.clip(scaled, -FP8_MAX, FP8_MAX).astype(ml_dtypes.float8_e4m3fn)


def mxfp4_scales(matrix):
    """The exponents of the scales: biased by 127 they are the scale bytes."""
    largest = np.abs(matrix.reshape(matrix.shape[0], -1, MX_BLOCK)).max(axis=2)
    exponent = np.frexp(largest)[1] - 1  # floor(log2), exact
    return np.where(largest > 0, exponent - F4_MAX_EXPONENT, -127).clip(-127, 127)


def mxfp4_codes(matrix, exponent):
    rows = matrix.reshape(matrix.shape[0], -1, MX_BLOCK)
    scaled = np.clip(np.ldexp(rows, -exponent[:, :, None]), -F4_MAX, F4_MAX)
    codes = scaled.reshape(matrix.shape).astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
    return codes[:, 0::2] | codes[:, 1::2] << 4


def nf4_scales(matrix):
    return np.abs(matrix.reshape(-1, NF4_BLOCK)).max(axis=1)


def nf4_codes(matrix, absmax):
    scaled = matrix.reshape(-1, NF4_BLOCK) / np.where(absmax > 0, absmax, 1)[:, None]
    codes = np.searchsorted((NF4_LEVELS[1:] + NF4_LEVELS[:-1]) / 2, scaled.reshape(-1)).astype(np.uint8)
    return codes[0::2] << 4 | codes[1::2]


class View:
    def __init__(self, kind, scales, block, packed_as):
        self.kind, self.recompute, self.block, self.packed_as = kind, scales == "recomputed", block, packed_as
        self.scales = {}  # of v000, or as they have moved
        self.codes = {}  # of v000, where they do not change
        self.random = np.random.default_rng(20261129)

    def convert(self, name, dtype, shape, data):
        if dtype != "BF16" or len(shape) != 2 or 0 in shape:
            if self.kind == "scales-move":
                data = self.codes.setdefault(name, data)
            return [(name, dtype, shape, data)]
        matrix = np.frombuffer(data, ml_dtypes.bfloat16).reshape(shape).astype(np.float32)
        if self.kind in ("mxfp4", "nf4"):
            return self.packed(name, dtype, shape, data, matrix)
        if name not in self.scales or self.recompute:
            self.scales[name] = fp8_scales(matrix, self.block)
        elif self.kind == "scales-move":
            steps = self.random.integers(1, 201, self.scales[name].shape)
            steps *= self.random.choice([-1, 1], steps.shape)
            self.scales[name] = (self.scales[name].view(np.int32) + steps.astype(np.int32)).view(np.float32)
        scales = self.scales[name]
        if self.kind == "scales-move":
            if name not in self.codes:
                self.codes[name] = fp8_codes(matrix, scales, self.block).tobytes()
            codes = self.codes[name]
        else:
            codes = fp8_codes(matrix, scales, self.block).tobytes()
        return [(name, "F8_E4M3", shape, codes), (name + "_scale_inv", "F32", scales.shape, scales.tobytes())]

    def packed(self, name, dtype, shape, data, matrix):
        nf4 = self.kind == "nf4"
        if (matrix.size % NF4_BLOCK if nf4 else shape[1] % MX_BLOCK) != 0:
            return [(name, dtype, shape, data)]
        if name not in self.scales or self.recompute:
            self.scales[name] = nf4_scales(matrix) if nf4 else mxfp4_scales(matrix)
        scales = self.scales[name]
        if nf4:
            codes = nf4_codes(matrix, scales)
            return [
                (name, "U8", (codes.size, 1), codes.tobytes()),
                (name + ".absmax", "F32", scales.shape, scales.tobytes()),
            ]
        codes = mxfp4_codes(matrix, scales).tobytes()
        scale_bytes = (scales + 127).astype(np.uint8).tobytes()
        if self.packed_as == "u8":
            return [
                (name + "_packed", "U8", (shape[0], shape[1] // 2), codes),
                (name + "_scale", "U8", scales.shape, scale_bytes),
            ]
        return [(name, "F4", shape, codes), (name + "_scale", "F8_E8M0", scales.shape, scale_bytes)]

    def version(self, source, target):
        target.mkdir(parents=True)
        weight_map, total = {}, 0
        for path in sorted(source.iterdir()):
            if path.suffix == ".safetensors":
                tensors, metadata = read_shard(path)
                made = [part for tensor in tensors for part in self.convert(*tensor)]
                write_shard(target / path.name, made, metadata)
                weight_map.update({part[0]: path.name for part in made})
                total += sum(len(part[3]) for part in made)
            elif not path.name.endswith(".index.json"):
                shutil.copy(path, target / path.name)
        for path in source.glob("*.index.json"):
            index = {"metadata": {"total_size": total}, "weight_map": weight_map}
            (target / path.name).write_text(json.dumps(index, indent=2, sort_keys=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["fp8-block", "mxfp4", "nf4", "scales-move"])
    parser.add_argument("chain", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--scales", choices=["fixed", "recomputed"], default="fixed")
    parser.add_argument("--block", type=int, default=128)
    parser.add_argument("--packed-as", choices=["f4", "u8"], default="f4")
    arguments = parser.parse_args()
    versions = sorted(path for path in arguments.chain.glob("v[0-9]*") if path.is_dir())
    if not versions:
        sys.exit(f"views.py: no version directories (v000, ...) in {arguments.chain}")
    view = View(arguments.kind, arguments.scales, arguments.block, arguments.packed_as)
    for path in versions:
        view.version(path, arguments.out / path.name)


if __name__ == "__main__":
    main()
