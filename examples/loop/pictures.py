"""Which plots the report has, and what they say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from html import escape

from report import size

from .measures import TIME_FACTOR, Arrival, Figures, Way
from .plots import Bar, Plot, Point, Series, Timeline
from .view import duration

STACK = 0.06  # versions between dots that would lie on one another
TRAINER = "c0"  # its colour; islands have c1, c2, …

Legend = list[tuple[str, str]]  # words, colour


def pictures(figures: Figures, way: Way, began: float, seconds: float) -> list[str]:
    """Each as HTML. `began`: time.time() when the demo began; it took so many seconds."""
    islands = [(island.name, colour_of(figures, island.name)) for island in figures.islands]
    return [
        _timeline(figures, began, seconds),
        _reward(figures),
        _density(figures),
        _bytes(figures, islands),
        _time_to_live(figures, islands, way),
        _pauses(figures, islands),
        _versions_behind(figures, islands),
    ]


def colour_of(figures: Figures, island: str) -> str:
    return f"c{1 + [known.name for known in figures.islands].index(island)}"


def _figure(plot: Plot | Timeline, says: str, legend: Legend) -> str:
    keys = "".join(f'<span class="key"><i class="{look}"></i>{escape(name)}</span>' for name, look in legend)
    above = f'<div class="y">{escape(plot.y_label)}</div>' if isinstance(plot, Plot) else ""
    return (
        f"<figure><figcaption><h3>{escape(plot.title)}</h3><p>{escape(says)}</p></figcaption>"
        f'<div class="keys">{keys}</div>{above}{plot.svg()}</figure>'
    )


def _timeline(figures: Figures, began: float, seconds: float) -> str:
    steps = []
    for step in figures.steps:
        begin = step.began - began
        for look, took in (("sampling", step.sampling), ("learning", step.learning)):
            steps.append(Bar(begin, begin + took, look, f"step {step.step}, {look}: {duration(took)}"))
            begin += took
    rows: list[tuple[str, list[Bar], list[tuple[float, str]]]] = [("trainer", steps, [])]
    moments = []
    for island in figures.islands:
        last = seconds if island.killed is None else island.killed - began
        ready = last if island.ready is None else island.ready - began
        bars = [Bar(island.started - began, ready, "joining", f"{island.name} fetches the model and starts its engine")]
        if island.ready is not None:
            bars.append(Bar(ready, last, colour_of(figures, island.name), f"{island.name} serves"))
        rows.append((island.name, bars, [(live - began, f"v{version} is live") for version, live in island.updates]))
        if island.killed is not None:
            moments.append((last, f"{island.name} is killed"))
    plot = Timeline("Who did what when", rows, moments)
    legend = [("sampling", "sampling"), ("learning", "learning"), ("island joins", "joining")]
    return _figure(plot, "Rest the pointer on anything for its figures.", [*legend, ("a version goes live", "tick")])


def _reward(figures: Figures) -> str:
    points = [(float(step.step), step.reward, f"step {step.step}: {step.reward:+.3f}") for step in figures.steps]
    plot = Plot("Reward", "step", "mean of the step's answers", [Series("reward", TRAINER, points)], from_zero=False)
    return _figure(plot, "Real GRPO, but far too short to learn much.", [("each step", TRAINER)])


def _density(figures: Figures) -> str:
    points = [
        (float(v.version), 100 * v.density, f"v{v.version}: {100 * v.density:.3f} %, {v.changed:,} elements")
        for v in figures.versions
    ]
    plot = Plot("Density", "version", "% of the served elements that changed", [Series("density", TRAINER, points)])
    return _figure(
        plot, "Most of what an Adam step moves is absorbed by the rounding to bf16.", [("each version", TRAINER)]
    )


def _bytes(figures: Figures, islands: Legend) -> str:
    patches = [
        (
            float(v.version),
            float(v.patch_bytes),
            f"v{v.version}: patch file {v.patch_bytes:,} B of {v.checkpoint_bytes:,}",
        )
        for v in figures.versions
    ]

    def on_the_wire(version: int, arrival: Arrival) -> Point | None:
        described, total = arrival.wire_described_bytes, arrival.wire_patch_bytes + arrival.wire_described_bytes
        said = f"v{version} to {arrival.island}: {total:,} B, of these {described:,} B describe it"
        return (float(version), float(total), said) if arrival.wire_patch_bytes else None

    series = [Series("patch", TRAINER, patches), *_of_islands(figures, islands, on_the_wire, line=False)]
    plot = Plot("Bytes of a version", "version", "bytes", series, say_y=size)
    says = "The patch file, and what each island's link brought for it: patch, manifests, heads of HTTP."
    return _figure(plot, says, [("patch file", TRAINER), *islands])


def _time_to_live(figures: Figures, islands: Legend, way: Way) -> str:
    def live(version: int, arrival: Arrival) -> Point:
        parts = f"fetching {arrival.fetch:.2f}, work {arrival.work:.2f}, pause {arrival.pause:.3f}"
        said = f"v{version} on {arrival.island}: {arrival.live:.2f} s; {parts}, {arrival.round_trips} round trips"
        return float(version), arrival.live, said

    limits = [
        (
            float(version.version),
            arrival.bound,
            f"bound of v{version.version} on {arrival.island}: {arrival.bound:.2f} s",
        )
        for version in figures.versions
        for arrival in version.arrivals
    ]
    title, y_label = "From publish to live", "seconds from the beginning of publishing"
    plot = Plot(title, "version", y_label, _of_islands(figures, islands, live), limits=limits)
    link = f"patch / {way.rate / 1e6:g} Mbit/s + round trips of {1000 * way.round_trip:g} ms"
    says = f"Level lines: {TIME_FACTOR} × ({link}) + work + pause, with each update's own figures."
    return _figure(plot, says, [*islands, ("bound", "limit")])


def _pauses(figures: Figures, islands: Legend) -> str:
    series = []
    for island, (name, look) in zip(figures.islands, islands, strict=True):
        points = [(float(v), 1000 * s, f"v{v} on {name}: {1000 * s:.0f} ms") for v, s in island.pauses]
        series.append(Series(name, look, points))
    plot = Plot("Pause", "version", "ms in which the engine made no token", series)
    return _figure(plot, "Everything else of an update happens while the engine serves.", islands)


def _versions_behind(figures: Figures, islands: Legend) -> str:
    """Requests of a step that are as far behind stand above one another."""
    points: dict[str, list[Point]] = {name: [] for name, _ in islands}
    stacked: Counter[tuple[int, int]] = Counter()
    for request in sorted(figures.requests, key=lambda r: r.began):
        step = next((s.step for s in figures.steps if s.began <= request.began <= s.ended), None)
        if step is None or request.min_version is None or request.behind is None:
            continue  # not one of the trainer's, or without a stamp
        wanted = f"asked for v{request.min_version} or newer"
        said = f"{request.island}: v{request.version_start}, {wanted}, newest v{request.head}"
        points[request.island].append((float(step), request.behind + STACK * stacked[step, request.behind], said))
        stacked[step, request.behind] += 1
    series = [Series(name, look, points[name], line=False) for name, look in islands]
    plot = Plot("Versions behind, request by request", "step", "versions behind the newest", series, whole_y=True)
    says = (
        "By the stamp of each answer, against the newest version on the board when it was asked. Each dot is a request."
    )
    return _figure(plot, says, islands)


def _of_islands(
    figures: Figures, islands: Legend, point: Callable[[int, Arrival], Point | None], *, line: bool = True
) -> list[Series]:
    """A series for each island, with a point for each version that arrived there."""
    series = []
    for name, look in islands:
        arrivals = [(v.version, arrival) for v in figures.versions for arrival in v.arrivals if arrival.island == name]
        points = [found for version, arrival in arrivals if (found := point(version, arrival)) is not None]
        series.append(Series(name, look, points, line=line))
    return series
