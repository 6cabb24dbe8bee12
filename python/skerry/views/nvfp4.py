"""NVFP4 as compressed-tensors quantises, names and packs it."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from skerry.views.compressed import E2M1_LARGEST, E2M1_REACH, Compressed
from skerry.views.form import Form
from skerry.views.formats import imported
from skerry.views.fp4 import packed_fp4
from skerry.views.policy import power_of_two_above, power_of_two_below, scaled_anew

_LARGEST_SCALE = 448.0
_POWERS_OF_TWO = (2.0**-9, 256.0)  # of E4M3
_EMPTY_GROUP = 0.125  # what the library makes of a group's scale that is zero
_EMPTY_TENSOR = 1.0  # and of the global scale of a tensor of zeros


class NvFp4(Compressed):
    """`X.weight_packed` U8 [rows, columns / 2], the first of two codes in the low bits; `X.weight_scale` F8_E4M3
    [rows, columns / 16]; `X.weight_global_scale` F32 [1]. A weight is code * weight_scale / weight_global_scale.

    A frozen global scale stays until a group needs a scale beyond the largest; then the whole tensor is scaled anew.
    """

    GROUP = 16

    def __init__(self) -> None:
        super().__init__("NVFP4A16", None, "nvfp4-pack-quantized")

    def unfit(self, shape: tuple[int, ...]) -> str:
        return f"rows of a multiple of {self.GROUP} weights" if shape[1] % self.GROUP else ""

    def forms(self, module: str, shape: tuple[int, ...]) -> dict[str, Form]:
        rows, columns = shape
        return {
            f"{module}.weight_packed": Form("U8", (rows, columns // 2)),
            f"{module}.weight_scale": Form("F8_E4M3", (rows, columns // self.GROUP)),
            f"{module}.weight_global_scale": Form("F32", (1,)),
        }

    def scales(self, module: str) -> tuple[str, ...]:
        return f"{module}.weight_scale", f"{module}.weight_global_scale"

    def quantize(
        self, module: str, weight: torch.Tensor, policy: str, before: Mapping[str, torch.Tensor] | None
    ) -> dict[str, torch.Tensor]:
        low, high = torch.aminmax(weight.unflatten(1, (-1, self.GROUP)), dim=-1)
        largest = torch.maximum(-low, high)
        stored, global_scale = None, None
        if policy == "frozen" and before is not None:
            stored, global_scale = (before[name] for name in self.scales(module))
            if bool(scaled_anew(1.0 / global_scale, largest.max(), _LARGEST_SCALE * E2M1_REACH, 1.0 / _EMPTY_TENSOR)):
                stored, global_scale = None, None
        if global_scale is None:
            global_scale = self._global_scale(low, high, policy == "power-of-two")
        scales = self.computed_scales(low, high, global_scale)
        if stored is not None:
            kept = ~scaled_anew(stored.float(), largest * global_scale, E2M1_REACH, _EMPTY_GROUP)
            scales = torch.where(kept, stored.float(), scales)
        elif policy == "power-of-two":
            # Of the scale before it is rounded to E4M3, which may be downwards.
            above = power_of_two_above(largest * global_scale / E2M1_LARGEST).clamp(*_POWERS_OF_TWO)
            scales = torch.where(largest > 0, above, scales)
        return {
            f"{module}.weight_packed": packed_fp4(weight, scales / global_scale, self.GROUP),
            f"{module}.weight_scale": scales.to(torch.float8_e4m3fn),
            f"{module}.weight_global_scale": global_scale,
        }

    @staticmethod
    def _global_scale(low: torch.Tensor, high: torch.Tensor, power_of_two: bool) -> torch.Tensor:
        library = imported("compressed_tensors.quantization.utils", "compressed-tensors", "generate_gparam")
        found = library.generate_gparam(low.min(), high.max())
        # With the largest group's scale at the greatest power of two.
        return power_of_two_below(found * (_POWERS_OF_TWO[1] / _LARGEST_SCALE)) if power_of_two else found
