"""The trainer of the whole loop: TRL's GRPOTrainer, sampling through islands and publishing every step.

    python -m loop.trainer --board URL --run NAME --base DIR --served DIR --state DIR --events FILE --steps N

What makes it a Skerry trainer is two arguments of GRPOTrainer: the callback and the rollout function. All else that is
not TRL's own is for the demo: it tells what happens, and writes down the SHA-256 of the view that it serves, for others
to compare.

It reads orders from its standard input, one a line: `islands URL…` says where to sample from now on (the first one lets
it begin), `enough` lets it end after --steps. Without that or an end of file it goes on.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import torch
import transformers
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

import arithmetic
from digests import file_digests
from event_log import EventWriter
from served_view import ServedView
from skerry import Publisher
from skerry.hf import PublishCallback
from skerry.trl import rollout_func

PROMPTS = 4  # problems a step
GROUP = 6  # sampled answers a problem
NEW_TOKENS = 16  # longest answer
MICRO_BATCH = 8  # answers in one forward and backward pass
LONGEST_RUN = 1000  # steps more than --steps
STALENESS = 1  # versions that an answer may be older than the newest published one when it is asked for


class Orders:
    """What standard input has said so far."""

    def __init__(self) -> None:
        self.islands: list[str] = []
        self.enough = threading.Event()
        self._begin = threading.Event()
        threading.Thread(target=self._read, name="orders", daemon=True).start()

    def wait_for_islands(self) -> None:
        """Until there are some. Ends the program where there will be none."""
        self._begin.wait()
        if not self.islands:
            sys.exit("nobody named an island")

    def _read(self) -> None:
        for line in sys.stdin:
            order, *words = line.split()
            if order == "islands":
                self.islands = words
                self._begin.set()
            elif order == "enough":
                self.enough.set()
        self.enough.set()
        self._begin.set()


class Before(TrainerCallback):
    """Stands before the one that publishes: when a step ended, and when its publishing began."""

    def __init__(self, events: EventWriter) -> None:
        self._events = events

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._events.write("began", step=state.global_step + 1, time=time.time())

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._events.write("stepped", step=state.global_step, time=time.time())


class After(TrainerCallback):
    """Stands behind the one that publishes: the SHA-256 of the view that this step serves, by torch's rounding and not
    by Skerry's; and the end of the run."""

    def __init__(self, events: EventWriter, view: ServedView, orders: Orders, steps: int) -> None:
        self._events = events
        self._view = view
        self._orders = orders
        self._steps = steps

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self._events.write("returned", step=state.global_step, time=time.time())
        self._view.write(model.state_dict())
        self._events.write("served", step=state.global_step, files=file_digests(self._view.directory))
        if state.global_step >= self._steps and self._orders.enough.is_set():
            control.should_training_stop = True


def problems(seed: int, count: int) -> Dataset:
    """Additions, as prompts with their sums' parts."""
    drawn = arithmetic.draw(random.Random(seed), count)
    return Dataset.from_list([{"prompt": problem.chat, "a": problem.a, "b": problem.b} for problem in drawn])


def train(options: argparse.Namespace) -> None:
    events, orders = EventWriter(options.events), Orders()
    torch.manual_seed(options.seed)
    tokenizer = AutoTokenizer.from_pretrained(options.base, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(options.base, dtype=torch.float32)
    view = ServedView(options.base, options.served)
    events.write("base", files=file_digests(view.directory))

    def reward(completions: list[Any], a: list[int], b: list[int], **_: Any) -> list[float]:
        texts = [completion[-1]["content"] for completion in completions]
        asked = [arithmetic.Problem(*pair) for pair in zip(a, b, strict=True)]
        rewards = [arithmetic.reward(text, problem) for text, problem in zip(texts, asked, strict=True)]
        events.write("rewarded", time=time.time(), reward=sum(rewards) / len(rewards), answer=texts[0])
        return rewards

    def published(receipt: Any) -> None:
        if not receipt.step:
            return  # as training begins: the head is the base
        events.write(
            "published", time=time.time(), step=receipt.step, version=receipt.version, published=receipt.published,
            model=receipt.model, elements=receipt.elements, changed=receipt.changed, density=receipt.density,
            patch_bytes=receipt.patch_bytes, checkpoint_bytes=receipt.checkpoint_bytes, seconds=dict(receipt.seconds),
        )  # fmt: skip

    def answered(rollout: Any) -> None:
        events.write("answered", time=time.time(), completions=rollout.completions, attempts=rollout.attempts)

    longest = options.steps + LONGEST_RUN
    config = GRPOConfig(
        output_dir=str(options.state / "trl"),
        use_cpu=True,
        max_steps=longest,
        per_device_train_batch_size=MICRO_BATCH,
        gradient_accumulation_steps=PROMPTS * GROUP // MICRO_BATCH,
        num_generations=GROUP,
        max_completion_length=NEW_TOKENS,
        learning_rate=options.lr,
        lr_scheduler_type="constant",
        temperature=1.0,
        bf16=False,
        gradient_checkpointing=False,
        seed=options.seed,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
    )
    with Publisher(options.board, options.run, base=options.base, state=options.state / "publisher") as publisher:
        trainer = GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            args=config,
            train_dataset=problems(options.seed, longest * PROMPTS),
            reward_funcs=reward,
            callbacks=[
                Before(events),
                PublishCallback(publisher, on_publish=published),
                After(events, view, orders, options.steps),
            ],
            rollout_func=rollout_func(lambda: orders.islands, staleness=STALENESS, on_answer=answered),
        )
        events.write("ready", time=time.time())
        orders.wait_for_islands()
        trainer.train()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--board", required=True, help="where versions are published")
    parser.add_argument("--run", required=True, help="name of the run on the board")
    parser.add_argument("--base", type=Path, required=True, help="checkpoint that is version 0")
    parser.add_argument("--served", type=Path, required=True, help="new folder for the served view")
    parser.add_argument("--state", type=Path, required=True, help="the publisher's state folder")
    parser.add_argument("--events", type=Path, required=True, help="file to append events to")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--lr", type=float, default=1e-6)
    parser.add_argument("--seed", type=int, default=0)

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    train(parser.parse_args())


if __name__ == "__main__":
    main()
