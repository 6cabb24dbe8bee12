"""Reads the live weights back and compares them with what an update should have made of them."""

from __future__ import annotations

import torch

from skerry import _core
from skerry.vllm import packing
from skerry.vllm.checkpoint import raw
from skerry.vllm.layout import INTEGERS, Kind, live_tensor
from skerry.vllm.plan import Target


def _expect(update, target: Target, wrong: int, of: int, what: str) -> None:
    if wrong:
        raise RuntimeError(
            f"{wrong} of {of} {what} of {target.module}.{target.parameter} in the engine are not {update.label!r}'s"
        )


def read_columns(update, probe: packing.Probe, linear, name: str) -> None:
    """Reads columns of a packed copy back; in the thread in which the engine computes (see packing.wrong_columns)."""
    wrong = packing.wrong_columns(linear, probe, update.checkpoint)
    _expect(update, probe.target, wrong, len(probe.units), f"columns read through {name}")


@torch.no_grad()
def read_back(update) -> dict[str, int]:
    """In the pause. Raises, naming the parameter, where the live weights are not the checkpoint's.

    Returns what was compared: stored elements, columns of packed copies, permuted experts (installed), and how many
    parameters or modules can't be compared (unchecked).
    """
    counts = {"elements": 0, "columns": 0, "installed": 0, "unchecked": 0}
    if update.whole:
        for target in update.model.plan.targets.values():
            _read_whole(update, target, counts)
    else:
        _read_changes(update, counts)
    return counts


def _read_changes(update, counts: dict[str, int]) -> None:
    modules = update.model.modules
    for store in update.stores:
        live = live_tensor(modules, store.target)
        if live.device.type == "cpu":
            wrong = _core.differing(raw(live), live.element_size(), store.positions, store.values)
        else:
            have = live.detach().view(-1).view(INTEGERS[live.element_size()])[store.positions]
            wrong = int((have != store.values).sum())
        _expect(update, store.target, wrong, store.positions.numel(), "elements")
        counts["elements"] += store.positions.numel()
    for repack in update.repacks.values():
        for name, identity in repack.identities.items():  # its columns were read back before it was installed
            wrong = packing.identity(modules[name].cpu_linear) != identity
            _expect(update, repack.target, int(wrong), 1, f"packed copies of {name}")
            counts["columns"] += len(repack.columns)
        if repack.experts is not None:
            wrong = live_tensor(modules, repack.target).data_ptr() != repack.experts.data_ptr()
            _expect(update, repack.target, int(wrong), 1, "copies")
            counts["installed"] += 1
    by_name = update.model.plan.by_name
    counts["unchecked"] += len({target.module for name in update.reload for target in by_name.get(name, [])})


def _read_whole(update, target: Target, counts: dict[str, int]) -> None:
    modules, checkpoint = update.model.modules, update.checkpoint
    layout, live = update.model.layouts[target.module, target.parameter], live_tensor(modules, target)
    if layout.kind is Kind.RELOAD:
        counts["unchecked"] += 1
        return
    if layout.experts:
        want = packing.pack_experts(modules[target.module], target, packing.build(target, checkpoint))
        _expect(update, target, int(not torch.equal(raw(live), raw(want))), 1, "copies")
        counts["installed"] += 1
    if layout.kind is Kind.SCATTER:
        flat = live.detach().view(-1)
        for box in target.boxes:
            want = box.source_view(checkpoint.tensor(box.name).view(-1)).to(flat.device, flat.dtype)
            have = box.destination_view(flat)
            wrong = int((have.contiguous().view(torch.uint8) != want.contiguous().view(torch.uint8)).sum())
            _expect(update, target, wrong, have.numel() * have.element_size(), "bytes")
            counts["elements"] += have.numel()
    columns = torch.linspace(0, target.shape[-1] - 1, min(packing.PROBES, target.shape[-1])).long().unique()
    probe = packing.make_probe(target, checkpoint, columns) if layout.packed else None
    for name in layout.packed:
        read_columns(update, probe, modules[name].cpu_linear, name)
        counts["columns"] += len(columns)
