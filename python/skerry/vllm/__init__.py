"""Plugin for vLLM: moves the weights of a running server to another version of its checkpoint.

Served with `--weight-transfer-config '{"backend":"skerry"}' --worker-extension-cls skerry.vllm.WorkerExtension`; driven
by calls of /collective_rpc that docs/vllm.md lists. vLLM imports this module in each of its processes, so it imports
nothing heavy.
"""

from __future__ import annotations

from skerry.vllm.extension import WorkerExtension

__all__ = ["WorkerExtension", "register"]

BACKEND = "skerry"


def register() -> None:
    """Entry point of the group vllm.general_plugins; may run several times in a process."""
    from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory

    if BACKEND not in WeightTransferEngineFactory._registry:
        WeightTransferEngineFactory.register_engine(BACKEND, "skerry.vllm.backend", "SkerryEngine")
