"""What the trainer has told, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Event = dict[str, Any]


@dataclass
class Step:
    """One optimizer step. Times are of time.time(); None: not there yet."""

    step: int
    began: float
    rewarded: float | None = None  # all answers were there
    reward: float | None = None
    answer: str = ""  # one of them
    stepped: float | None = None  # the weights were new, and publishing began
    returned: float | None = None  # the call that publishes gave control back
    files: dict[str, str] | None = None  # SHA-256 of the served view's files
    published: float | None = None  # the version was out
    receipt: Event | None = None

    @property
    def version(self) -> int | None:
        return self.receipt["version"] if self.receipt else None

    @property
    def is_new(self) -> bool:
        """Whether it made a version; a step that changes nothing makes none."""
        return bool(self.receipt and self.receipt["published"])


@dataclass
class History:
    """The trainer's account so far."""

    ready: bool = False  # it could begin
    base_files: dict[str, str] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    answered: int = 0  # answers in the current step

    def add(self, event: Event) -> None:
        """Take the next event of the trainer. Raises ValueError for one that has no place."""
        kind = event["event"]
        if kind == "base":
            self.base_files = event["files"]
        elif kind == "ready":
            self.ready = True
        elif kind == "began":
            self.steps.append(Step(event["step"], event["time"]))
            self.answered = 0
        elif kind == "answered":
            self.answered += event["completions"]
        elif kind == "rewarded":
            current = self._current(kind)
            current.rewarded, current.reward, current.answer = event["time"], event["reward"], event["answer"]
        elif kind in ("stepped", "returned"):
            setattr(self.step_of(event["step"]), kind, event["time"])
        elif kind == "served":
            self.step_of(event["step"]).files = event["files"]
        elif kind == "published":
            step = self.step_of(event["step"])
            step.published, step.receipt = event["time"], event
        else:
            raise ValueError(f"what is the event '{kind}'?")

    @property
    def head(self) -> int:
        """The newest version that is out."""
        return max((step.version for step in self.steps if step.version is not None), default=0)

    def head_at(self, time: float) -> int:
        """The newest version that was out at that time."""
        out = [step.version for step in self.steps if step.version is not None and step.published <= time]
        return max(out, default=0)

    def versions(self) -> list[Step]:
        """The steps that made a version, in order."""
        return [step for step in self.steps if step.is_new]

    def step_of(self, number: int) -> Step:
        """The step of this number. Raises ValueError where it never began."""
        for step in reversed(self.steps):
            if step.step == number:
                return step
        raise ValueError(f"step {number} never began")

    def files_of(self, version: int) -> dict[str, str] | None:
        """SHA-256 of the files of the view that the trainer served as this version."""
        if version == 0:
            return self.base_files
        return next((step.files for step in self.steps if step.version == version), None)

    def model_of(self, version: int) -> str | None:
        """The model digest that the publisher said of the version."""
        return next((step.receipt["model"] for step in self.versions() if step.version == version), None)

    def _current(self, kind: str) -> Step:
        if not self.steps:
            raise ValueError(f"'{kind}' before the first step began")
        return self.steps[-1]
