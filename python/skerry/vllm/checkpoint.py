"""Reads a Hugging Face safetensors directory, tensor by tensor, mapped and not copied."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterable, Iterator

import torch
from safetensors import safe_open

INDEX = "model.safetensors.index.json"


class Checkpoint:
    """The tensors of a directory. Files stay open (mapped) until close(), and open again when asked;
    not for several threads at once."""

    def __init__(self, directory: str):
        self.directory = directory
        self._open: dict[str, safe_open] = {}
        index = os.path.join(directory, INDEX)
        if os.path.exists(index):
            with open(index) as f:
                self.where: dict[str, str] = dict(json.load(f)["weight_map"])
        else:
            self.where = {}
            for path in sorted(glob.glob(os.path.join(directory, "*.safetensors"))):
                for name in self._file(os.path.basename(path)).keys():
                    self.where[name] = os.path.basename(path)
        if not self.where:
            raise ValueError(f"no safetensors file in {directory!r}")

    def _file(self, name: str):
        if name not in self._open:
            self._open[name] = safe_open(os.path.join(self.directory, name), "pt")
        return self._open[name]

    def __contains__(self, name: str) -> bool:
        return name in self.where

    def tensor(self, name: str) -> torch.Tensor:
        return self._file(self.where[name]).get_tensor(name)

    def items(self, names: Iterable[str] | None = None) -> Iterator[tuple[str, torch.Tensor]]:
        """Name and tensor, file by file, so that a reader that frees what it has used stays small."""
        order = self.where if names is None else names
        for name in sorted(order, key=lambda n: self.where[n]):
            yield name, self.tensor(name)

    def close(self) -> None:
        self._open.clear()


def read_positions(path: str) -> dict[str, torch.Tensor]:
    """Changed elements: for each tensor of the checkpoint its ascending flat indices, uint32 or uint64."""
    with safe_open(path, "pt") as f:
        indices = {name: f.get_tensor(name) for name in f.keys()}
    for name, tensor in indices.items():
        if tensor.dtype not in (torch.uint32, torch.uint64) or tensor.dim() != 1:
            raise ValueError(f"positions of {name!r}: {tensor.dtype}, {tensor.dim()} dimensions; want U32 or U64, one")
    return indices


def raw(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's bytes, flat, sharing its memory. The tensor is contiguous."""
    return tensor.detach().view(-1).view(torch.uint8)
