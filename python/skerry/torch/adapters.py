"""PEFT's layers as the weights that they amount to. The layers themselves stay bit for bit as they are.

PEFT's own merge and unmerge add to the weights and subtract again, which loses bits in bf16: with every round the
base drifts. Here a layer is merged into a copy of its weights, of one layer at a time, by PEFT's own code, so the
values are those of `merge_adapter`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from skerry.errors import Unsupported


def adapted_layers(module: torch.nn.Module) -> dict[str, MergedLayer | ReplacedModule]:
    """By path. Needs peft."""
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils.other import ModulesToSaveWrapper

    found: dict[str, MergedLayer | ReplacedModule] = {}
    for path, inner in module.named_modules(remove_duplicate=False):
        if isinstance(inner, BaseTunerLayer) and isinstance(inner, torch.nn.Module) and hasattr(inner, "base_layer"):
            found[path] = MergedLayer(path, inner)
        elif isinstance(inner, ModulesToSaveWrapper):
            found[path] = ReplacedModule(path, inner)
    return found


class MergedLayer:
    """A layer with adapters beside its weights (LoRA and its kin)."""

    def __init__(self, path: str, layer) -> None:
        self._path, self._layer = path, layer
        self._merged: dict[str, torch.Tensor] = {}  # what was made together and is still to be read

    def outer_name(self, inside: str) -> str | None:
        """The name of a tensor of the layer to the outside; None for what belongs to an adapter."""
        if not inside.startswith("base_layer."):
            return None
        while inside.startswith("base_layer."):
            inside = inside.removeprefix("base_layer.")
        return f"{self._path}.{inside}" if self._path else inside

    def values(self, inside: str) -> Callable[[], torch.Tensor] | None:
        """Makes the merged values of a tensor; None where they are the tensor's own."""
        key = inside.rpartition(".")[2]
        base = self._layer.get_base_layer()
        if self._layer.merged or self._layer.disable_adapters or key not in base._parameters:
            return None
        return lambda: self._value(key)

    def _value(self, key: str) -> torch.Tensor:
        if key not in self._merged:
            self._merged = self._merge()
        return self._merged.pop(key)

    def _merge(self) -> dict[str, torch.Tensor]:
        own = {key: p for key, p in self._layer.get_base_layer()._parameters.items() if p is not None}
        for key, parameter in own.items():
            if hasattr(parameter, "quant_state") or not parameter.dtype.is_floating_point:
                raise Unsupported(
                    f"{self._path}.{key}: the base is quantised ({type(parameter).__name__}, {parameter.dtype}): "
                    "adapters merged into it are not what the engines' base and adapter make; publish from a base in "
                    "bf16 or fp32"
                )
        saved = {key: parameter.data for key, parameter in own.items()}
        try:
            for parameter in own.values():
                parameter.data = parameter.data.clone()
            self._layer.merge()
            return {key: parameter.data for key, parameter in own.items()}
        finally:
            for key, parameter in own.items():
                parameter.data = saved[key]
            self._layer.merged_adapters.clear()


class ReplacedModule:
    """A module that PEFT trains whole, beside the original (`modules_to_save`)."""

    def __init__(self, path: str, wrapper) -> None:
        self._path = path
        active = [] if wrapper.disable_adapters else wrapper.active_adapters
        in_use = next((name for name in active if name in wrapper.modules_to_save), None)
        self._prefix = "original_module." if in_use is None else f"modules_to_save.{in_use}."

    def outer_name(self, inside: str) -> str | None:
        """The name to the outside of a tensor of the module in use; None for those of the others."""
        if not inside.startswith(self._prefix):
            return None
        return f"{self._path}.{inside.removeprefix(self._prefix)}"

    def values(self, inside: str) -> None:
        """The values are the tensor's own."""
        return None
