"""TRL's trainers with rollouts from islands. Needs httpx (`pip install 'skerry[client]'`) and TRL.

    trainer = GRPOTrainer(
        …,
        callbacks=[PublishCallback("s3://bucket/policy", run="grpo-1")],
        rollout_func=rollout_func(["http://island-1:8089", "http://island-2:8089"]),
    )

For `AsyncGRPOTrainer`, whose rollout workers talk to the agent themselves: `weight_transfer=WeightTransfer(publisher)`.
"""

from skerry.hf import PublishCallback
from skerry.trl.fleet import NoIsland
from skerry.trl.rollouts import Rollout, RolloutFunc, rollout_func
from skerry.trl.weight_transfer import WeightTransfer

__all__ = ["NoIsland", "PublishCallback", "Rollout", "RolloutFunc", "WeightTransfer", "rollout_func"]
