"""When all is still: what islands hold and answer, against the trainer's view and a fresh engine."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from digests import file_digests
from processes import DemoError, Process
from report import differences
from skerry_cli import Skerry

from .engine import Answer, answers_there, ask_questions, engine_command, engine_environment, free_port
from .history import History
from .island import Island, Place

ENGINE_PATIENCE = 600.0  # seconds for an engine to start on a busy machine


@dataclass(frozen=True)
class FinalChecks:
    """Every list names what is wrong; empty lists are good."""

    islands: list[str]  # checkpoints of islands against the trainer's view, by SHA-256
    board: list[str]  # a checkpoint pulled afresh against the trainer's view, by SHA-256
    digests: list[str]  # the board's model digests against those that the publisher said
    answers: list[str]  # islands against a fresh engine on what was pulled: tokens and log probabilities
    compared_tokens: int


def check_all(
    history: History, islands: Sequence[Island], skerry: Skerry, place: Place, cores: Sequence[int]
) -> FinalChecks:
    """At the head, which all `islands` serve. Stops their engines, as the fresh one needs room."""
    head = history.head
    served = history.files_of(head)
    if served is None:
        raise DemoError(f"the trainer did not say what it serves as version {head}")
    wrong_islands = [
        f"{island.name}: {difference}"
        for island in islands
        for difference in differences(served, file_digests(island.state / "checkpoint"))
    ]
    pulled = place.folder / "pulled"
    skerry.pull(pulled, head)
    answers = {island.name: ask_questions(island.url, {"Skerry-Exact-Version": str(head)}) for island in islands}
    for island in islands:
        island.stop_engine()
    with _fresh_engine(place, pulled, cores) as url:
        expected = ask_questions(url)
    return FinalChecks(
        islands=wrong_islands,
        board=differences(served, file_digests(pulled)),
        digests=_wrong_digests(history, skerry),
        answers=[
            difference for name, given in answers.items() for difference in answer_differences(name, given, expected)
        ],
        compared_tokens=sum(len(answer.tokens) for answer in expected) * len(answers),
    )


def answer_differences(name: str, given: Sequence[Answer], expected: Sequence[Answer]) -> list[str]:
    """How an island's answers differ from a fresh engine's; empty: not at all."""
    found = []
    for number, (mine, fresh) in enumerate(zip(given, expected, strict=True)):
        if mine.tokens != fresh.tokens:
            found.append(f"{name}, question {number}: tokens {mine.tokens}, a fresh engine {fresh.tokens}")
        elif mine.log_probabilities != fresh.log_probabilities:
            most = max(abs(a - b) for a, b in zip(mine.log_probabilities, fresh.log_probabilities, strict=True))
            found.append(f"{name}, question {number}: log probabilities differ by up to {most:g}")
    return found


def _wrong_digests(history: History, skerry: Skerry) -> list[str]:
    wrong = []
    for entry in skerry.log():
        said = history.model_of(entry["version"])
        if said is not None and said != entry["model_digest"]:
            wrong.append(f"version {entry['version']}: board {entry['model_digest']}, publisher {said}")
    return wrong


@contextlib.contextmanager
def _fresh_engine(place: Place, model: Path, cores: Sequence[int]) -> Iterator[str]:
    """The URL of an engine that was started on the files of `model`."""
    port = free_port()
    command = engine_command(place.engine_python, model, port, dummy=False)
    environment = engine_environment(cores)
    engine = Process("fresh engine", command, place.logs / "fresh-engine.log", more_environment=environment)
    try:
        url, end = f"http://127.0.0.1:{port}", time.monotonic() + ENGINE_PATIENCE
        while True:
            with contextlib.suppress(OSError):
                if answers_there(f"{url}/health"):
                    break
            if not engine.running() or time.monotonic() > end:
                raise DemoError(f"the fresh engine is not up after {ENGINE_PATIENCE:.0f} s")
            time.sleep(0.5)
        yield url
    finally:
        engine.stop()
