"""Plots as SVG text, for a page of HTML that gives the colours by classes (report.py)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT = 720, 270  # of a plot, in its own units
LEFT, RIGHT, TOP, BOTTOM = 64, 14, 12, 40  # around the area of its data
TIMELINE_WIDTH = 1100  # it has the whole width of the page

Point = tuple[float, float, str]  # x, y, what is said where the pointer rests on it


@dataclass(frozen=True)
class Series:
    """`colour`: a class of the page, c0, c1, …"""

    name: str
    colour: str
    points: Sequence[Point]
    line: bool = True  # points are joined


@dataclass
class Plot:
    """Points and lines over two axes; those of x are whole numbers."""

    title: str
    x_label: str
    y_label: str
    series: list[Series]
    say_y: Callable[[float], str] = lambda y: f"{y:g}"
    limits: list[Point] = field(default_factory=list)  # short level lines, each the most that a point may be
    whole_y: bool = False
    from_zero: bool = True  # y begins there

    def svg(self) -> str:
        points = [point for series in self.series for point in series.points]
        xs = [x for x, _, _ in points] or [0.0]
        ys = [y for _, y, _ in points] + [y for _, y, _ in self.limits] or [0.0]
        lowest, highest = 0.0 if self.from_zero else min(ys), max(ys)
        x_ticks = ticks(min(xs), max(xs), 9, whole=True)
        y_ticks = ticks(lowest, highest, 5, whole=self.whole_y)
        across = Scale(x_ticks[0], x_ticks[-1], LEFT + 8, WIDTH - RIGHT - 8)
        up = Scale(y_ticks[0], y_ticks[-1], HEIGHT - BOTTOM, TOP)
        parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(self.title)}">']
        for tick in y_ticks:
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up(tick)}" y2="{up(tick)}"/>')
            parts.append(_text(LEFT - 6, up(tick) + 4, self.say_y(tick), "end"))
        for tick in x_ticks:
            parts.append(_text(across(tick), HEIGHT - BOTTOM + 16, f"{tick:g}", "middle"))
        parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, self.x_label, "middle", "label"))
        room = (WIDTH - LEFT - RIGHT) / max(1, len(set(xs)))  # for all that is drawn at one x
        half = min(9.0, 0.45 * room)
        for x, y, said in self.limits:
            begin, end = _n(across(x) - half), _n(across(x) + half)
            parts.append(f'<line class="limit" x1="{begin}" x2="{end}" y1="{up(y)}" y2="{up(y)}">')
            parts.append(f"<title>{escape(said)}</title></line>")
        for series in self.series:
            parts += self._marks(series, across, up, radius=_n(min(4.0, max(2.0, 0.3 * room))))
        return "\n".join([*parts, "</svg>"])

    @staticmethod
    def _marks(series: Series, across: Scale, up: Scale, radius: float) -> list[str]:
        parts = []
        if series.line and len(series.points) > 1:
            way = " ".join(f"{across(x)},{up(y)}" for x, y, _ in series.points)
            parts.append(f'<polyline class="line {series.colour}" points="{way}"/>')
        for x, y, said in series.points:
            parts.append(f'<circle class="dot {series.colour}" cx="{across(x)}" cy="{up(y)}" r="{radius}">')
            parts.append(f"<title>{escape(said)}</title></circle>")
        return parts


@dataclass(frozen=True)
class Bar:
    """A stretch of time in a row of a timeline."""

    begin: float
    end: float
    look: str  # a class of the page
    said: str


@dataclass
class Timeline:
    """Rows of bars and marks over seconds."""

    title: str
    rows: list[tuple[str, list[Bar], list[tuple[float, str]]]]  # name, bars, marks with what is said of them
    moments: list[tuple[float, str]] = field(default_factory=list)

    def svg(self) -> str:
        step, top = 34, 22
        height = top + step * len(self.rows) + BOTTOM
        latest = max(bar.end for _, bars, _ in self.rows for bar in bars)
        along = ticks(0, latest, 12, whole=True)
        across = Scale(0, max(latest, along[-1]), LEFT + 8, TIMELINE_WIDTH - RIGHT - 8)
        parts = [f'<svg viewBox="0 0 {TIMELINE_WIDTH} {height}" role="img" aria-label="{escape(self.title)}">']
        for tick in along:
            parts.append(
                f'<line class="grid" x1="{across(tick)}" x2="{across(tick)}" y1="{top}" y2="{height - BOTTOM}"/>'
            )
            parts.append(_text(across(tick), height - BOTTOM + 16, f"{tick:g}", "middle"))
        parts.append(
            _text((LEFT + TIMELINE_WIDTH - RIGHT) / 2, height - 6, "seconds since the demo began", "middle", "label")
        )
        for row, (name, bars, marks) in enumerate(self.rows):
            y = top + row * step + 7
            parts.append(_text(LEFT - 6, y + 14, name, "end", "label"))
            for bar in bars:
                wide = max(1.0, across(bar.end) - across(bar.begin))
                parts.append(
                    f'<rect class="{bar.look}" x="{across(bar.begin)}" y="{y}" width="{_n(wide)}" height="20" rx="2">'
                )
                parts.append(f"<title>{escape(bar.said)}</title></rect>")
            for x, said in marks:
                parts.append(f'<line class="mark" x1="{across(x)}" x2="{across(x)}" y1="{y}" y2="{y + 20}">')
                parts.append(f"<title>{escape(said)}</title></line>")
        for x, words in self.moments:
            parts.append(
                f'<line class="moment" x1="{across(x)}" x2="{across(x)}" y1="{top - 6}" y2="{height - BOTTOM}"/>'
            )
            parts.append(_text(across(x), top - 10, words, "middle"))
        return "\n".join([*parts, "</svg>"])


class Scale:
    """From values to places."""

    def __init__(self, first: float, last: float, begin: float, end: float) -> None:
        self._first, self._begin = first, begin
        self._factor = (end - begin) / ((last - first) or 1.0)

    def __call__(self, value: float) -> float:
        return _n(self._begin + (value - self._first) * self._factor)


def ticks(low: float, high: float, most: int, *, whole: bool = False) -> list[float]:
    """Round numbers from below or at `low` to above or at `high`, in equal steps, `most` steps or fewer."""
    if high <= low:
        high = low + 1
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    for factor in (1, 2, 5, 10, 20, 50):
        size = max(1.0, step * factor) if whole else step * factor
        first, last = math.floor(low / size + 1e-9), math.ceil(high / size - 1e-9)
        if last - first <= most:
            return [round(number * size, 12) for number in range(first, last + 1)]
    raise AssertionError(f"no ticks from {low} to {high}")


def _text(x: float, y: float, words: str, anchor: str, look: str = "tick") -> str:
    return f'<text class="{look}" x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}">{escape(words)}</text>'


def _n(value: float) -> float:
    """Two digits are enough for a picture."""
    return round(value, 2)
