"""FP8 codes with a scale for each block of 128 x 128 weights, as transformers quantises and names them."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

import torch

from skerry.views.form import Form
from skerry.views.formats import Format, bands, imported
from skerry.views.policy import scaled_anew

BLOCK = 128
_LARGEST = 448.0
_REACH = 464.0  # half a step above: 448 - 416 is 32
_EMPTY = 1.0  # the scale of a block of zeros


class Fp8Block(Format):
    """`X.weight` F8_E4M3 and `X.weight_scale_inv` [ceil(rows/128), ceil(columns/128)], F32; F8_E8M0 where scales are
    powers of two, as transformers does for scale_fmt "ue8m0". A weight is code * scale.

    Blocks at the edges are smaller: they are quantised as if filled up with zeros. (transformers itself leaves weights
    whose sizes are no multiples of 128 unquantised.)
    """

    def __init__(self, policy: str) -> None:
        self._power_of_two = policy == "power-of-two"

    def unfit(self, shape: tuple[int, ...]) -> str:
        return ""

    def forms(self, module: str, shape: tuple[int, ...]) -> dict[str, Form]:
        grid = tuple(-(-size // BLOCK) for size in shape)
        return {
            f"{module}.weight": Form("F8_E4M3", shape),
            f"{module}.weight_scale_inv": Form("F8_E8M0" if self._power_of_two else "F32", grid),
        }

    def scales(self, module: str) -> tuple[str, ...]:
        return (f"{module}.weight_scale_inv",)

    def kept(self, module: str) -> tuple[str, ...]:
        return f"{module}.weight_scale_inv", f"{module}.weight"

    def quantize(
        self, module: str, weight: torch.Tensor, policy: str, before: Mapping[str, torch.Tensor] | None
    ) -> dict[str, torch.Tensor]:
        code_name, scale_name = self.forms(module, tuple(weight.shape))
        codes = torch.empty(weight.shape, dtype=torch.float8_e4m3fn)
        scales = []
        for band in bands(*weight.shape, BLOCK):
            if policy == "frozen" and before is not None:
                rows = slice(band.start // BLOCK, -(-band.stop // BLOCK))
                codes[band], made = _frozen(weight[band], before[scale_name][rows], before[code_name][band])
            else:
                codes[band], made = self._by_transformers(weight[band])
            scales.append(made)
        return {code_name: codes, scale_name: torch.cat(scales)}

    def config(self, left_alone: list[str]) -> dict[str, Any]:
        return {
            "quant_method": "fp8",
            "fmt": "e4m3",
            "activation_scheme": "dynamic",
            "weight_block_size": [BLOCK, BLOCK],
            "modules_to_not_convert": left_alone,
            **({"scale_fmt": "ue8m0"} if self._power_of_two else {}),
        }

    def _by_transformers(self, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        library = imported("transformers.integrations.finegrained_fp8", "transformers", "Fp8Quantize")
        options = types.SimpleNamespace(
            weight_block_size=(BLOCK, BLOCK), scale_fmt="ue8m0" if self._power_of_two else "float"
        )
        padded = _padded(weight)
        if not self._power_of_two:
            padded = _without_overflow(padded)
        quantizer = library.Fp8Quantize(types.SimpleNamespace(quantization_config=options))
        made = quantizer.convert({"weight": padded})
        return made["weight"][: weight.shape[0], : weight.shape[1]], made["weight_scale_inv"]


def _padded(weight: torch.Tensor) -> torch.Tensor:
    rows, columns = (-size % BLOCK for size in weight.shape)
    return torch.nn.functional.pad(weight, (0, columns, 0, rows)) if rows or columns else weight


def _in_blocks(padded: torch.Tensor) -> torch.Tensor:
    return padded.reshape(padded.shape[0] // BLOCK, BLOCK, padded.shape[1] // BLOCK, BLOCK)


def _without_overflow(padded: torch.Tensor) -> torch.Tensor:
    """Blocks whose largest weight is so small (below 1.4e-36) that 448 divided by it is infinite, as zeros:
    transformers multiplies by that, which is no number where a weight is zero.
    """
    blocks = _in_blocks(padded)
    largest = blocks.abs().amax(dim=(1, 3))
    overflows = torch.isinf(_LARGEST / largest) & (largest > 0)
    if not overflows.any():
        return padded
    return torch.where(overflows[:, None, :, None], blocks * 0.0, blocks).reshape(padded.shape)


def _frozen(weight: torch.Tensor, kept: torch.Tensor, codes_before: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """With the scales kept but where a weight would clip; these blocks are scaled by transformers' rule."""
    padded = _padded(weight)
    blocks = _in_blocks(padded)
    largest = blocks.abs().amax(dim=(1, 3))
    forward = _LARGEST / largest
    forward = torch.where((largest == 0) | torch.isinf(forward), torch.ones_like(forward), forward)
    anew = scaled_anew(kept, largest, _REACH, _EMPTY)
    scales = torch.where(anew, 1.0 / forward, kept)
    forward = torch.where(anew, forward, 1.0 / kept)
    codes = _rounded(blocks * forward[:, None, :, None]).reshape(padded.shape)[: weight.shape[0], : weight.shape[1]]
    return _with_ties_kept(codes, codes_before, weight, forward, ~anew), scales


def _with_ties_kept(
    codes: torch.Tensor, before: torch.Tensor, weight: torch.Tensor, forward: torch.Tensor, kept: torch.Tensor
) -> torch.Tensor:
    """In blocks whose scale is kept, weights that lie on the boundary of two codes keep the one that they had: where
    that is what a factor gives that is one unit in the last place more or less. diff/fp8_block.h does the same.

    Many do lie there, as BF16 has few bits: 0.02 % of a model. The first version is made with transformers' factor, all
    others with the inverse of the scale, which is that rounded twice, and would tip them over.
    """
    rows, columns = (codes.view(torch.uint8) != before.view(torch.uint8)).nonzero(as_tuple=True)
    block = rows // BLOCK, columns // BLOCK
    weights, factors, old = weight[rows, columns], forward[block], before.view(torch.uint8)[rows, columns]
    stays = torch.zeros_like(rows, dtype=torch.bool)
    for towards in (torch.inf, 0.0):
        factor = torch.nextafter(factors, torch.tensor(towards))
        stays |= _rounded(weights * factor).view(torch.uint8) == old
    stays &= kept[block]
    codes = codes.clone()
    codes[rows[stays], columns[stays]] = before[rows[stays], columns[stays]]
    return codes


def _rounded(scaled: torch.Tensor) -> torch.Tensor:
    return scaled.clamp(-_LARGEST, _LARGEST).to(torch.float8_e4m3fn)
