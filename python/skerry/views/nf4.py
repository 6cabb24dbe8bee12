"""NF4 as bitsandbytes quantises it and transformers saves it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from skerry.views.form import Form, torch_dtype
from skerry.views.formats import Format, bands, imported
from skerry.views.policy import power_of_two_above, scaled_anew

BLOCK = 64
_LEAST = 1e-38  # by which the library divides where the largest weight of a block is less
_STATE = "quant_state.bitsandbytes__nf4"


class Nf4(Format):
    """Blocks of 64 weights, row after row (they may cross rows), each a code of four bits for one of 16 numbers:

    - `X.weight` U8 [count / 2, 1], the first of two codes in the high bits;
    - `X.weight.absmax` F32 [ceil(count / 64)]: a weight is table[code] * absmax;
    - `X.weight.quant_map` F32 [16], the table; `X.weight.quant_state.bitsandbytes__nf4` U8, JSON: shape, dtype, block.

    `dtype`: what the quant state says that weights are unpacked to.
    """

    def __init__(self, dtype: str) -> None:
        self._dtype = dtype

    def unfit(self, shape: tuple[int, ...]) -> str:
        return "an even number of weights" if shape[0] * shape[1] % 2 else ""

    def forms(self, module: str, shape: tuple[int, ...]) -> dict[str, Form]:
        count = shape[0] * shape[1]
        state = self._state(torch.empty(0), shape)
        return {
            f"{module}.weight": Form("U8", (count // 2, 1)),
            f"{module}.weight.absmax": Form("F32", (-(-count // BLOCK),)),
            f"{module}.weight.quant_map": Form("F32", tuple(state["quant_map"].shape)),
            f"{module}.weight.{_STATE}": Form("U8", tuple(state[_STATE].shape)),
        }

    def scales(self, module: str) -> tuple[str, ...]:
        return (f"{module}.weight.absmax",)

    def quantize(
        self, module: str, weight: torch.Tensor, policy: str, before: Mapping[str, torch.Tensor] | None
    ) -> dict[str, torch.Tensor]:
        flat = weight.reshape(-1)
        kept = before[f"{module}.weight.absmax"] if policy == "frozen" and before is not None else None
        codes, scales = [], []
        for band in bands(flat.numel(), 1, BLOCK):
            piece = flat[band]
            if kept is not None:
                absmax = _frozen(piece, kept[band.start // BLOCK : -(-band.stop // BLOCK)])
                made = _packed(piece, absmax)
            elif policy == "power-of-two":
                absmax = power_of_two_above(_largest(piece))
                made = _packed(piece, absmax)
            else:
                made, absmax = _by_bitsandbytes(piece)
            codes.append(made)
            scales.append(absmax)
        absmax = torch.cat(scales)
        state = self._state(absmax, tuple(weight.shape))
        return {
            f"{module}.weight": torch.cat(codes),
            f"{module}.weight.absmax": absmax,
            f"{module}.weight.quant_map": state["quant_map"],
            f"{module}.weight.{_STATE}": state[_STATE],
        }

    def config(self, left_alone: list[str]) -> dict[str, Any]:
        return {
            "quant_method": "bitsandbytes",
            "load_in_4bit": True,
            "load_in_8bit": False,
            "bnb_4bit_quant_type": "nf4",
            "bnb_4bit_use_double_quant": False,
            "bnb_4bit_compute_dtype": str(torch_dtype(self._dtype)).removeprefix("torch."),
            "bnb_4bit_quant_storage": "uint8",
            "llm_int8_enable_fp32_cpu_offload": False,
            "llm_int8_has_fp16_weight": False,
            "llm_int8_skip_modules": left_alone,
            "llm_int8_threshold": 6.0,
        }

    def _state(self, absmax: torch.Tensor, shape: tuple[int, ...]) -> dict[str, Any]:
        library = imported("bitsandbytes.functional", "bitsandbytes", "QuantState", "get_4bit_type")
        state = library.QuantState(
            absmax=absmax,
            shape=torch.Size(shape),
            code=library.get_4bit_type("nf4", device="cpu"),
            blocksize=BLOCK,
            quant_type="nf4",
            dtype=torch_dtype(self._dtype),
        )
        return state.as_dict(packed=True)


def _by_bitsandbytes(piece: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    library = imported("bitsandbytes.functional", "bitsandbytes", "quantize_4bit")
    codes, state = library.quantize_4bit(piece, blocksize=BLOCK, quant_type="nf4", compress_statistics=False)
    return codes, state.absmax


def _table() -> torch.Tensor:
    return imported("bitsandbytes.functional", "bitsandbytes", "get_4bit_type").get_4bit_type("nf4", device="cpu")


def _reach() -> float:
    """1, the largest code, and half of the smaller step next to 1 and -1."""
    table = _table()
    return 1.0 + float(torch.minimum(table[-1] - table[-2], table[1] - table[0])) / 2


def _largest(piece: torch.Tensor) -> torch.Tensor:
    """What bitsandbytes takes for absmax."""
    whole, rest = piece[: _whole(piece)].reshape(-1, BLOCK).abs(), piece[_whole(piece) :].abs()
    largest = [whole.amax(dim=1)] if len(whole) else []
    if len(rest):
        largest.append(rest.amax().clamp(min=_LEAST).reshape(1))
    return torch.cat(largest)


def _frozen(piece: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    largest = _largest(piece)
    return torch.where(scaled_anew(kept, largest, _reach()), largest, kept)


def _packed(piece: torch.Tensor, absmax: torch.Tensor) -> torch.Tensor:
    """As bitsandbytes rounds and packs, but with these scales: the library has no way to be given them."""
    table = _table()
    whole = _whole(piece)
    inverse = 1.0 / absmax.clamp(min=_LEAST)
    scaled = piece[:whole].reshape(-1, BLOCK) * inverse[: whole // BLOCK, None]
    # It multiplies whole blocks, and divides a last one that is not.
    scaled = torch.cat([scaled.reshape(-1), piece[whole:] / absmax[-1]]).clamp(-1, 1)
    codes = torch.bucketize(scaled, (table[:-1] + table[1:]) / 2, out_int32=True).to(torch.uint8)
    return (codes[::2] << 4 | codes[1::2]).unsqueeze(1)


def _whole(piece: torch.Tensor) -> int:
    """How many of the weights are in whole blocks."""
    return piece.numel() // BLOCK * BLOCK
