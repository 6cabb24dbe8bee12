"""Packed copies of matrices that vLLM's CPU kernels read: made from a checkpoint beside the live ones, then exchanged.

Making one costs as much as a load and needs its memory twice; exchanging it is a matter of a pointer.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import torch

from skerry.vllm.layout import cpu_experts
from skerry.vllm.plan import Target

PROBES = 8  # columns of a packed matrix that are read back


def build(target: Target, checkpoint) -> torch.Tensor:
    """The parameter as its loader would have filled it."""
    whole = sum(box.elements() for box in target.boxes)
    full = torch.empty(target.shape, dtype=target.dtype)
    if whole < full.numel():
        full.zero_()
    flat = full.view(-1)
    for box in target.boxes:
        box.destination_view(flat).copy_(box.source_view(checkpoint.tensor(box.name).view(-1)))
    return full


def pack_linear(weight: torch.Tensor):
    """What vLLM would make the module's `cpu_linear` of this weight."""
    from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

    layer = SimpleNamespace(weight=torch.nn.Parameter(weight, requires_grad=False), bias=None)
    dispatch_cpu_unquantized_gemm(layer, remove_weight=False)
    return layer.cpu_linear


def pack_experts(module: torch.nn.Module, target: Target, full: torch.Tensor) -> torch.Tensor:
    """The permuted copy of all experts' matrices; the live one must not be padded."""
    from vllm._custom_ops import cpu_prepack_moe_weight

    live = getattr(module, target.parameter)
    if live.shape != full.shape or live.dtype != full.dtype:
        raise ValueError(
            f"{target.module}.{target.parameter} is {tuple(live.shape)} {live.dtype} in the engine, "
            f"{tuple(full.shape)} {full.dtype} in the checkpoint"
        )
    return cpu_prepack_moe_weight(full, cpu_experts(module).isa)


def _cells(linear) -> dict[str, object]:
    cells = getattr(linear, "__closure__", None) or ()
    return {name: cell.cell_contents for name, cell in zip(linear.__code__.co_freevars, cells)} if cells else {}


def identity(linear) -> int:
    """Tells which packed copy a closure reads."""
    handle = getattr(_cells(linear).get("handler"), "handler_tensor", None)
    return id(linear) if handle is None else int(handle)


def exchange_linear(module: torch.nn.Module, new):
    """Puts the new packed copy in the place of the old; what is given back holds the old one.

    Compiled graphs have captured the old closure's tensors, so these keep their identity: the handle that points to
    the packed matrix changes its value.
    """
    old = module.cpu_linear
    have, want = _cells(old), _cells(new)
    if have.keys() != want.keys():
        raise RuntimeError(f"vLLM packed {sorted(want)} where the engine has {sorted(have)}")
    handle, fresh = (getattr(cells.get("handler"), "handler_tensor", None) for cells in (have, want))
    if handle is not None and fresh is not None:
        old_value = handle.clone()
        handle.copy_(fresh)
        fresh.copy_(old_value)
        return new
    module.cpu_linear = new
    return old


@dataclass
class Probe:
    """Columns of a matrix, to be read back from a packed copy as products with unit vectors.

    Such products are exact: a sum of zeros and one value has no rounding (the sign of zero is lost).
    """

    target: Target
    units: torch.Tensor  # [columns, width]
    want: torch.Tensor  # [columns, rows]


def make_probe(target: Target, checkpoint, columns: torch.Tensor) -> Probe:
    rows, width = target.shape
    want = torch.zeros((len(columns), rows), dtype=target.dtype)
    units = torch.zeros((len(columns), width), dtype=target.dtype)
    units[torch.arange(len(columns)), columns] = 1
    for at, column in enumerate(columns.tolist()):
        for box in target.boxes:
            _gather_column(box, checkpoint.tensor(box.name).view(-1), column, width, want[at])
    return Probe(target, units, want)


def wrong_columns(linear, probe: Probe, checkpoint) -> int:
    """How many of the probe's columns the packed copy has not.

    Only in the thread in which the engine computes: vLLM's oneDNN kernels share a scratchpad and caches of primitives
    in the process, without a lock. A product beside the engine's would spoil both.
    """
    wrong = linear(probe.units, None, None) != probe.want
    if wrong.any():  # infinite elements, of which a product with zero is no number, spoil their rows
        wrong &= build(probe.target, checkpoint).isfinite().all(dim=1)
    return int(wrong.any(dim=1).sum())


def _gather_column(box, source: torch.Tensor, column: int, width: int, out: torch.Tensor) -> None:
    """out[row] = the element that lands at (row, column) of a matrix of `width` columns, for the rows of the box."""
    first, last = divmod(box.destination_offset, width), box.destination_offset + sum(
        (n - 1) * d for n, _, d in box.dimensions
    )
    rows = torch.arange(first[0], last // width + 1)
    place = rows * width + column - box.destination_offset
    index = torch.full_like(place, box.source_offset)
    inside = place >= 0
    for size, from_stride, to_stride in sorted(box.dimensions, key=lambda d: -d[2]):
        step = torch.div(place, to_stride, rounding_mode="floor")
        inside &= step < size
        place = place - step * to_stride
        index += step * from_stride
    inside &= place == 0
    out[rows[inside]] = source[index[inside]].to(out.dtype)
