#!/usr/bin/env python3
"""How much of each served view an optimizer step changes, on a real model: GRPO on SmolLM2-135M, F32 masters, AdamW.

usage: absorption.py train MODEL KEPT [--lr 1e-6] [--steps 30] [--threads 1]
       absorption.py measure MODEL KEPT [--views fp8-block,...] [--scales frozen] [--views-of served] [--threads 1]
                             [--steps N] [--skerry SKERRY] [--json FILE]
       absorption.py measure V000 CHAIN --lr 1e-6 [--masters settled] [the same]

MODEL is a bf16 checkpoint directory (build/demo/SmolLM2-135M-Instruct, which ./demo makes). `train` samples answers to
small sums, rewards right and short ones, and takes one AdamW step a round; into the folder KEPT it writes the masters
of each step (KEPT/step_NN/: two bytes an element, and what changed in the other two) and a line of KEPT/steps.jsonl.
`measure` goes through them and prints for each step the share of elements that changed in each view of skerry.views,
beside what `skerry absorb` predicts from MODEL alone and what a talk on a large model reports. KEPT takes 0.27 GB a
step; a step of training takes 25-40 s on two cores. CHAIN holds bf16 checkpoints v001, v002, … instead, one a step.

The prompts, the reward and the seeds are those of the recorded corpus (bench/README.md). Needs torch and transformers;
`measure` needs the package skerry.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

PROMPTS, GROUP, NEW_TOKENS = 4, 6, 20  # prompts a step, completions a prompt, tokens a completion
MICRO_BATCH = 8


def reward(answer: str, summands: tuple[int, int]) -> float:
    """1 for the right sum, a little for a short answer."""
    number = re.search(r"-?\d+", answer)
    right = number is not None and int(number.group()) == sum(summands)
    return (1.0 if right else 0.0) + 0.3 * (len(answer.strip()) <= 4) - 0.01 * len(answer)


class Training:
    """GRPO with one gradient step a round, on policy: the loss is -advantage * log probability."""

    def __init__(self, model: str, lr: float) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        torch.manual_seed(0)
        self._random = random.Random(0)
        self._tokenizer = AutoTokenizer.from_pretrained(model, padding_side="left")
        self.model = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        self._optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, betas=(0.9, 0.999), weight_decay=0.0)

    def step(self) -> dict[str, float]:
        sums = [(self._random.randint(2, 40), self._random.randint(2, 40)) for _ in range(PROMPTS)]
        texts = [self._prompt(a, b) for a, b in sums for _ in range(GROUP)]
        encoded = self._tokenizer(texts, return_tensors="pt", padding=True)
        begin = encoded["input_ids"].shape[1]
        with torch.no_grad():
            tokens = self.model.generate(**encoded, max_new_tokens=NEW_TOKENS, do_sample=True, temperature=1.0)
        answers = self._tokenizer.batch_decode(tokens[:, begin:], skip_special_tokens=True)
        rewards = torch.tensor([reward(answer, sums[i // GROUP]) for i, answer in enumerate(answers)])
        rewards = rewards.view(PROMPTS, GROUP)
        deviation = rewards.std(1, keepdim=True) + 1e-4
        advantages = ((rewards - rewards.mean(1, keepdim=True)) / deviation).view(-1)
        attended = torch.cat([encoded["attention_mask"], torch.ones_like(tokens[:, begin:])], 1)
        self._optimizer.zero_grad()
        for i in range(0, PROMPTS * GROUP, MICRO_BATCH):
            part = slice(i, i + MICRO_BATCH)
            logits = self.model(input_ids=tokens[part], attention_mask=attended[part]).logits[:, begin - 1 : -1]
            chosen = torch.log_softmax(logits, -1).gather(-1, tokens[part, begin:, None])[..., 0]
            (-(advantages[part, None] * chosen).mean() / (PROMPTS * GROUP / MICRO_BATCH)).backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self._optimizer.step()
        return {"reward": rewards.mean().item(), "gradient_norm": norm.item()}

    def _prompt(self, a: int, b: int) -> str:
        question = {"role": "user", "content": f"What is {a} + {b}? Reply with only the number."}
        return self._tokenizer.apply_chat_template([question], add_generation_prompt=True, tokenize=False)


Tensors = Iterator[tuple[str, torch.Tensor]]


class KeptMasters:
    """Masters of each step, bit for bit: the low halves of all words, and the high halves that changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, step: int, before: dict[str, np.ndarray], after: dict[str, torch.Tensor]) -> None:
        """`before`: high halves, which become those of `after`."""
        folder = self._folder / f"step_{step:02d}"
        folder.mkdir(parents=True, exist_ok=True)
        changes: dict[str, np.ndarray] = {}
        with (folder / "low.bin").open("wb") as low:
            for name, tensor in after.items():
                words = tensor.detach().numpy().ravel().view(np.uint32)
                (words & 0xFFFF).astype(np.uint16).tofile(low)
                high = (words >> 16).astype(np.uint16)
                changed = np.nonzero(high != before[name])[0]
                changes[f"i/{name}"], changes[f"v/{name}"] = changed.astype(np.uint32), high[changed]
                before[name] = high
        np.savez(folder / "unfinished.npz", **changes)
        (folder / "unfinished.npz").rename(folder / "high.npz")  # `measure` may look on

    def steps(self) -> int:
        return sum(1 for _ in self._folder.glob("step_*/high.npz"))

    def lr(self) -> float:
        return json.loads((self._folder / "steps.jsonl").read_text().splitlines()[0])["lr"]

    def read(self, base: dict[str, torch.Tensor]) -> Iterator[Tensors]:
        """The masters after each step, without end. `base`: the bf16 weights that training began with."""
        high = {name: tensor.view(torch.int16).numpy().view(np.uint16).ravel().copy() for name, tensor in base.items()}
        for step in itertools.count(1):
            while not (self._folder / f"step_{step:02d}" / "high.npz").exists():
                time.sleep(1)  # `train` is still at it
            yield ((name, torch.from_numpy(words).view(base[name].shape)) for name, words in self._step(high, step))

    def _step(self, high: dict[str, np.ndarray], step: int) -> Iterator[tuple[str, np.ndarray]]:
        """Names and float32 words, flat; `high` moves along."""
        folder = self._folder / f"step_{step:02d}"
        changes = np.load(folder / "high.npz")
        with (folder / "low.bin").open("rb") as low:
            for name in (key[2:] for key in changes.files if key.startswith("i/")):  # in the order of low.bin
                halves = high[name]
                halves[changes[f"i/{name}"]] = changes[f"v/{name}"]
                words = halves.astype(np.uint32) << 16
                words |= np.fromfile(low, np.uint16, len(halves))
                yield name, words.view(np.float32)


