"""FP8, MXFP8 and MXFP4 as compressed-tensors quantises, names and packs them. NVFP4 is in nvfp4.py."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from typing import Any

import torch

from skerry.errors import Invalid
from skerry.views.form import Form
from skerry.views.formats import Format, bands, imported
from skerry.views.fp4 import packed_fp4
from skerry.views.policy import power_of_two_above, scaled_anew

E4M3_REACH = 464.0  # the largest code is 448, half of the step below it 16
E2M1_LARGEST = 6.0
E2M1_REACH = 7.0  # half of the step below 6 is 1
_GROUP = 32
_E8M0_REACH = 1.75 * 2.0**127  # from here on the library's scale is 255, which is no number


class Compressed(Format):
    """What the formats of this library share. All is computed in F32, so it is what the library makes of a model in
    F32: a run's first version is made from BF16 files, the next ones from F32 masters, and equal weights must give
    equal bytes.
    """

    def __init__(self, weights: str, activations: str | None, storage: str) -> None:
        """`weights`, `activations`: of which preset of the library; None: weights alone are quantised. `storage`: its
        CompressionFormat.
        """
        self._weights, self._activations, self._storage = weights, activations, storage

    @functools.cached_property
    def _scheme(self) -> Any:
        """The library's QuantizationScheme for all linear layers."""
        library = imported("compressed_tensors.quantization", "compressed-tensors", "preset_name_to_scheme")
        scheme = library.preset_name_to_scheme(self._weights, ["Linear"])
        activations = self._activations and library.preset_name_to_scheme(self._activations, ["Linear"])
        scheme.input_activations = activations.input_activations if activations else None
        scheme.format = self._storage
        return scheme

    def config(self, left_alone: list[str]) -> dict[str, Any]:
        library = imported("compressed_tensors.quantization", "compressed-tensors", "QuantizationConfig")
        config = library.QuantizationConfig(
            config_groups={"group_0": copy.deepcopy(self._scheme)},
            format=self._storage,
            quantization_status="compressed",
            ignore=left_alone,
        )
        version = imported("compressed_tensors", "compressed-tensors", "__version__").__version__
        return {"version": version, "sparsity_config": {}, "transform_config": {}, **config.model_dump(mode="json")}

    def computed_scales(
        self, low: torch.Tensor, high: torch.Tensor, global_scale: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The library's, as F32, of blocks whose least and largest weights these are."""
        library = imported("compressed_tensors.quantization.utils", "compressed-tensors", "calculate_qparams")
        return library.calculate_qparams(low, high, self._scheme.weights, global_scale=global_scale)[0]

    def fp8_codes(self, weight: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        """The library's, with one scale for all or some for each row. It always adds zero points, which are zero here:
        that makes a negative zero positive.
        """
        library = imported("compressed_tensors.compressors", "compressed-tensors", "BaseCompressor")
        compressor = library.BaseCompressor.get_value_from_registry(self._storage)
        codes = torch.empty(weight.shape, dtype=torch.float8_e4m3fn)
        for rows in bands(*weight.shape):
            of_rows = scales if scales.ndim == 1 else scales[rows]
            module = {"weight": weight[rows], "weight_scale": of_rows, "weight_zero_point": torch.zeros_like(of_rows)}
            codes[rows] = compressor.compress(module, self._scheme)["weight"]
        return codes


class Scaled(Compressed):
    """With one scale a block: `X.weight` F8_E4M3 or, of four bits, `X.weight_packed` U8 [rows, columns / 2], the first
    of two codes in the low bits; `X.weight_scale`. A weight is code * scale.
    """

    def __init__(self, block: str, bits: int, weights: str, activations: str | None, storage: str) -> None:
        """`block`: "tensor", scale F32 [1]; "row", F32 [rows, 1]; "group" of 32 in a row, U8 [rows, columns / 32], of
        exponents: a scale is 2^(byte - 127).
        """
        super().__init__(weights, activations, storage)
        self._block, self._bits = block, bits
        self._code_name = "weight" if bits == 8 else "weight_packed"
        self._reach = E4M3_REACH if bits == 8 else E2M1_REACH
        # What the library makes of a scale of zero. Of groups it is the least one, which every weight but zero exceeds.
        self._empty = None if block == "group" else torch.finfo(torch.float32).eps

    def unfit(self, shape: tuple[int, ...]) -> str:
        return f"rows of a multiple of {_GROUP} weights" if self._block == "group" and shape[1] % _GROUP else ""

    def forms(self, module: str, shape: tuple[int, ...]) -> dict[str, Form]:
        rows, columns = shape
        scales = {
            "tensor": Form("F32", (1,)),
            "row": Form("F32", (rows, 1)),
            "group": Form("U8", (rows, columns // _GROUP)),
        }
        codes = Form("F8_E4M3", shape) if self._bits == 8 else Form("U8", (rows, columns // 2))
        return {f"{module}.{self._code_name}": codes, f"{module}.weight_scale": scales[self._block]}

    def scales(self, module: str) -> tuple[str, ...]:
        return (f"{module}.weight_scale",)

    def quantize(
        self, module: str, weight: torch.Tensor, policy: str, before: Mapping[str, torch.Tensor] | None
    ) -> dict[str, torch.Tensor]:
        low, high = self._extremes(weight)
        scales = self.computed_scales(low, high)
        largest = torch.maximum(-low, high).reshape(scales.shape)
        if self._block == "group" and bool((largest >= _E8M0_REACH).any()):
            most = f"groups of this view hold less than {_E8M0_REACH:g}"
            raise Invalid(f"{module}.weight: a weight of {largest.max().item():g}, but {most}")
        if policy == "frozen" and before is not None:
            kept = self._unstored(before[f"{module}.weight_scale"])
            scales = torch.where(scaled_anew(kept, largest, self._reach, self._empty), scales, kept)
        elif policy == "power-of-two":
            scales = power_of_two_above(scales) if self._block != "group" else scales
        codes = self.fp8_codes(weight, scales) if self._bits == 8 else packed_fp4(weight, scales, _GROUP)
        return {f"{module}.{self._code_name}": codes, f"{module}.weight_scale": self._stored(scales)}

    def _extremes(self, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if self._block == "tensor":
            return tuple(torch.aminmax(weight))
        blocks = weight.unflatten(1, (-1, _GROUP)) if self._block == "group" else weight
        return tuple(torch.aminmax(blocks, dim=-1, keepdim=self._block == "row"))

    def _stored(self, scales: torch.Tensor) -> torch.Tensor:
        return scales.to(torch.float8_e8m0fnu).view(torch.uint8) if self._block == "group" else scales

    def _unstored(self, stored: torch.Tensor) -> torch.Tensor:
        return stored.view(torch.float8_e8m0fnu).to(torch.float32) if self._block == "group" else stored


def mxfp8() -> Format:
    return Scaled("group", 8, "MXFP8A16", None, "mxfp8-quantized")


def mxfp4() -> Format:
    return Scaled("group", 4, "MXFP4A16", None, "mxfp4-pack-quantized")


def fp8_tensor() -> Format:
    # The library has no preset of it whose activations need no calibration.
    return Scaled("tensor", 8, "FP8", "FP8_DYNAMIC", "float-quantized")


def fp8_channel() -> Format:
    return Scaled("row", 8, "FP8_DYNAMIC", "FP8_DYNAMIC", "float-quantized")
