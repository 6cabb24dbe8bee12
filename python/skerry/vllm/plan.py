"""Learns where each tensor of a checkpoint lands in the live model, by watching the model's own loader.

vLLM can put a model on the meta device and load it again. Done with meta tensors, no byte moves, and each copy that a
parameter's loader makes tells one box: this part of that tensor goes to this part of this parameter. So fused
matrices, slices of tensor parallelism and experts need no table of names. What a loader computes rather than copies
can't be followed; such a parameter is marked derived.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch.utils._python_dispatch import TorchDispatchMode

Dimension = tuple[int, int, int]  # size, stride in the checkpoint's tensor, stride in the parameter; in elements


@dataclass(frozen=True)
class Box:
    """A part of a checkpoint tensor and its place in a parameter, both counted in elements of flat memory."""

    name: str  # of the checkpoint's tensor
    source_size: int  # elements of the whole tensor
    dimensions: tuple[Dimension, ...]  # descending stride in the tensor
    source_offset: int
    destination_offset: int

    def elements(self) -> int:
        count = 1
        for size, _, _ in self.dimensions:
            count *= size
        return count

    def source_view(self, flat: torch.Tensor) -> torch.Tensor:
        return flat.as_strided([d[0] for d in self.dimensions], [d[1] for d in self.dimensions], self.source_offset)

    def destination_view(self, flat: torch.Tensor) -> torch.Tensor:
        sizes, strides = [d[0] for d in self.dimensions], [d[2] for d in self.dimensions]
        return flat.as_strided(sizes, strides, self.destination_offset)


@dataclass
class Target:
    """A parameter of the model as its loader sees it."""

    module: str
    parameter: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    boxes: list[Box] = field(default_factory=list)
    names: set[str] = field(default_factory=set)  # of all checkpoint tensors that its loader was given
    zeros: int = 0  # elements that the loader sets to zero (padding)
    derived: bool = False  # holds something else than copies

    def complete(self) -> bool:
        """The boxes (and zeros) make up the whole parameter."""
        size = 1
        for extent in self.shape:
            size *= extent
        return not self.derived and sum(box.elements() for box in self.boxes) + self.zeros == size


@dataclass
class Plan:
    targets: dict[tuple[str, str], Target]
    names: set[str]  # all tensors of the checkpoint that it was learned from
    by_name: dict[str, list[Target]]

    def closure(self, names: Iterable[str]) -> set[str]:
        """All tensors that the modules need which hold one of these: a module is only ever reloaded whole."""
        by_module: dict[str, set[str]] = {}
        for target in self.targets.values():
            by_module.setdefault(target.module, set()).update(target.names)
        wanted: set[str] = set()
        left = list(names)
        while left:
            name = left.pop()
            if name in wanted:
                continue
            wanted.add(name)
            for target in self.by_name.get(name, []):
                left.extend(by_module[target.module] - wanted)
        return wanted


def make_dimensions(
    sizes: Iterable[int], source: Iterable[int], destination: Iterable[int]
) -> tuple[Dimension, ...] | None:
    """Merges what is contiguous on both sides, largest source stride first. None: elements of the source repeat."""
    dims = sorted(((n, s, d) for n, s, d in zip(sizes, source, destination) if n != 1), key=lambda x: -x[1])
    if any(s <= 0 or d <= 0 or n <= 0 for n, s, d in dims):
        return None
    merged: list[Dimension] = []
    for n, s, d in dims:
        if merged and merged[-1][1] == n * s and merged[-1][2] == n * d:
            merged[-1] = (merged[-1][0] * n, s, d)
        else:
            merged.append((n, s, d))
    for (_, outer, _), (n, s, _) in zip(merged, merged[1:]):
        if outer < n * s:
            return None
    return tuple(merged) or ((1, 1, 1),)


class _Watch(TorchDispatchMode):
    """Sees the copies and zero fills that happen inside a loader; lets neither happen."""

    def __init__(self):
        super().__init__()
        self.copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.zeros = 0
        self.other = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.copy_.default:
            self.copies.append((args[0], args[1]))
            return args[0]
        if func is torch.ops.aten.zero_.default or (func is torch.ops.aten.fill_.Scalar and args[1] == 0):
            self.zeros += args[0].numel()
            return args[0]
        if func._schema.is_mutable:
            self.other = True
        return func(*args, **(kwargs or {}))


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


class _Learner:
    def __init__(self, tensors: list[tuple[str, torch.Tensor]]):
        self.tensors = tensors
        self.by_storage = {_storage(t): (name, t.numel()) for name, t in tensors}  # `tensors` keeps them alive
        self.given = ""  # the tensor that was handed out last
        self.targets: dict[tuple[str, str], Target] = {}

    def stream(self):
        for name, tensor in self.tensors:
            self.given = name
            yield name, tensor

    def loader(self, module: str, parameter: str, meta: torch.Tensor, original):
        def watched(*args, **kwargs):
            with _Watch() as seen:
                result = original(*args, **kwargs)
            key = (module, parameter)
            target = self.targets.setdefault(key, Target(module, parameter, tuple(meta.shape), meta.dtype))
            target.zeros += seen.zeros
            if seen.other or not seen.copies:
                target.derived = True
                target.names.add(self.given)
            for destination, source in seen.copies:
                self._copy(target, meta, destination, source)
            return result

        return watched

    def _copy(self, target: Target, meta: torch.Tensor, destination: torch.Tensor, source: torch.Tensor) -> None:
        name, size = self.by_storage.get(_storage(source), ("", 0))
        target.names.add(name or self.given)
        dims = make_dimensions(source.shape, source.stride(), destination.stride())
        if not name or dims is None or source.shape != destination.shape or _storage(destination) != _storage(meta):
            target.derived = True
            return
        target.boxes.append(Box(name, size, dims, source.storage_offset(), destination.storage_offset()))


def learn_plan(model, model_config, checkpoint) -> Plan:
    """Runs between two steps of the engine, as no request can use the model meanwhile. Leaves the model as it was."""
    from vllm.model_executor.model_loader.reload.layerwise import (
        _get_original_loader,
        finalize_layerwise_reload,
        get_layerwise_info,
        initialize_layerwise_reload,
    )
    from vllm.model_executor.model_loader.reload.utils import get_layer_tensors

    learner = _Learner([(name, torch.empty_like(t, device="meta")) for name, t in checkpoint.items()])
    restore = []  # the meta parameters serve the next reload too: with a watcher left on them it would load nothing
    initialize_layerwise_reload(model)
    try:
        for module_name, module in model.named_modules():
            for name, meta in get_layer_tensors(module).items():
                original = _get_original_loader(meta)
                restore.append((meta, original))
                meta.weight_loader = learner.loader(module_name, name, meta, original)
        model.load_weights(learner.stream())
    finally:
        for meta, original in restore:
            meta.weight_loader = original
        for module in model.modules():
            info = get_layerwise_info(module)
            info.loaded_weights = []
            info.load_numel = 0
            if info.load_numel_total is not None:
                info.load_numel_total = 0  # nothing to load: every module gets its live tensors back, without a warning
        finalize_layerwise_reload(model, model_config)
    by_name: dict[str, list[Target]] = {}
    for target in learner.targets.values():
        for name in target.names:
            by_name.setdefault(name, []).append(target)
    return Plan(learner.targets, set(checkpoint.where), by_name)
