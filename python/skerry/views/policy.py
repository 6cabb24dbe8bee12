"""Which frozen scales stay, and scales that are powers of two."""

from __future__ import annotations

import torch

_MANTISSA = (1 << 23) - 1
_EXPONENT = 0xFF << 23


def scaled_anew(
    kept: torch.Tensor, largest: torch.Tensor, reach: float, empty: float | None = None
) -> torch.Tensor:
    """Which blocks are scaled anew, where scales are frozen.

    A block keeps its scale as long as no weight clips. A weight clips where it is further from the largest code than
    rounding ever is: beyond `reach` times the scale, which is the largest code and half of the widest step next to it.
    A block that was all zero (`empty` is the scale of such) is scaled anew with its first other weight, which would
    vanish; and so is one with a scale that is none.

    `kept`: the scales before; `largest`: the largest magnitude of each block's weights; both F32 and of one shape.
    """
    anew = (largest > kept * reach) | ~(kept > 0) | torch.isinf(kept) | torch.isinf(1.0 / kept)
    if empty is not None:
        anew |= (kept == empty) & (largest > 0)
    return anew


def power_of_two_above(values: torch.Tensor) -> torch.Tensor:
    """The least power of two that is not below, of positive F32 values; 2^-126 for all that are below it."""
    bits = values.contiguous().view(torch.int32)
    return ((bits + _MANTISSA) & _EXPONENT).view(torch.float32)


def power_of_two_below(values: torch.Tensor) -> torch.Tensor:
    """The greatest power of two that is not above, of F32 values from 2^-126 on."""
    return (values.contiguous().view(torch.int32) & _EXPONENT).view(torch.float32)
