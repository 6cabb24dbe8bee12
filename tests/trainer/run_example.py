"""Runs examples/train_trl.py with a tiny model: the example as it is, in a TRL that trains for some short steps only.
Run by the python that has TRL.

usage: run_example.py OUT MODEL DATASET BOARD AGENT…

Prints a line of JSON: receipts, rollouts, and writes what the trainer's weights are in the served dtype to
OUT/model.safetensors.
"""

import dataclasses
import functools
import json
import runpy
import sys
from pathlib import Path

import torch
import trl
import trl.rewards
import trl.trainer.grpo_trainer as grpo
from safetensors.torch import save_file

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_trl.py"
STEPS = 4


def short_reward(completions, **_):
    """Of random tokens, some are longer texts than others: so there is something to learn."""
    return [float(len(completion[0]["content"])) for completion in completions]


def main():
    out = Path(sys.argv.pop(1))
    trl.rewards.accuracy_reward = short_reward
    grpo.GRPOConfig = functools.partial(
        trl.GRPOConfig, max_steps=STEPS, max_completion_length=12, num_generations=4, per_device_train_batch_size=8,
        learning_rate=1e-4, use_cpu=True, bf16=False, report_to=[], save_strategy="no", logging_steps=1, seed=0,
    )  # fmt: skip
    sys.argv[0] = str(EXAMPLE)
    trainer = runpy.run_path(str(EXAMPLE), run_name="__main__")["trainer"]

    [callback] = [one for one in trainer.callback_handler.callbacks if type(one).__name__ == "PublishCallback"]
    names = {name for name, _ in trainer.model.named_parameters()}
    tensors = trainer.model.state_dict()
    out.mkdir()
    save_file({name: tensors[name].to(torch.bfloat16).contiguous() for name in names}, out / "model.safetensors")
    print(
        json.dumps(
            {
                "receipts": [
                    {"version": one.version, "step": one.step, "published": one.published, "changed": one.changed}
                    for one in callback.receipts
                ],
                "rollouts": [dataclasses.asdict(one) for one in trainer.rollout_func.records],
                "log": trainer.state.log_history,
            }
        )
    )


main()
