"""What a tensor is without its values, as safetensors files describe it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch

# Names of safetensors and of torch, of what views read and make; all other tensors pass by their bytes.
_TORCH = {
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E8M0": "float8_e8m0fnu",
    "U8": "uint8",
}
_NAMES = {torch_name: name for name, torch_name in _TORCH.items()}
_BYTES = {"F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E8M0": 1, "U8": 1}

# Dtypes of weights: these are quantised, or served in another of them.
WEIGHTS = ("F32", "BF16", "F16")


class Form(NamedTuple):
    """`dtype` as safetensors names it; `shape` in elements of it."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return _BYTES[self.dtype] * math.prod(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


def form_of(tensor: torch.Tensor) -> Form:
    torch_name = str(tensor.dtype).removeprefix("torch.")
    return Form(_NAMES.get(torch_name, torch_name), tuple(tensor.shape))


def torch_dtype(name: str) -> torch.dtype:
    """Of a dtype that views read or make."""
    import torch

    return getattr(torch, _TORCH[name])


def shape_of(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(size) for size in shape)
