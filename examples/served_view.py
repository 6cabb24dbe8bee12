"""The served view: the bf16 checkpoint that engines load, rounded from fp32 masters."""

from __future__ import annotations

import json
import mmap
import os
import shutil
from pathlib import Path

import torch


class ServedView:
    """A Hugging Face directory whose tensors are overwritten in place at every version.

    It begins as a copy of the base, so every version has the base's files, headers and tensor
    placement, and only tensor bytes ever change: the condition for shipping a version as a patch to
    the one before.
    """

    def __init__(self, base: Path, directory: Path) -> None:
        shutil.copytree(base, directory)
        self.directory = directory
        self._files = sorted(directory.glob("*.safetensors"))
        self._tensors: dict[str, torch.Tensor] = {}
        for path in self._files:
            self._tensors |= map_tensors(path)

    def write(self, masters: dict[str, torch.Tensor]) -> None:
        """Round the masters to bf16 (to nearest even) and store them.

        `masters` is a state dict: fp32 tensors with the base's names and shapes.
        """
        for name, served in self._tensors.items():
            served.copy_(masters[name])
        for path in self._files:
            os.utime(path)  # a write through a memory map does not always move the file's time


def map_tensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file by name, as bf16 views of the file itself.

    A write to one is a write to the file.

    A safetensors file is the header's length (8 bytes, little endian), the header (JSON: dtype,
    shape and byte range of every tensor), then the tensors' bytes.
    """
    with path.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    data = 8 + int.from_bytes(memory[:8], "little")
    header = json.loads(memory[8:data])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        if entry["dtype"] != "BF16":
            raise ValueError(f"{path}: {name} is {entry['dtype']}, and this view serves BF16 only")
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(
            memory, dtype=torch.bfloat16, offset=data + begin, count=(end - begin) // 2
        )
        tensors[name] = flat.view(entry["shape"])
    return tensors
