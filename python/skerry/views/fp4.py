"""Packed FP4 (E2M1) codes, as compressed-tensors makes them."""

from __future__ import annotations

import torch

from skerry.views.formats import bands

# A magnitude's code is the number of these that it has passed: half way between the numbers that codes stand for (0,
# 0.5, 1, 1.5, 2, 3, 4, 6). One that is just half way gets the even code.
_FROM = (0.75, 1.75, 3.5)
_ABOVE = (0.25, 1.25, 2.5, 5.0)


def packed_fp4(weight: torch.Tensor, scales: torch.Tensor, group: int) -> torch.Tensor:
    """U8 [rows, columns / 2], the first of two codes in the low bits, of F32 weights divided by the scales of their
    groups, F32 [rows, columns / group].

    The library's own rounding and packing give the same bytes (a test compares them), but take 100 times as long: they
    look for the nearest of eight numbers by their distances, and want a C++ compiler on the machine.
    """
    packed = torch.empty(weight.shape[0], weight.shape[1] // 2, dtype=torch.uint8)
    for rows in bands(*weight.shape):
        scaled = (weight[rows].unflatten(1, (-1, group)) / scales[rows].unsqueeze(-1)).flatten(1)
        magnitude = scaled.abs()
        codes = (scaled < 0).view(torch.uint8) << 3
        for limit in _FROM:
            codes += (magnitude >= limit).view(torch.uint8)
        for limit in _ABOVE:
            codes += (magnitude > limit).view(torch.uint8)
        packed[rows] = codes[:, ::2] | codes[:, 1::2] << 4
    return packed