class Chain:
    """Served bf16 checkpoints of each step."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def steps(self) -> int:
        return sum(1 for _ in self._folder.glob("v[0-9][0-9][0-9]")) - 1

    def read(self, base: dict[str, torch.Tensor]) -> Iterator[Tensors]:
        for step in itertools.count(1):
            yield iter(tensors_of(self._folder / f"v{step:03d}").items())


def tensors_of(directory: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    tensors: dict[str, torch.Tensor] = {}
    for shard in sorted(directory.glob("*.safetensors")):
        tensors.update(load_file(shard))
    return tensors


def high_halves(tensors: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    return {
        name: (tensor.detach().numpy().ravel().view(np.uint32) >> 16).astype(np.uint16)
        for name, tensor in tensors.items()
    }


def train(arguments: argparse.Namespace) -> None:
    torch.set_num_threads(arguments.threads)
    arguments.kept.mkdir(parents=True, exist_ok=True)
    training = Training(arguments.model, arguments.lr)
    masters = dict(training.model.named_parameters())
    high = high_halves(masters)
    kept = KeptMasters(arguments.kept)
    with (arguments.kept / "steps.jsonl").open("w") as log:
        for step in range(1, arguments.steps + 1):
            began = time.monotonic()
            facts = {"step": step, "lr": arguments.lr, **training.step()}
            kept.write(step, high, masters)
            print(json.dumps({**facts, "seconds": round(time.monotonic() - began, 1)}), file=log, flush=True)


class ServedCodes:
    """What one view serves of the masters, step after step, and how much of it changes."""

    def __init__(self, name: str, scales: str, of_masters: bool) -> None:
        from skerry.views import View

        self.name = name
        self._view = View(name, scales=scales, dtype=None if name in ("bf16", "fp16") else "bf16")
        self._of_masters = of_masters
        self._before: dict[str, dict[str, torch.Tensor]] = {}
        self.codes = 0  # weights that the view quantises

    def change(self, name: str, weight: torch.Tensor) -> tuple[int, int]:
        """Elements of this tensor that are not what they were at the last call, and which of them are codes."""
        before = self._before.get(name)
        converts = self._view.converts(name, weight.shape)
        if converts and not self._of_masters:
            weight = weight.to(torch.bfloat16)
        made = self._view.quantize(name, weight, None if before is None else before.__getitem__).tensors
        self._before[name] = made
        if before is None:
            self.codes += weight.numel() if converts else 0
            return 0, 0
        served = next(iter(made))  # codes come before scales
        bits = torch.uint8 if converts else torch.int16
        changed = made[served].view(bits) ^ before[served].view(bits)
        count = int(torch.count_nonzero(changed))
        if not converts:
            return count, 0
        if weight.numel() == 2 * changed.numel():  # two codes a byte
            count = int(((changed & 15) != 0).sum()) + int(((changed >> 4) != 0).sum())
        return count, count


# Shares of changed weights that a talk reported for a large model served in FP8: of the first step, and later ones.
TALK = (0.0015, 0.0005)


@dataclass(frozen=True)
class Prediction:
    """What `skerry absorb` says of one view, for each step: shares of all weights, and of the codes."""

    densities: list[float]
    codes: list[float]


def predictions(arguments: argparse.Namespace, lr: float, steps: int) -> dict[str, Prediction]:
    """By view; nothing without --skerry."""
    if not arguments.skerry:
        return {}
    command = [arguments.skerry, "absorb", arguments.model, "--lr", str(lr), "--steps", f"1-{steps}",
               "--masters", arguments.masters, "--views-of", arguments.views_of, "--json"]  # fmt: skip
    report = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    return {
        view["view"]: Prediction(
            [step["density"] for step in view["steps"]],
            [step["quantised_changed"] / max(1, view["quantised_weights"]) for step in view["steps"]],
        )
        for view in report["views"]
    }


def measure(arguments: argparse.Namespace) -> None:
    from skerry.views import NAMES

    torch.set_num_threads(arguments.threads)
    run = KeptMasters(arguments.kept) if (arguments.kept / "steps.jsonl").exists() else Chain(arguments.kept)
    lr = run.lr() if isinstance(run, KeptMasters) else arguments.lr
    if lr is None:
        raise SystemExit("--lr: a chain of checkpoints does not say with which learning rate it was trained")
    # fp16 numbers of a chain's bf16 ones change where these do, which says nothing.
    known = [name for name in NAMES if name != "fp16" or isinstance(run, KeptMasters)]
    names = arguments.views.split(",") if arguments.views else known
    views = [ServedCodes(name, arguments.scales, arguments.views_of == "masters") for name in names]
    steps = arguments.steps or run.steps()
    base = tensors_of(Path(arguments.model))
    for name, tensor in base.items():
        for view in views:
            view.change(name, tensor)
    table = Table(names, sum(tensor.numel() for tensor in base.values()), predictions(arguments, lr, steps))
    print(f"lr {lr:g}, scales {arguments.scales}, views of {arguments.views_of}")
    table.begin()
    for tensors in itertools.islice(run.read(base), steps):
        changed = np.zeros((len(views), 2))
        for name, weight in tensors:
            for i, view in enumerate(views):
                changed[i] += view.change(name, weight)
        table.add(changed, [view.codes for view in views])
    table.end()
    if isinstance(run, KeptMasters):
        print(embedding_gradients(base, run, lr))
    if arguments.json:
        report = {"lr": lr, "scales": arguments.scales, "views_of": arguments.views_of, "measured": table.densities}
        report["predicted"] = {name: one.densities for name, one in table.predicted.items()}
        arguments.json.write_text(json.dumps(report, indent=1))


def embedding_gradients(base: dict[str, torch.Tensor], run: KeptMasters, lr: float) -> str:
    """What gradients the embedding had, by Adam's first step: that is lr * g / (g + epsilon)."""
    [(name, after)] = [(name, weight) for name, weight in next(run.read(base)) if "embed" in name]
    steps = ((after - base[name].float()).abs() / lr).double().ravel()
    low, median, high = (1e-8 * float(step / (1 - step)) for step in np.quantile(steps.numpy(), [0.25, 0.5, 0.75]))
    elements = sum(tensor.numel() for tensor in base.values())
    spread = np.log(high / low) / 1.349  # of a normal distribution between its quartiles
    return (
        f"Gradients of {name} at the first step: median {median:.2g}, spread {spread:.2f}; "
        f"1 / (sqrt(weights) * vocabulary) is {1 / np.sqrt(elements) / len(after):.2g}."
    )


