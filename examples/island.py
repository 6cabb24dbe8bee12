"""An island: a process of its own that follows a board, rebuilds every version, and serves it.

    python examples/island.py --skerry BINARY --board BOARD --run NAME --state DIR --events FILE

It knows the board and nothing else: not the trainer, not its disks. For each version it pulls the
patch, which turns the checkpoint it holds into the next one, writes down the SHA-256 of every file
of it, loads it with transformers in bf16 and answers a prompt. It runs until it is told to stop.

A rollout fleet would pull just the newest version, several at once if it fell behind; this one
takes each in turn, to show that each arrives.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from arithmetic import Problem
from digests import file_digests
from event_log import EventWriter
from skerry_cli import Skerry, SkerryError

PROBLEM = Problem(7, 8)
NEW_TOKENS = 12  # longest answer
POLL_SECONDS = 0.5


class Engine:
    """A stand-in for an inference engine: a bf16 model that takes new weights in place."""

    def __init__(self, checkpoint: Path) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(checkpoint)
        self._model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.bfloat16)

    def load(self, checkpoint: Path) -> None:
        """Copy the checkpoint's tensors into the model.

        The copy matters even at the first version: `from_pretrained` leaves the model looking at
        the files themselves, which the next pull changes.
        """
        for path in sorted(checkpoint.glob("*.safetensors")):
            unexpected = self._model.load_state_dict(load_file(path), strict=False).unexpected_keys
            if unexpected:
                raise ValueError(f"{path}: the model has no {unexpected[0]}")

    @torch.inference_mode()
    def ask(self, problem: Problem) -> dict[str, Any]:
        """The greedy answer, and the log-probability of answering with the sum and nothing else."""
        tokenizer, model = self._tokenizer, self._model
        chat = tokenizer.apply_chat_template(
            problem.chat, add_generation_prompt=True, tokenize=False
        )
        prompt = tokenizer(chat, return_tensors="pt", add_special_tokens=False)["input_ids"]
        tokens = model.generate(
            input_ids=prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=NEW_TOKENS,
            do_sample=False,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
        answer = tokenizer.decode(tokens[0, prompt.shape[1] :], skip_special_tokens=True)

        ending = f"{problem.answer}{tokenizer.eos_token}"
        wanted = tokenizer(ending, return_tensors="pt", add_special_tokens=False)["input_ids"]
        logits = model(input_ids=torch.cat([prompt, wanted], dim=1)).logits
        log_probabilities = logits[:, prompt.shape[1] - 1 : -1].float().log_softmax(-1)
        sum_log_probability = log_probabilities.gather(-1, wanted[..., None]).sum().item()
        return {"answer": answer.strip(), "sum_log_probability": sum_log_probability}


def follow(options: argparse.Namespace) -> None:
    """Take version 0, then every further one as the board's head reaches it."""
    events = EventWriter(options.events)
    skerry = Skerry(options.skerry, options.board, options.run)
    checkpoint = options.state / "checkpoint"
    options.state.mkdir(parents=True, exist_ok=True)
    engine: Engine | None = None
    version = 0
    while True:
        try:
            if version > skerry.head()["version"]:
                time.sleep(POLL_SECONDS)
                continue
            receipt = skerry.pull(checkpoint, version)
        except SkerryError as error:
            if not error.may_pass:
                raise
            time.sleep(POLL_SECONDS)
            continue

        files = file_digests(checkpoint)
        begin = time.monotonic()
        engine = engine or Engine(checkpoint)
        engine.load(checkpoint)
        loaded = time.monotonic()
        reply = engine.ask(PROBLEM)
        seconds = {"load": round(loaded - begin, 3), "ask": round(time.monotonic() - loaded, 3)}
        events.write(
            "version", version=version, files=files, receipt=receipt, seconds=seconds, **reply
        )
        version += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--skerry", type=Path, required=True, help="the skerry binary")
    parser.add_argument("--board", required=True, help="where versions are published")
    parser.add_argument("--run", required=True, help="name of the run on the board")
    parser.add_argument("--state", type=Path, required=True, help="the island's own folder")
    parser.add_argument("--events", type=Path, required=True, help="file to append events to")

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)  # the trainer needs the cores
    try:
        follow(parser.parse_args())
    except SkerryError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
