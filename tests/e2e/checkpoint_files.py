"""Checkpoint directories as files: writes them, and says what is in them without the product's help."""

import hashlib
import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

WIDTHS = {"BOOL": 1, "U8": 1, "F8_E4M3": 1, "BF16": 2, "F16": 2, "F32": 4, "I64": 8}


@dataclass
class Tensor:
    dtype: str
    shape: tuple
    data: bytes

    def __post_init__(self):
        assert len(self.data) == math.prod(self.shape) * WIDTHS[self.dtype]


def bf16(array):
    """A tensor from an array of bf16 bits."""
    array = np.ascontiguousarray(array, dtype="<u2")
    return Tensor("BF16", array.shape, array.tobytes())


def write_safetensors(path, tensors, metadata=None):
    """Writes the tensors in the order of the dict."""
    header, offset = {}, 0
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, tensor in tensors.items():
        end = offset + len(tensor.data)
        header[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.data)


def write_checkpoint(directory, tensors, shards=1, side_files=None, reverse=False):
    """A Hugging Face directory; `side_files` maps paths to texts. Returns the directory."""
    directory = Path(directory)
    directory.mkdir(parents=True)
    names = sorted(tensors, reverse=reverse)
    weight_map = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors" if shards > 1 else "model.safetensors"
        mine = names[shard::shards]
        write_safetensors(directory / file, {name: tensors[name] for name in mine}, {"format": "pt"})
        weight_map |= {name: file for name in mine}
    if shards > 1:
        total = sum(len(tensor.data) for tensor in tensors.values())
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        (directory / "model.safetensors.index.json").write_text(json.dumps(index, indent=2, sort_keys=True))
    for path, text in ({"config.json": '{"architectures": ["TestLM"]}'} | (side_files or {})).items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text)
    return directory


def sha256_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_of(directory):
    """Every file with its SHA-256, but for what the product keeps in .skerry: {relative path: hex}."""
    directory = Path(directory)
    found = {}
    for path in sorted(directory.rglob("*")):
        relative = path.relative_to(directory)
        if path.is_file() and relative.parts[0] != ".skerry":
            found[str(relative)] = sha256_of(path)
    return found


def assert_same_files(directory, wanted, note=""):
    """`wanted`: a directory, or what files_of said of one."""
    there = files_of(directory)
    wanted = wanted if isinstance(wanted, dict) else files_of(wanted)
    differing = sorted(path for path in there.keys() & wanted.keys() if there[path] != wanted[path])
    missing, extra = sorted(wanted.keys() - there.keys()), sorted(there.keys() - wanted.keys())
    assert there == wanted, f"{directory} {note}: differing {differing}, missing {missing}, extra {extra}"


def tensor_bytes(path, name):
    """Where a tensor's bytes are in its file: (begin, end)."""
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        begin, end = json.loads(file.read(size))[name]["data_offsets"]
    return 8 + size + begin, 8 + size + end


def flip_bit(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))
