"""Versions of a checkpoint for the tests: bytes of safetensors files, with numpy alone (which knows no bf16)."""

import json
import os
import shutil
import struct

import numpy as np

UNITS = {"BF16": np.uint16, "F16": np.uint16, "F32": np.uint32, "U32": np.uint32, "U64": np.uint64}
CODES = {np.dtype(np.uint32): "U32", np.dtype(np.uint64): "U64"}


def read(path):
    """{name: (dtype, shape, array of the elements' bits)}"""
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, h in header.items():
        begin, end = (8 + size + o for o in h["data_offsets"])
        tensors[name] = (h["dtype"], h["shape"], np.frombuffer(data[begin:end], UNITS[h["dtype"]]).copy())
    return tensors


def write(path, tensors):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, bits) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + bits.nbytes]}
        offset += bits.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, bits in tensors.values():
            f.write(bits.tobytes())


def write_positions(path, changed):
    write(path, {name: (CODES[at.dtype], [len(at)], at) for name, at in changed.items()})


def changed_elements(old, new):
    """{name: ascending flat indices at which two checkpoints differ}"""
    found = {name: np.flatnonzero(old[name][2] != new[name][2]).astype(np.uint32) for name in new}
    return {name: at for name, at in found.items() if len(at)}


def make_versions(base, count, fraction=0.01, seed=1):
    """Directories BASE-v0 … and positions files BASE-v1.positions …

    Each version gives some elements of every tensor the value of another element of it."""
    rng = np.random.default_rng(seed)
    tensors = read(os.path.join(base, "model.safetensors"))
    directories = []
    for version in range(count):
        if version:
            before, tensors = tensors, dict(tensors)
            for name, (dtype, shape, bits) in tensors.items():
                bits = bits.copy()
                at = rng.choice(len(bits), max(1, int(len(bits) * fraction)), replace=False)
                bits[at] = bits[rng.permutation(at)]
                tensors[name] = (dtype, shape, bits)
            write_positions(f"{base}-v{version}.positions", changed_elements(before, tensors))
        directory = f"{base}-v{version}"
        shutil.copytree(base, directory, dirs_exist_ok=True)
        write(os.path.join(directory, "model.safetensors"), tensors)
        directories.append(directory)
    return directories
