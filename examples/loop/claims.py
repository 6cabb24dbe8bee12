"""What the demo shows: each claim, what was found, and whether it is kept."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from report import size

from .final_checks import FinalChecks
from .measures import TIME_FACTOR, Arrival, Figures, IslandFigures
from .view import duration

WIRE_LIMIT = 1.05  # bytes on the link, as a multiple of the patch file


@dataclass(frozen=True)
class Claim:
    """`must`: the demo fails where it is not kept. The others depend on how busy the machine is."""

    name: str
    wanted: str
    found: str
    kept: bool
    must: bool = True


def claims(figures: Figures, steps_begun: int, final: FinalChecks) -> list[Claim]:
    """In the order in which they are shown."""
    arrivals = [arrival for version in figures.versions for arrival in version.arrivals]
    return [
        _every_version(figures.islands),
        _equal(
            "checkpoints at the end", "each island's files are those that the trainer serves, by SHA-256", final.islands
        ),
        _equal("the board at the end", "a checkpoint pulled afresh has the trainer's files, by SHA-256", final.board),
        _equal("the board's account", "model digests of all versions are those of the publisher", final.digests),
        _answers(final),
        _floors(figures),
        _who_joins(figures.islands),
        _trainer_goes_on(figures, steps_begun),
        _bytes_of_a_version(figures),
        _whole_models(figures.islands),
        _time_to_live(arrivals),
    ]


def _every_version(islands: list[IslandFigures]) -> Claim:
    different = [f"{island.name} v{version}" for island in islands for version in island.different]
    files, digests, unread = (
        sum(getattr(island, name) for island in islands) for name in ("files_equal", "digests_equal", "files_not_read")
    )
    found = f"equal: {files} times all files by SHA-256, {digests} model digests; not read in time: {unread}"
    return Claim(
        "every version on every island",
        "after each step files and model digest are those of the view that the trainer serves",
        f"DIFFERENT: {', '.join(different)}" if different else found,
        not different and files > 0 and digests > 0,
    )


def _equal(name: str, wanted: str, wrong: list[str]) -> Claim:
    return Claim(name, wanted, "; ".join(wrong) or "equal", not wrong)


def _answers(final: FinalChecks) -> Claim:
    return Claim(
        "answers at the end",
        "at temperature 0 islands give the tokens and log probabilities of a fresh engine on the pulled checkpoint",
        "; ".join(final.answers) or f"{final.compared_tokens} tokens and their log probabilities, equal",
        not final.answers and final.compared_tokens > 0,
    )


def _floors(figures: Figures) -> Claim:
    asked = [request for request in figures.requests if request.min_version is not None]
    older = sum(request.is_below_floor for request in asked)
    behind = [request.behind for request in asked if request.behind is not None]
    return Claim(
        "requests with a floor",
        "none is answered by weights older than it asked for",
        f"{older} of {len(asked)} were; at most {max(behind, default=0)} versions behind the newest",
        older == 0 and bool(asked),
    )


def _who_joins(islands: list[IslandFigures]) -> Claim:
    """The first islands join too; one of them all must have been asked too early."""
    unproved = sum(island.unproved for island in islands)
    refused = [f"{island.name} {island.refused_before_ready}" for island in islands if island.refused_before_ready]
    return Claim(
        "who joins",
        "answers no request before its weights are exactly a version's",
        f"{unproved} answers by other weights; refused before that: {', '.join(refused) or 'none was asked'}",
        unproved == 0 and bool(refused),
    )


def _trainer_goes_on(figures: Figures, steps_begun: int) -> Claim:
    missing = [(i.killed, _next_ready(i.killed, figures.islands)) for i in figures.islands if i.killed is not None]
    during, others = [], []
    for step in figures.steps:
        seconds = step.ended - step.began
        (during if any(step.ended >= a and step.began <= b for a, b in missing) else others).append(seconds)
    found = [f"{len(figures.steps)} of {steps_begun} steps came to their end"]
    if during:
        found.append(f"while an island was missing: median {duration(median(during))}, longest {duration(max(during))}")
    if others:
        found.append(f"the others: median {duration(median(others))}")
    if figures.steps:
        found.append(f"publishing took {duration(median(s.publish_call for s in figures.steps))} of a step (median)")
    return Claim(
        "the trainer goes on",
        "an island that dies or joins stops no step",
        "; ".join(found),
        len(figures.steps) == steps_begun and bool(during),
    )


def _next_ready(time: float, islands: list[IslandFigures]) -> float:
    return min((island.ready for island in islands if island.ready and island.ready > time), default=float("inf"))


def _bytes_of_a_version(figures: Figures) -> Claim:
    ratios = [
        arrival.wire_patch_bytes / version.patch_bytes
        for version in figures.versions
        for arrival in version.arrivals
        if arrival.wire_patch_bytes
    ]
    described = [a.wire_described_bytes for v in figures.versions for a in v.arrivals if a.wire_described_bytes]
    looks, look_bytes = (sum(getattr(island, name) for island in figures.islands) for name in ("looks", "look_bytes"))
    if not ratios:
        return Claim("bytes of a version", f"at most {WIRE_LIMIT} × its patch file", "none arrived", False)
    each_look, described_by = look_bytes / max(looks, 1), median(described or [0])
    smaller = [version.checkpoint_bytes / version.patch_bytes for version in figures.versions]
    return Claim(
        "bytes of a version",
        f"on each island's link at most {WIRE_LIMIT} × its patch file, besides what describes it",
        f"{max(ratios):.3f} × at most, {median(ratios):.3f} × in the median; besides: manifests {size(described_by)}, "
        f"a look at the head {size(each_look)}; a full checkpoint has {median(smaller):,.0f} × as many",
        max(ratios) <= WIRE_LIMIT,
    )


def _whole_models(islands: list[IslandFigures]) -> Claim:
    later = sum(island.whole_model_bytes_later for island in islands)
    joined = ", ".join(f"{island.name} {size(island.whole_model_bytes)}" for island in islands)
    return Claim("full model bytes", "only to join", f"to join: {joined}; after that: {size(later)}", later == 0)


def _time_to_live(arrivals: list[Arrival]) -> Claim:
    within = sum(arrival.live <= arrival.bound for arrival in arrivals)
    live = [arrival.live for arrival in arrivals]
    found = f"{within} of {len(arrivals)} within it"
    if live:
        found += f"; live after {duration(median(live))} (median), {duration(max(live))} at most"
    return Claim(
        "from publish to live",
        f"{TIME_FACTOR} × (patch / rate + round trips) + work + pause",
        found,
        bool(arrivals) and within == len(arrivals),
        must=False,
    )
