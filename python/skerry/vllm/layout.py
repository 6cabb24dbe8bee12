"""How the live model keeps each parameter, and so how it can be moved to other values.

- SCATTER: the live memory holds the checkpoint's values in the loader's layout; single elements are stored in place.
- REPACK: CPU kernels read a packed copy of the matrix (oneDNN, AMX, zentorch) or experts in a permuted layout. A new
  copy is packed from the checkpoint beside the old one and put in its place.
- RELOAD: anything else (quantised matrices, derived values): vLLM's own layerwise reload of the module, whole.

SCATTER is not taken on trust: sampled elements of each parameter are compared with the checkpoint just loaded.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import torch

from skerry.vllm.plan import Box, Plan, Target

INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # of an element's width
SAMPLES = 256  # elements compared for each sampled box
SAMPLED_BOXES = 16  # of a parameter


class Kind(enum.Enum):
    SCATTER = "scatter"
    REPACK = "repack"
    RELOAD = "reload"


@dataclass
class Layout:
    kind: Kind
    packed: list[str] = field(default_factory=list)  # modules with a packed copy of it (a tied head shares its weight)
    experts: bool = False


def packed_linear(module: torch.nn.Module) -> bool:
    """Whether the module's matrix product reads something else than module.weight.

    vLLM keeps such a product as a closure over its packed copy; the plain ones close over nothing.
    """
    linear = getattr(module, "cpu_linear", None)
    return linear is not None and linear is not torch.nn.functional.linear and bool(
        getattr(linear, "__closure__", True)
    )


def cpu_experts(module: torch.nn.Module):
    """The experts' kernel of a CPU mixture-of-experts layer that keeps its weights permuted, else None.

    The permuted tensor has the checkpoint's shape and dtype, and vLLM permutes it at the first load only.
    """
    kernel = getattr(getattr(module, "quant_method", None), "moe_kernel", None)
    experts = getattr(kernel, "fused_experts", None)
    if isinstance(getattr(experts, "isa", None), str) and not getattr(experts, "_use_zentorch", False):
        return experts
    return None


def live_tensor(modules: dict[str, torch.nn.Module], target: Target) -> torch.Tensor | None:
    return getattr(modules[target.module], target.parameter, None)


def _sample(box: Box, flat_source: torch.Tensor, flat_live: torch.Tensor) -> bool:
    count = box.elements()
    at = torch.linspace(0, count - 1, min(SAMPLES, count), dtype=torch.float64).long()
    source = torch.full_like(at, box.source_offset)
    place = torch.full_like(at, box.destination_offset)
    for size, from_stride, to_stride in reversed(box.dimensions):
        source += (at % size) * from_stride
        place += (at % size) * to_stride
        at = at // size
    want = flat_source[source].to(flat_live.dtype).view(-1).view(torch.uint8)
    return torch.equal(flat_live[place.to(flat_live.device)].cpu().view(torch.uint8), want)


def holds_checkpoint(target: Target, live: torch.Tensor | None, checkpoint) -> bool:
    if live is None or tuple(live.shape) != target.shape or not live.is_contiguous() or not target.boxes:
        return False
    flat = live.detach().view(-1)
    step = max(1, len(target.boxes) // SAMPLED_BOXES)
    return all(_sample(box, checkpoint.tensor(box.name).view(-1), flat) for box in target.boxes[::step])


def _unquantised(module: torch.nn.Module) -> bool:
    method = type(getattr(module, "quant_method", None)).__name__
    return method in ("UnquantizedLinearMethod", "UnquantizedEmbeddingMethod")


def _latent_projections(modules: dict[str, torch.nn.Module]) -> set[int]:
    """Matrices from which attention with latent heads derives its own at load time."""
    found = {id(m) for m in modules.values() if getattr(m, "_cpu_skip_gemm_dispatch", False)}
    for module in modules.values():
        if callable(getattr(module, "process_weights_after_loading", None)):
            found.add(id(getattr(module, "kv_b_proj", None)))
    return found


def find_layouts(modules: dict[str, torch.nn.Module], plan: Plan, checkpoint) -> dict[tuple[str, str], Layout]:
    """Right after a load of `checkpoint`, while the engine rests."""
    latent = _latent_projections(modules)
    by_weight: dict[int, list[str]] = {}
    for name, module in modules.items():
        weight = getattr(module, "weight", None)
        if isinstance(weight, torch.Tensor):
            by_weight.setdefault(id(weight), []).append(name)
    layouts = {}
    for key, target in plan.targets.items():
        module, live = modules[target.module], live_tensor(modules, target)
        layout = layouts[key] = Layout(Kind.RELOAD)
        if target.parameter == "weight":
            sharers = {target.module, *by_weight.get(id(live), [])}
            layout.packed = sorted(n for n in sharers if packed_linear(modules[n]))
        layout.experts = cpu_experts(module) is not None and target.parameter in ("w13_weight", "w2_weight")
        if target.derived or id(module) in latent:
            continue
        if layout.experts:
            layout.kind = Kind.REPACK if target.complete() else Kind.RELOAD
        elif not all(_unquantised(modules[n]) for n in layout.packed) or (layout.packed and not target.complete()):
            continue
        elif holds_checkpoint(target, live, checkpoint):
            layout.kind = Kind.SCATTER
        elif live is not None and live.numel() == 0 and target.module in layout.packed:
            layout.kind = Kind.REPACK
    return layouts
