"""Safetensors files for tests, of every dtype, by their bits."""

import json

import numpy as np

BITS = {
    "BF16": 16,
    "F16": 16,
    "F32": 32,
    "F64": 64,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F4": 4,
    "U8": 8,
    "I64": 64,
    "BOOL": 8,
    "C64": 64,
}


def safetensors_bytes(tensors):
    """The bytes of a file with {name: (dtype, shape, bytes)}."""
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        assert len(content) * 8 == int(np.prod(shape, dtype=np.int64)) * BITS[dtype], name
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def write_checkpoint(directory, tensors, **side_files):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "model.safetensors").write_bytes(safetensors_bytes(tensors))
    for name, text in side_files.items():
        (directory / f"{name}.json").write_text(text)
    return directory


def random_tensors(seed=1):
    """Some of each kind: large and small, packed, empty, scalar."""
    rng = np.random.default_rng(seed)
    shapes = {
        "model.embed": ("BF16", (300, 64)),
        "model.norm": ("F32", (64,)),
        "model.packed": ("F4", (4, 32)),
        "model.scales": ("F8_E8M0", (4, 2)),
        "model.quant": ("F8_E4M3", (16, 16)),
        "model.empty": ("BF16", (0, 64)),
        "model.temperature": ("F32", ()),
        "model.complex": ("C64", (3,)),
    }
    return {
        name: (dtype, shape, rng.bytes(int(np.prod(shape, dtype=np.int64)) * BITS[dtype] // 8))
        for name, (dtype, shape) in shapes.items()
    }


def changed(tensors, positions, seed=2):
    """The same tensors, other bits at byte positions {name: [byte, …]}."""
    rng = np.random.default_rng(seed)
    result = dict(tensors)
    for name, at in positions.items():
        dtype, shape, content = tensors[name]
        content = bytearray(content)
        for byte in at:
            content[byte] ^= int(rng.integers(1, 256))
        result[name] = (dtype, shape, bytes(content))
    return result
