"""Waiting until an island serves a version, by looking at the agent's status."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any

from skerry.client.constraint import Constraint, checked_seconds
from skerry.client.errors import AgentUnreachable, AnswerBroken, EngineUnavailable, SkerryError, WeightVersionNotReady

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0  # seconds
_SHORTEST_LOOK, _LONGEST_LOOK = 0.5, 10.0  # seconds that a look may take

# What an agent that starts again may answer for a while.
MAY_PASS = (AgentUnreachable, AnswerBroken, EngineUnavailable)


class VersionWait:
    """The looks of one wait. Not thread-safe. `timeout` in seconds."""

    def __init__(
        self,
        version: int,
        timeout: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._wanted = Constraint(min_version=version).min_version
        self._clock, self._uniform = clock, uniform
        self._timeout = checked_seconds("timeout", timeout)
        self._end = clock() + self._timeout
        self._pause = FIRST_PAUSE
        self._status: Mapping[str, Any] = {}
        self._error: SkerryError | None = None

    def took(self, status: Mapping[str, Any]) -> int | None:
        """The version served, if it will do."""
        self._status, self._error = status, None
        served = status.get("version")
        return served if isinstance(served, int) and self._wanted is not None and served >= self._wanted else None

    def look_timeout(self) -> float:
        """Seconds for the next look."""
        return min(max(self._end - self._clock(), _SHORTEST_LOOK), _LONGEST_LOOK)

    def failed(self, error: SkerryError) -> None:
        """A look that failed by one of MAY_PASS."""
        self._error = error

    def pause(self) -> float:
        """Seconds before the next look. Time over: raises the last look's error, or WeightVersionNotReady."""
        left = self._end - self._clock()
        if left <= 0:
            raise self._error or self._not_ready()
        pause, self._pause = self._pause * self._uniform(0.5, 1.0), min(self._pause * 1.5, LONGEST_PAUSE)
        return min(pause, left)

    def _not_ready(self) -> WeightVersionNotReady:
        run, served = self._status.get("run"), self._status.get("version")
        why = self._status.get("not_ready_because")
        return WeightVersionNotReady(
            f"run {run} serves {'no one version' if served is None else f'version {served}'}, "
            f"not {self._wanted} within {self._timeout:g} s{f' ({why})' if why else ''}",
            status=409,
            type="WeightVersionNotReady",
            error={"run": run, "applied": served, "wanted": self._wanted, "constraint": "min"},
            body=dict(self._status),
        )
