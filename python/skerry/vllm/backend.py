"""The weight transfer backend "skerry".

Its use is that the plan is learned when the worker has loaded its model, before the first request, and that no other
backend can write to the same weights. An update is prepared by the calls of the extension; vLLM's own routes can commit
it: /update_weights {"update_info": {"label": …}}.
"""

from __future__ import annotations

from dataclasses import dataclass

from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)

from skerry.vllm.worker import replica_of


@dataclass
class InitInfo(WeightTransferInitInfo):
    """Nothing to agree on: the weights come from a directory."""


@dataclass
class UpdateInfo(WeightTransferUpdateInfo):
    label: str = ""


class SkerryEngine(WeightTransferEngine[InitInfo, UpdateInfo]):
    init_info_cls = InitInfo
    update_info_cls = UpdateInfo
    supports_draft_weight_update = False

    def __init__(self, config, vllm_config, device, model):
        super().__init__(config, vllm_config, device, model)
        self.replica = replica_of(model, vllm_config, device, vllm_config.parallel_config.rank)

    def init_transfer_engine(self, init_info: InitInfo) -> None:
        pass

    def start_weight_update(self) -> None:
        pass

    def finish_weight_update(self) -> None:
        pass

    def update_weights(self, update_info: dict) -> None:
        self.receive_weights(self.parse_update_info(update_info))

    def receive_weights(self, update_info: UpdateInfo) -> None:
        answer = self.replica.commit(update_info.label)
        if not answer["ok"]:
            raise RuntimeError(answer["error"])

    def shutdown(self) -> None:
        pass
