"""When a refused request is sent again. Time and randomness are parameters."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from skerry.client.errors import AgentUnreachable, EngineUnavailable, SkerryError, WeightVersionNotReady

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0  # seconds, where the answer names none
SHORTEST_PAUSE = 0.05  # seconds, where it names less
_SPREAD = 0.25  # of a pause that the answer named, on top of it


class Retries:
    """The tries of one request. Not thread-safe.

    `patience`: seconds from the first try in which a refusal is answered by another try; None: every refusal is final.
    """

    def __init__(
        self,
        patience: float | None,
        *,
        transport: bool = False,
        clock: Callable[[], float] = time.monotonic,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.attempts = 0
        self._clock, self._uniform = clock, uniform
        self._patience = patience
        self._end: float | None = None
        self._transport = transport

    def begin_try(self) -> None:
        self.attempts += 1
        if self._end is None and self._patience is not None:
            self._end = self._clock() + self._patience

    def left(self) -> float | None:
        """Seconds; None where there is no patience."""
        return None if self._end is None else max(0.0, self._end - self._clock())

    def pause(self, error: SkerryError) -> float | None:
        """Seconds to wait before the next try; None: the error is final.

        Never shorter than the answer asks for, so a pause that would outlast the patience ends it at once.
        """
        left = self.left()
        if left is None or not self._may_pass(error):
            return None
        asked = getattr(error, "retry_after", None)
        if asked is not None:
            pause = max(asked, SHORTEST_PAUSE) * self._uniform(1.0, 1.0 + _SPREAD)
        else:
            pause = min(FIRST_PAUSE * 2 ** min(self.attempts - 1, 16), LONGEST_PAUSE) * self._uniform(0.5, 1.0)
        return pause if pause < left else None

    def _may_pass(self, error: SkerryError) -> bool:
        if isinstance(error, WeightVersionNotReady):
            return not error.passed
        return isinstance(error, EngineUnavailable) or (self._transport and isinstance(error, AgentUnreachable))
