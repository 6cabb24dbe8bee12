"""What publishing costs a trainer: its step time with publish_async beside without, and its memory. Prints ratios.

usage: python bench/trainer.py MODEL [--step grpo|update] [--tokens N] [--views NAME]… [--rounds N] [--steps N]
                               [--threads N] [--level LEVEL]

MODEL is a checkpoint directory (build/demo/SmolLM2-135M-Instruct, which ./demo makes). Masters are F32 under AdamW, the
learning rate is 1e-6. A step of kind grpo samples 8 completions of 256 tokens (--tokens), as many as TRL's GRPOConfig has by
default, with the model itself, and updates it on them; one of kind update is forward and backward of 8 sequences of 64 tokens, without a pause in which the processor
has time for anything else. Blocks of STEPS steps with and without publishing take turns in one process; a block's time
includes what is still in flight at its end. Memory is the peak (VmHWM) of two processes more, beside each other's: the
snapshot, which is mapped, counts in full. --views publishes each version in these further views too (docs/views.md).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MIB = 1 << 20


class Training:
    def __init__(self, model: str, step: str, tokens: int) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        torch.manual_seed(0)
        self.model = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        # Masters lie anywhere inside of what rounds to the served value, as they do after some training.
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.mul_(1 + (torch.rand_like(parameter) - 0.5) * 2**-8 * 0.98)
        self._optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-6)
        self._samples = tokens if step == "grpo" else 0
        self._prompts = torch.randint(self.model.config.vocab_size, (8, 16))
        self._tokens = torch.randint(self.model.config.vocab_size, (8, 64))
        self.steps = 0

    def step(self) -> None:
        tokens = self._tokens
        if self._samples:
            tokens = self.model.generate(
                self._prompts, do_sample=True, max_new_tokens=self._samples, min_new_tokens=self._samples, pad_token_id=0
            )
        self.model(input_ids=tokens, labels=tokens).loss.backward()
        self._optimizer.step()
        self._optimizer.zero_grad()
        self.steps += 1


def peak_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmHWM")


def publisher_of(arguments: argparse.Namespace, folder: str):
    from skerry import Publisher

    return Publisher(
        f"{folder}/board", "bench", base=arguments.model, state=f"{folder}/state", threads=arguments.threads,
        level=arguments.level, views=arguments.views, base_mode="copy" if arguments.views else "reference",
    )  # fmt: skip


def time_blocks(arguments: argparse.Namespace) -> dict[str, object]:
    """Seconds of each round's two blocks, and the receipts."""
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder, publisher_of(arguments, folder) as publisher:
        training = Training(arguments.model, arguments.step, arguments.tokens)
        training.step()  # warm-up, and the optimizer's state
        publisher.publish(training.model)
        rounds, receipts = [], []
        for number in range(arguments.rounds):
            seconds = {}
            for publishing in (False, True) if number % 2 == 0 else (True, False):
                if publishing:
                    publisher.publish(training.model)  # so that each publish of the block is of one step
                began = time.monotonic()
                handles = []
                for _ in range(arguments.steps):
                    training.step()
                    if publishing:
                        handles.append(publisher.publish_async(training.model, step=training.steps))
                publisher.wait()
                seconds["with" if publishing else "without"] = time.monotonic() - began
                receipts += [handle.result() for handle in handles]
            rounds.append(seconds)
        return {
            "rounds": rounds,
            "capture": statistics.median(one.seconds["capture"] for one in receipts),
            "whole": statistics.median(one.seconds["total"] for one in receipts),
            "density": statistics.median(one.density for one in receipts),
            "patch_bytes": statistics.median(one.patch_bytes for one in receipts),
            "checkpoint_bytes": receipts[0].checkpoint_bytes,
            "views": {
                name: {
                    "density": statistics.median(one.views[name].density for one in receipts),
                    "patch_bytes": statistics.median(one.views[name].patch_bytes for one in receipts),
                    "checkpoint_bytes": of_view.checkpoint_bytes,
                }
                for name, of_view in receipts[0].views.items()
            },
        }


def memory(arguments: argparse.Namespace, publishing: bool) -> int:
    """Peak of a process that trains some steps."""
    training = Training(arguments.model, arguments.step, arguments.tokens)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        if not publishing:
            for _ in range(3):
                training.step()
            return peak_bytes()
        with publisher_of(arguments, folder) as publisher:
            for _ in range(3):
                training.step()
                publisher.publish_async(training.model, step=training.steps)
        return peak_bytes()


def child(arguments: argparse.Namespace, what: str) -> object:
    command = [sys.executable, __file__, arguments.model, "--part", what, "--folder", arguments.folder]
    command += ["--step", arguments.step, "--tokens", str(arguments.tokens), "--views", *arguments.views]
    command += ["--threads", str(arguments.threads), "--level", arguments.level]
    made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(made.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--step", choices=["grpo", "update"], default="grpo")
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--views", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--level", default="compact")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where the board and the state are put")
    parser.add_argument("--part", choices=["memory-with", "memory-without"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if arguments.part:
        print(json.dumps(memory(arguments, arguments.part == "memory-with")))
        return

    made = time_blocks(arguments)
    ratios = [one["with"] / one["without"] for one in made["rounds"]]
    without = statistics.median(one["without"] for one in made["rounds"]) / arguments.steps
    print(f"a step ({arguments.step}) without publishing: {without:.2f} s")
    print(
        f"with publish_async: {statistics.median(ratios):.3f} x (rounds: {', '.join(f'{one:.3f}' for one in ratios)}); "
        f"the step waits {made['capture']:.3f} s, the version is out after {made['whole']:.2f} s; "
        f"{made['density']:.3%} changed, {made['patch_bytes'] / 1e6:.2f} MB of {made['checkpoint_bytes'] / 1e6:.0f} MB"
    )
    snapshots = made["checkpoint_bytes"]
    for name, view in made["views"].items():
        snapshots += view["checkpoint_bytes"]
        print(f"view {name}: {view['density']:.3%} changed, {view['patch_bytes'] / 1e6:.3f} MB")
    peaks = {part: child(arguments, f"memory-{part}") for part in ("without", "with")}
    extra = peaks["with"] - peaks["without"]
    beyond = extra - snapshots
    print(
        f"peak memory: {peaks['without'] / MIB:.0f} MiB without, {peaks['with'] / MIB:.0f} MiB with: "
        f"{extra / MIB:.0f} MiB more: snapshots of {snapshots / MIB:.0f} MiB and {beyond / MIB:.0f} MiB"
    )


if __name__ == "__main__":
    main()
