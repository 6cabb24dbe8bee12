"""What the demo shows on a terminal: lines that stay, and below them a panel that is drawn again and again."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Sequence

DRAW_SECONDS = 0.25


class View:
    """Without a terminal only the lines that stay are printed."""

    def __init__(self) -> None:
        self._live = sys.stdout.isatty()
        self._drawn = 0  # lines of the panel that are on the screen
        self._panel: list[str] = []
        self._last = 0.0

    def say(self, line: str = "") -> None:
        """A line that stays, above the panel."""
        self._clear()
        print(line, flush=True)
        self._draw()

    def panel(self, lines: Callable[[], Sequence[str]]) -> None:
        """Show the lines in place of the last ones. They are asked for only when it is time to draw them."""
        if self._live and time.monotonic() - self._last >= DRAW_SECONDS:
            self._clear()
            self._panel = list(lines())
            self._draw()
            self._last = time.monotonic()

    def close_panel(self) -> None:
        """Take the panel away."""
        self._clear()
        self._panel = []

    def _clear(self) -> None:
        if self._drawn:
            print(f"\x1b[{self._drawn}F\x1b[J", end="", flush=True)
            self._drawn = 0

    def _draw(self) -> None:
        if self._live and self._panel:
            size = shutil.get_terminal_size()
            shown = [line[: size.columns - 1] for line in self._panel[: size.lines - 1]]
            print("\n".join(shown), flush=True)
            self._drawn = len(shown)


def duration(seconds: float) -> str:
    """41 ms, 3.2 s, 1:04."""
    if seconds < 0.9995:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"
