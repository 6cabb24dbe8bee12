"""The calls of a worker that /collective_rpc reaches (docs/vllm.md lists them). Imports nothing heavy.

vLLM adds this class to the bases of its worker, so `self` is the worker; the names are prefixed against clashes.
"""

from __future__ import annotations


def _replica(worker):
    from skerry.vllm.worker import replica_of

    return replica_of(worker.model_runner.get_model(), worker.vllm_config, worker.device, getattr(worker, "rank", 0))


class WorkerExtension:
    def skerry_status(self) -> dict:
        return _replica(self).status()

    def skerry_prepare(self, label: str, base: str, checkpoint: str, positions: str) -> dict:
        return _replica(self).prepare(label, base, checkpoint, positions)

    def skerry_prepared(self, label: str) -> dict:
        return _replica(self).prepared(label)

    def skerry_commit(self, label: str) -> dict:
        return _replica(self).commit(label)

    def skerry_verify(self, label: str) -> dict:
        return _replica(self).verify(label)
