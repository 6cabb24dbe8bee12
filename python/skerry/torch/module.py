"""What a module holds, by name: parameters, tied ones under each of their names, and the buffers that are saved."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping

import torch

from skerry.torch.adapters import MergedLayer, ReplacedModule, adapted_layers
from skerry.torch.conversion import in_checkpoint_form
from skerry.weights import Given


def module_tensors(module: torch.nn.Module) -> Iterable[Given]:
    """Nothing is copied. Names are as `named_parameters` has them, except that PEFT's layers stand under the names of
    what they wrap, with their active adapters merged as they are read, and that models of transformers are in the
    form of their checkpoints (conversion.py).
    """
    held = _held(module)
    return in_checkpoint_form(module, held) if "transformers" in sys.modules else held


def _held(module: torch.nn.Module) -> Iterator[Given]:
    layers = adapted_layers(module) if "peft" in sys.modules else {}
    for path, owner in module.named_modules(remove_duplicate=False):
        for key, tensor in [*owner._parameters.items(), *owner._buffers.items()]:
            if tensor is None or key in owner._non_persistent_buffers_set:
                continue
            name = f"{path}.{key}" if path else key
            holder, inside = _holder(name, layers)
            if holder is None:
                yield Given(name, tensor)
            elif (outer := holder.outer_name(inside)) is not None:
                yield Given(outer, tensor, holder.values(inside))


def _holder(
    name: str, layers: Mapping[str, MergedLayer | ReplacedModule]
) -> tuple[MergedLayer | ReplacedModule | None, str]:
    """The wrapped layer that the tensor is inside of, and its name there."""
    path, _, inside = name.rpartition(".")
    while layers and path:
        if path in layers:
            return layers[path], inside
        path, _, last = path.rpartition(".")
        inside = f"{last}.{inside}"
    return None, name
