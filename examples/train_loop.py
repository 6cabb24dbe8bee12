"""A plain PyTorch loop that publishes after every step. Two lines are Skerry's.

    python examples/train_loop.py MODEL BOARD [STEPS]

MODEL is a checkpoint directory of a causal language model; it becomes version 0 of the run.
"""

import sys

import torch
from transformers import AutoModelForCausalLM

from skerry import Publisher

model_path, board, steps = sys.argv[1], sys.argv[2], int((sys.argv[3:] or ["5"])[0])
model = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32)  # masters; bf16 is what is served
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
tokens = torch.randint(model.config.vocab_size, (4, 32), generator=torch.Generator().manual_seed(0))


def report(publish):
    receipt = publish.result()
    print(
        f"version {receipt.version} of step {receipt.step}: {receipt.density:.4%} of the elements changed, "
        f"{receipt.patch_bytes} bytes, model {receipt.model[:12]}"
    )


with Publisher(board, "pretrain-1", base=model_path) as publisher:  # the first line
    for step in range(1, steps + 1):
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        publish = publisher.publish_async(model, step=step)  # the second: the next step may overwrite the weights
        publish.add_done_callback(report)
