"""The task: small additions, and the reward for an answer."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """Two numbers to add."""

    a: int
    b: int

    @property
    def answer(self) -> int:
        """Their sum."""
        return self.a + self.b

    @property
    def chat(self) -> list[dict[str, str]]:
        """The prompt as chat messages, ready for a tokenizer's chat template."""
        question = f"What is {self.a} + {self.b}? Reply with only the number."
        return [{"role": "user", "content": question}]


def draw(rng: random.Random, count: int) -> list[Problem]:
    """`count` random problems with both numbers in 2..40."""
    return [Problem(rng.randint(2, 40), rng.randint(2, 40)) for _ in range(count)]


def reward(completion: str, problem: Problem) -> float:
    """How good a completion is, from about -1 to 1.3.

    1 where its last number is the sum, up to 0.3 for the share of digits in it (the prompt asks for
    nothing but a number), and a small cost for every character.
    """
    text = completion.strip()
    numbers = re.findall(r"-?\d+", text)
    correct = bool(numbers) and int(numbers[-1]) == problem.answer
    digits = sum(character.isdigit() for character in text) / max(len(text), 1)
    return float(correct) + 0.3 * digits - 0.01 * len(text)
