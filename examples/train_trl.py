"""TRL's GRPO quickstart, whose policy is sampled by engines behind Skerry agents. What differs from the quickstart is
the import, the callback and the agents' URLs.

    python examples/train_trl.py MODEL DATASET BOARD AGENT_URL…
    python examples/train_trl.py Qwen/Qwen2.5-0.5B-Instruct trl-lib/DeepMath-103K s3://bucket/policy
    http://island-1:8089
"""

import sys

from datasets import load_dataset
from trl import GRPOTrainer
from trl.rewards import accuracy_reward

from skerry.trl import PublishCallback, rollout_func

model, dataset, board, *agents = sys.argv[1:]

trainer = GRPOTrainer(
    model=model,
    reward_funcs=accuracy_reward,
    train_dataset=load_dataset(dataset, split="train"),
    callbacks=[PublishCallback(board, run="grpo-1")],
    rollout_func=rollout_func(agents),
)
trainer.train()
