"""A small, real GRPO trainer on the CPU that publishes every version it makes.

    python examples/train_grpo.py --skerry BINARY --board BOARD --run NAME --base DIR \\
        --served DIR --state DIR --events FILE --steps 8

Each step samples a group of answers to each of a few additions, rewards them, and moves the fp32
masters once with AdamW. The masters, rounded to bf16, are the *served view* that engines load. With
a learning rate of 1e-6 an Adam step moves a weight by about 1e-6, and most bf16 neighbours lie much
farther apart: nearly every master moves without a bit of the view changing. Only the view's changed
elements travel.

The board must have the run already (`skerry init`), with `--base` as its version 0.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

import arithmetic
from digests import file_digests
from event_log import EventWriter
from served_view import ServedView
from skerry_cli import Skerry, SkerryError

PROMPTS = 4  # problems a step
GROUP = 6  # sampled answers a problem
NEW_TOKENS = 16  # longest answer
MICRO_BATCH = 8  # answers in one forward and backward pass
MAX_GRADIENT_NORM = 1.0


@dataclass(frozen=True)
class Rollouts:
    """B = PROMPTS * GROUP sampled answers, each a row: left-padded prompt, then T answer tokens."""

    tokens: torch.Tensor  # [B, prompt + T] int64
    attention: torch.Tensor  # [B, prompt + T] int64, 0 on the prompt's padding
    answered: torch.Tensor  # [B, T] float32, 1 up to and with the end-of-answer token, 0 after it
    texts: list[str]  # B decoded answers


def sample(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, problems: list[arithmetic.Problem]
) -> Rollouts:
    """GROUP answers to each problem, at temperature 1 from the whole distribution."""
    prompts = [
        tokenizer.apply_chat_template(problem.chat, add_generation_prompt=True, tokenize=False)
        for problem in problems
        for _ in range(GROUP)
    ]
    encoded = tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False)
    with torch.no_grad():
        tokens = model.generate(
            input_ids=encoded["input_ids"],
            attention_mask=encoded["attention_mask"],
            max_new_tokens=NEW_TOKENS,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    answers = tokens[:, encoded["input_ids"].shape[1] :]
    ends = (answers == tokenizer.eos_token_id).int()
    ended_before = ends.cumsum(1) - ends
    return Rollouts(
        tokens=tokens,
        attention=torch.cat([encoded["attention_mask"], torch.ones_like(answers)], dim=1),
        answered=(ended_before == 0).float(),
        texts=tokenizer.batch_decode(answers, skip_special_tokens=True),
    )


def group_advantages(rewards: torch.Tensor) -> torch.Tensor:
    """Rewards [PROMPTS, GROUP] -> advantages of the same shape.

    An advantage is how many standard deviations an answer's reward lies above its own group's mean.
    This is GRPO's replacement for a value network. A group of equal rewards teaches nothing.
    """
    deviation = rewards.std(dim=1, keepdim=True)
    return (rewards - rewards.mean(dim=1, keepdim=True)) / (deviation + 1e-4)


def learn(model: PreTrainedModel, rollouts: Rollouts, advantages: torch.Tensor) -> float:
    """Accumulate the policy gradient of all answers; returns the loss. `advantages` is [B].

    There is one update per batch, so the policy that learns is the one that sampled: GRPO's
    probability ratio is 1, its clipping never acts, and its gradient is that of -advantage *
    log-probability, averaged over all answer tokens. There is no KL term.
    """
    length = rollouts.answered.shape[1]
    positions = (rollouts.attention.cumsum(1) - 1).clamp(min=0)
    total = 0.0
    for start in range(0, len(rollouts.tokens), MICRO_BATCH):
        rows = slice(start, start + MICRO_BATCH)
        logits = model(
            input_ids=rollouts.tokens[rows],
            attention_mask=rollouts.attention[rows],
            position_ids=positions[rows],
            use_cache=False,
            logits_to_keep=length + 1,
        ).logits[:, :-1]  # [rows, T, vocabulary]: position t predicts answer token t
        log_probability = -torch.nn.functional.cross_entropy(
            logits.transpose(1, 2), rollouts.tokens[rows, -length:], reduction="none"
        )
        weight = rollouts.answered[rows] / rollouts.answered.sum()
        loss = -(advantages[rows, None] * log_probability * weight).sum()
        loss.backward()
        total += loss.item()
    return total


class Stopwatch:
    """Seconds per named part of a step; writes an event when a part begins."""

    def __init__(self, events: EventWriter, step: int) -> None:
        self._events = events
        self._step = step
        self._part = ""
        self._since = 0.0
        self.seconds: dict[str, float] = {}

    def enter(self, part: str) -> None:
        """Begin a part, and so end the one before."""
        self.stop()
        self._part, self._since = part, time.monotonic()
        self._events.write("part", step=self._step, part=part)

    def stop(self) -> None:
        """End the current part."""
        if self._part:
            self.seconds[self._part] = round(time.monotonic() - self._since, 3)
            self._part = ""


def train(options: argparse.Namespace) -> None:
    """Run all steps: sample, learn, serve, hash, publish, and tell."""
    events = EventWriter(options.events)
    skerry = Skerry(options.skerry, options.board, options.run)
    torch.manual_seed(options.seed)
    rng = random.Random(options.seed)

    tokenizer = AutoTokenizer.from_pretrained(options.base, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(options.base, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=0.0)
    view = ServedView(options.base, options.served)
    events.write("base", version=0, files=file_digests(view.directory))

    for step in range(1, options.steps + 1):
        watch = Stopwatch(events, step)

        watch.enter("sample")
        problems = arithmetic.draw(rng, PROMPTS)
        rollouts = sample(model, tokenizer, problems)
        rewards = torch.tensor(
            [
                arithmetic.reward(text, problems[row // GROUP])
                for row, text in enumerate(rollouts.texts)
            ]
        )

        watch.enter("learn")
        optimizer.zero_grad()
        loss = learn(model, rollouts, group_advantages(rewards.view(PROMPTS, GROUP)).flatten())
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
        optimizer.step()

        watch.enter("serve")
        view.write(model.state_dict())

        watch.enter("hash")
        files = file_digests(view.directory)

        watch.enter("publish")
        receipt = skerry.publish(view.directory, step, options.state)

        watch.stop()
        events.write(
            "step",
            step=step,
            reward=rewards.mean().item(),
            loss=loss,
            files=files,
            receipt=receipt,
            seconds=watch.seconds,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--skerry", type=Path, required=True, help="the skerry binary")
    parser.add_argument("--board", required=True, help="where versions are published")
    parser.add_argument("--run", required=True, help="name of the run on the board")
    parser.add_argument("--base", type=Path, required=True, help="checkpoint that is version 0")
    parser.add_argument("--served", type=Path, required=True, help="new folder for the served view")
    parser.add_argument("--state", type=Path, required=True, help="the publisher's state folder")
    parser.add_argument("--events", type=Path, required=True, help="file to append events to")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-6)
    parser.add_argument("--seed", type=int, default=0)

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        train(parser.parse_args())
    except SkerryError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
