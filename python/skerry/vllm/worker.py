"""Ties a Replica to the model of a vLLM worker."""

from __future__ import annotations

import logging
import os
import resource

import torch

from skerry.vllm.checkpoint import Checkpoint
from skerry.vllm.layout import Kind, find_layouts
from skerry.vllm.plan import learn_plan
from skerry.vllm.replica import Replica
from skerry.vllm.update import Model, Update

log = logging.getLogger("vllm.skerry")

# A worker has one model; found by it, whether the weight transfer backend or a call of the extension comes first.
_REPLICAS: dict[int, "WorkerReplica"] = {}


class _Bound(Update):
    """An update whose loaders find vLLM's configuration. That is a global, so it is set in the worker's thread only."""

    def __init__(self, worker: "WorkerReplica", *arguments: str):
        super().__init__(worker.model, *arguments)
        self.worker = worker

    def apply(self) -> None:
        with self.worker.configured():
            super().apply()
            if self.whole and not self.model.layouts:
                self.model.layouts = find_layouts(self.model.modules, self.model.plan, self.checkpoint)


class WorkerReplica(Replica):
    def __init__(self, module: torch.nn.Module, vllm_config, device: torch.device, rank: int):
        self.vllm_config = vllm_config
        self.module = module
        self.model: Model | None = None
        unsupported = "adapters (LoRA) are not supported with the plugin" if vllm_config.lora_config else ""
        super().__init__(
            lambda *arguments: _Bound(self, *arguments),
            {"device": device.type, "rank": rank, "unsupported": unsupported},
        )
        directory = vllm_config.model_config.model
        if os.path.isdir(directory):
            try:
                self.learn(directory)
            except Exception as e:  # noqa: BLE001 - the server shall start; the first prepare tries again and tells
                log.warning("no plan from %s yet: %s", directory, e)

    def configured(self):
        from vllm.config import set_current_vllm_config

        return set_current_vllm_config(self.vllm_config)

    @torch.no_grad()
    def learn(self, directory: str) -> None:
        """Between two steps of the engine: the model is on the meta device meanwhile."""
        checkpoint = Checkpoint(directory)
        config, parallel = self.vllm_config.model_config, self.vllm_config.parallel_config
        with self.configured():
            plan = learn_plan(self.module, config, checkpoint)
        self.model = Model(
            self.module,
            config,
            plan,
            dict(self.module.named_modules()),
            partial=parallel.pipeline_parallel_size > 1 or parallel.enable_expert_parallel,
            tied=bool(getattr(config.hf_config, "tie_word_embeddings", False)),
        )
        checkpoint.close()

    def prepare(self, label: str, base: str, checkpoint: str, positions: str) -> dict:
        try:
            if self.model is None:
                self.learn(checkpoint)
        except BaseException as e:  # noqa: BLE001 - told to the caller
            return self._answer(f"learning the plan from {checkpoint!r}: {type(e).__name__}: {e}", state=self.state())
        return super().prepare(label, base, checkpoint, positions)

    def status(self) -> dict:
        answer = super().status()
        answer["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        if self.model is not None:
            layouts = self.model.layouts
            by_kind = {kind.value: sorted(".".join(k) for k, v in layouts.items() if v.kind is kind) for kind in Kind}
            answer["plan"] = {
                "tensors": len(self.model.plan.names),
                "parameters": len(self.model.plan.targets),
                "boxes": sum(len(t.boxes) for t in self.model.plan.targets.values()),
                "unused": sorted(self.model.plan.names - self.model.plan.by_name.keys())[:16],
                "packed": sorted({name for layout in layouts.values() for name in layout.packed}),
                **by_kind,
            }
        return answer


def replica_of(module: torch.nn.Module, vllm_config, device: torch.device, rank: int) -> WorkerReplica:
    if id(module) not in _REPLICAS:
        _REPLICAS[id(module)] = WorkerReplica(module, vllm_config, device, rank)
    return _REPLICAS[id(module)]