class Table:
    """Prints a line for each step: measured, and predicted in brackets."""

    LABEL, CELL = 6, 18

    def __init__(self, views: list[str], elements: int, predicted: dict[str, Prediction]) -> None:
        self.elements, self.predicted = elements, predicted
        self.densities: dict[str, list[float]] = {view: [] for view in views}
        self._codes: dict[str, list[float]] = {}

    def begin(self) -> None:
        print(f"% of all {self.elements} weights that change, measured (predicted)")
        print("step".ljust(self.LABEL) + "".join(f"{view:>{self.CELL}}" for view in self.densities))

    def add(self, changed: np.ndarray, codes: list[int]) -> None:
        """`changed`: for each view, elements and codes."""
        for view, (elements, of_codes), count in zip(self.densities, changed, codes):
            self.densities[view].append(elements / self.elements)
            if count:
                self._codes.setdefault(view, []).append(of_codes / count)
        step = len(next(iter(self.densities.values())))
        self._line(str(step), slice(step - 1, step))

    def end(self) -> None:
        steps = len(next(iter(self.densities.values())))
        late = slice(min(9, steps - 1), min(30, steps))
        mean = f"{late.start + 1}-{late.stop}"
        self._line(mean, late)
        if self.predicted:
            ratios = [np.mean(self.predicted[view].densities[late]) / np.mean(values[late])
                      for view, values in self.densities.items()]  # fmt: skip
            print("ratio".ljust(self.LABEL) + "".join(f"{ratio:.2f} x".rjust(self.CELL) for ratio in ratios))
        for what, steps_of in (("step 1", slice(0, 1)), (f"steps {mean}", late)):
            codes = [f"{view} {self._cell(values[steps_of], [one.codes[steps_of] for one in self._of(view)])}"
                     for view, values in self._codes.items()]  # fmt: skip
            print(f"% of the codes, {what}: {', '.join(codes)}")
        first, later = (100 * share for share in TALK)
        print(f"A talk on a large model in FP8: {first:.2f} % in the first step, about {later:.2f} % later.")

    def _of(self, view: str) -> list[Prediction]:
        return [self.predicted[view]] if view in self.predicted else []

    def _line(self, label: str, steps: slice) -> None:
        cells = [self._cell(values[steps], [one.densities[steps] for one in self._of(view)])
                 for view, values in self.densities.items()]  # fmt: skip
        print(label.ljust(self.LABEL) + "".join(cell.rjust(self.CELL) for cell in cells), flush=True)

    @staticmethod
    def _cell(measured: list[float], predicted: list[list[float]]) -> str:
        return " ".join([f"{100 * np.mean(measured):.4f}", *(f"({100 * np.mean(values):.4f})" for values in predicted)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    training = commands.add_parser("train")
    training.set_defaults(run=train)
    training.add_argument("--lr", type=float, default=1e-6)
    training.add_argument("--steps", type=int, default=30)
    training.add_argument("--threads", type=int, default=1)
    measuring = commands.add_parser("measure")
    measuring.set_defaults(run=measure)
    measuring.add_argument("--views", help="names, separated by commas (default: all)")
    measuring.add_argument("--scales", default="frozen")
    measuring.add_argument("--steps", type=int, help="so many, which need not be there yet (default: those that are)")
    measuring.add_argument("--lr", type=float, help="of a chain of checkpoints")
    measuring.add_argument("--masters", choices=["served", "settled"], default="served", help="as of skerry absorb")
    measuring.add_argument("--views-of", choices=["served", "masters"], default="served")
    measuring.add_argument("--skerry", help="the program skerry, for its predictions")
    measuring.add_argument("--json", type=Path)
    measuring.add_argument("--threads", type=int, default=1)
    for command in (training, measuring):
        command.add_argument("model")
        command.add_argument("kept", type=Path)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
