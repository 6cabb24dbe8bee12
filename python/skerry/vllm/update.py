"""One update: made ready while the engine serves, applied while it is paused."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass, field

import torch

from skerry import _core
from skerry.vllm import packing
from skerry.vllm.checkpoint import Checkpoint, raw, read_positions
from skerry.vllm.layout import INTEGERS, Kind, Layout, cpu_experts, live_tensor, packed_linear
from skerry.vllm.plan import Plan, Target
from skerry.vllm.readback import read_back, read_columns

_SMALL = 1 << 32  # elements of a parameter up to which positions are 32 bits wide
MEMORY_SHARE = 4  # of the free memory, a quarter may go into packed copies made ahead


@dataclass
class Model:
    """What an update needs to know of the live model."""

    module: torch.nn.Module
    config: object  # vLLM's ModelConfig
    plan: Plan
    modules: dict[str, torch.nn.Module]
    layouts: dict[tuple[str, str], Layout] = field(default_factory=dict)
    partial: bool = False  # this worker holds some of the layers or experts only
    tied: bool = False  # the head is the embedding, and a head in the checkpoint is not loaded


@dataclass
class Stores:
    """Values for positions of one live parameter."""

    target: Target
    positions: torch.Tensor  # uint32 or uint64 on the CPU, int64 on an accelerator
    values: torch.Tensor  # uint8 on the CPU, else integers of the elements' width


@dataclass
class Repack:
    """A new packed copy for each module that keeps one, or for experts the permuted tensor; None: made in the pause."""

    target: Target
    columns: torch.Tensor  # that are read back
    probe: packing.Probe | None = None
    linears: dict[str, object] = field(default_factory=dict)
    identities: dict[str, int] = field(default_factory=dict)
    experts: torch.Tensor | None = None
    ready: bool = False


def memory_limit() -> int:
    """Bytes of packed copies that may be made ahead of the pause; SKERRY_VLLM_PREPARE_BYTES overrides it."""
    if text := os.environ.get("SKERRY_VLLM_PREPARE_BYTES"):
        return int(text)
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MEMORY_SHARE


class Update:
    """Made by prepare() in any thread; prove() runs in the worker's own, between two steps of the engine; apply() and
    verify() run there too, while it is paused."""

    def __init__(self, model: Model, label: str, base: str, checkpoint: str, positions: str):
        self.model, self.label, self.base = model, label, base
        self.checkpoint = Checkpoint(checkpoint)
        self.positions = positions
        self.whole = not positions
        self.stores: list[Stores] = []
        self.repacks: dict[tuple[str, str], Repack] = {}
        self.reload: set[str] = set()  # checkpoint tensors, closed over modules
        self.unproved: list[tuple[Repack, str]] = []  # packed copies that nobody has read back yet, by module
        self.retired: list[object] = []  # old packed copies
        self.seconds: dict[str, float] = {}
        self.touched = 0

    # -- before the pause -----------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Changes nothing of the model; a failure is harmless."""
        self._check_names()
        if self.whole:
            return
        started = time.monotonic()
        reload = self._select(read_positions(self.positions))
        self.reload = self.model.plan.closure(reload)
        # What is reloaded with its module needs no store of its own.
        gone = {(t.module, t.parameter) for name in self.reload for t in self.model.plan.by_name.get(name, [])}
        self.stores = [s for s in self.stores if (s.target.module, s.target.parameter) not in gone]
        self.repacks = {key: r for key, r in self.repacks.items() if key not in gone}
        self.seconds["select"] = time.monotonic() - started
        started, left = time.monotonic(), memory_limit()
        for repack in self.repacks.values():
            size = repack.target.dtype.itemsize * max(1, len(self._layout(repack.target).packed))
            for extent in repack.target.shape:
                size *= extent
            if size > left:
                continue
            left -= size
            self._make(repack)
        self.seconds["repack"] = time.monotonic() - started

    def _check_names(self) -> None:
        plan, where = self.model.plan, self.checkpoint.where
        for what, names in (("is not in", plan.names - where.keys()), ("is only in", where.keys() - plan.names)):
            if names:
                raise ValueError(
                    f"tensor {min(names)!r} {what} {self.checkpoint.directory!r}, unlike the engine's model"
                )
        sizes = {box.name: box.source_size for t in plan.targets.values() for box in t.boxes}
        for name, size in sizes.items():
            count = self.checkpoint.tensor(name).numel()
            if count != size:
                raise ValueError(f"{name!r} has {count} elements, the engine's has {size}")

    def _layout(self, target: Target) -> Layout:
        return self.model.layouts[target.module, target.parameter]

    def _select(self, changed: dict[str, torch.Tensor]) -> set[str]:
        reload: set[str] = set()
        for name, indices in changed.items():
            if name not in self.checkpoint:
                raise ValueError(f"positions of {name!r}, which is no tensor of {self.checkpoint.directory!r}")
            if indices.numel() == 0:
                continue
            targets = self.model.plan.by_name.get(name, [])
            if not targets and not self.model.partial and not (self.model.tied and name.endswith("lm_head.weight")):
                raise ValueError(f"changes of {name!r}, which no part of the engine's model was loaded from")
            self.touched += bool(targets)
            for target in targets:
                layout = self._layout(target)
                if layout.kind is Kind.RELOAD:
                    reload.add(name)
                    continue
                if layout.kind is Kind.SCATTER:
                    self._store(target, name, indices)
                if layout.packed or layout.experts:
                    self._repack(target, name, indices)
        return reload

    def _boxes(self, target: Target, name: str, indices: torch.Tensor, source: torch.Tensor):
        """Positions and values of the changed elements that land in this parameter."""
        size = 1
        for extent in target.shape:
            size *= extent
        unit = source.element_size()
        for box in target.boxes:
            if box.name != name:
                continue
            positions = torch.empty(indices.numel(), dtype=torch.uint32 if size <= _SMALL else torch.uint64)
            values = torch.empty(indices.numel() * unit, dtype=torch.uint8)
            count = _core.select(
                indices, raw(source), unit, box.dimensions, box.source_offset, box.destination_offset, positions, values
            )
            if count:
                yield positions[:count], values[: count * unit]

    def _store(self, target: Target, name: str, indices: torch.Tensor) -> None:
        live, source = live_tensor(self.model.modules, target), self.checkpoint.tensor(name)
        for positions, values in self._boxes(target, name, indices, source):
            if source.dtype != live.dtype:
                values = raw(values.view(source.dtype).to(live.dtype))
            if live.device.type != "cpu":
                positions = positions.to(torch.int64).to(live.device)
                values = values.view(INTEGERS[live.element_size()]).to(live.device)
            self.stores.append(Stores(target, positions, values))
        if live.device.type != "cpu":
            torch.accelerator.synchronize(live.device)

    def _repack(self, target: Target, name: str, indices: torch.Tensor) -> None:
        key = (target.module, target.parameter)
        repack = self.repacks.get(key)
        if repack is None:
            repack = self.repacks[key] = Repack(target, torch.empty(0, dtype=torch.int64))
        if len(repack.columns) < packing.PROBES:
            source = self.checkpoint.tensor(name)
            for positions, _ in self._boxes(target, name, indices[: packing.PROBES], source):
                columns = positions.to(torch.int64) % target.shape[-1]
                repack.columns = torch.cat([repack.columns, columns]).unique()[: packing.PROBES]

    def _make(self, repack: Repack) -> None:
        target, layout = repack.target, self._layout(repack.target)
        full = packing.build(target, self.checkpoint)
        if layout.experts:
            repack.experts = packing.pack_experts(self.model.modules[target.module], target, full)
        if layout.packed:
            repack.probe = packing.make_probe(target, self.checkpoint, repack.columns)
        for module in layout.packed:
            linear = packing.pack_linear(full)
            repack.linears[module], repack.identities[module] = linear, packing.identity(linear)
            self.unproved.append((repack, module))
        repack.ready = True

    @torch.no_grad()
    def prove(self, seconds: float) -> bool:
        """Reads packed copies back for about so long. True when all have been; raises where one is wrong."""
        end = time.monotonic() + seconds
        while self.unproved and time.monotonic() < end:
            repack, module = self.unproved.pop()
            read_columns(self, repack.probe, repack.linears[module], module)
        return not self.unproved

    def facts(self) -> dict:
        return {
            "whole": self.whole,
            "tensors": len(self.model.plan.by_name) if self.whole else self.touched,
            "scattered": sum(s.positions.numel() for s in self.stores),
            "repacked": len(self.repacks),
            "reloaded": len(self.model.plan.names) if self.whole else len(self.reload),
        }

    def close(self) -> None:
        self.stores, self.repacks, self.unproved, self.retired = [], {}, [], []
        self.checkpoint.close()

    # -- in the pause ---------------------------------------------------------------------------------------------

    @torch.no_grad()
    def apply(self) -> None:
        """Writes to the live model. When it raises, the weights may be any mixture."""
        started = time.monotonic()
        for store in self.stores:
            live = live_tensor(self.model.modules, store.target)
            if live.device.type == "cpu":
                _core.scatter(raw(live), live.element_size(), store.positions, store.values)
            else:
                live.detach().view(-1).view(INTEGERS[live.element_size()])[store.positions] = store.values
        self.seconds["scatter"] = time.monotonic() - started
        started = time.monotonic()
        for repack in self.repacks.values():
            if not repack.ready:
                self._make(repack)
                self.prove(math.inf)
            self._install(repack)
        self.seconds["exchange"] = time.monotonic() - started
        if self.whole or self.reload:
            started = time.monotonic()
            self._reload(None if self.whole else self.reload)
            self.seconds["reload"] = time.monotonic() - started
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()

    def _install(self, repack: Repack) -> None:
        target = repack.target
        for name, linear in repack.linears.items():
            self.retired.append(packing.exchange_linear(self.model.modules[name], linear))
        repack.linears = {}
        if repack.experts is not None:
            live = getattr(self.model.modules[target.module], target.parameter)
            self.retired.append(live.data)
            live.data = repack.experts

    def _reload(self, names: set[str] | None) -> None:
        """vLLM's layerwise reload of the named tensors (None: all), then what it leaves out on the CPU."""
        from vllm.model_executor.model_loader.reload.layerwise import (
            finalize_layerwise_reload,
            initialize_layerwise_reload,
        )

        packed = [(m, m.cpu_linear) for m in self.model.modules.values() if packed_linear(m)]
        initialize_layerwise_reload(self.model.module)
        try:
            self.model.module.load_weights(self.checkpoint.items(names))
        finally:
            finalize_layerwise_reload(self.model.module, self.model.config)
        for module, old in packed:  # the reload made new closures; compiled graphs know the old ones
            if (new := module.cpu_linear) is not old:
                module.cpu_linear = old
                self.retired.append(packing.exchange_linear(module, new))
        wanted = self.model.plan.names if names is None else names
        targets = {(t.module, t.parameter): t for name in wanted for t in self.model.plan.by_name.get(name, [])}
        for target in targets.values():
            self._mend(target)

    def _mend(self, target: Target) -> None:
        modules = self.model.modules
        module, live = modules[target.module], live_tensor(modules, target)
        if cpu_experts(module) is not None and target.parameter in ("w13_weight", "w2_weight"):
            live.data = packing.pack_experts(module, target, packing.build(target, self.checkpoint))
        elif target.parameter == "weight" and live is not None and live.numel():
            for other in modules.values():  # a tied head: no tensor of the checkpoint is its own
                if other is not module and getattr(other, "weight", None) is live and packed_linear(other):
                    packing.exchange_linear(other, packing.pack_linear(live.detach()))

    def verify(self) -> dict[str, int]:
        counts = read_back(self)
        self.checkpoint.close()  # files that another version replaces should not be held
        return counts
