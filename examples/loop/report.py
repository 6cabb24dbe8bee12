"""The report: one page of HTML that needs nothing else, and the same numbers as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

from report import size

from .claims import Claim
from .measures import Figures, Way
from .page import PAGE
from .pictures import pictures
from .view import duration

FORMAT = 1


@dataclass(frozen=True)
class Account:
    """All that the report is made of."""

    model: str
    began: float  # time.time() when the demo began
    seconds: float  # that it took
    network: str  # how the islands were connected, in words
    way: Way
    figures: Figures
    claims: list[Claim]

    @property
    def kept(self) -> bool:
        """Whether every claim that must be kept is kept."""
        return all(claim.kept for claim in self.claims if claim.must)


def write_report(account: Account, folder: Path) -> Path:
    """Writes report.html and report.json. Returns the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(json.dumps(as_json(account), indent=1, allow_nan=False) + "\n")
    page = folder / "report.html"
    page.write_text(as_html(account))
    return page


def as_json(account: Account) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "model": account.model,
        "began": account.began,
        "seconds": account.seconds,
        "network": account.network,
        "way": asdict(account.way),
        "kept": account.kept,
        "claims": [asdict(claim) for claim in account.claims],
        **account.figures.as_json(),
    }


def as_html(account: Account) -> str:
    figures = account.figures
    patches = sum(version.patch_bytes for version in figures.versions)
    whole = sum(version.checkpoint_bytes for version in figures.versions)
    tiles = [
        (f"{len(figures.steps)}", "GRPO steps"),
        (size(patches), f"of patches instead of {size(whole)} of checkpoints"),
        (f"{whole / max(patches, 1):,.0f} ×", "smaller"),
        (
            f"{len(figures.requests)}",
            "answers by islands, none by weights too old" if account.kept else "answers by islands",
        ),
        (duration(account.seconds), "from start to end"),
    ]
    return PAGE.format(
        title=escape(f"Skerry: the whole loop, {account.model}"),
        verdict=_verdict(account),
        verdict_look="good" if account.kept else "bad",
        network=escape(account.network),
        tiles="".join(f'<div class="tile"><b>{escape(b)}</b><span>{escape(s)}</span></div>' for b, s in tiles),
        claims="".join(_claim_row(claim) for claim in account.claims),
        plots="".join(pictures(figures, account.way, account.began, account.seconds)),
        islands=_island_table(figures),
        versions=_version_table(figures),
    )


def _verdict(account: Account) -> str:
    if not account.kept:
        return "NOT ALL THAT MUST BE KEPT IS KEPT."
    missed = [claim.name for claim in account.claims if not claim.kept]
    kept = "All claims that must be kept are kept"
    return (
        f"{kept}; what depends on how busy the machine is was missed: {', '.join(missed)}."
        if missed
        else f"{kept}, and all others too."
    )


def _claim_row(claim: Claim) -> str:
    look, mark = ("good", "✓") if claim.kept else ("bad", "✗") if claim.must else ("so-so", "–")
    return (
        f'<tr><td class="{look}">{mark}</td><th>{escape(claim.name)}</th><td>{escape(claim.wanted)}</td>'
        f"<td>{escape(claim.found)}</td></tr>"
    )


def _island_table(figures: Figures) -> str:
    rows = []
    for island in figures.islands:
        per_version = (island.received_bytes - island.received_to_join_bytes) / max(1, len(island.updates) - 1)
        fate = "killed" if island.killed else "lived"
        cells = [
            island.name, fate, str(len(island.updates)), str(island.answers), size(island.received_to_join_bytes),
            size(island.received_bytes - island.received_to_join_bytes), size(per_version), str(island.looks),
            f"{island.files_equal} / {island.digests_equal}",
        ]  # fmt: skip
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    return "".join(rows)


def _version_table(figures: Figures) -> str:
    rows = []
    for version in figures.versions:
        lives = ", ".join(f"{arrival.island} {arrival.live:.2f}" for arrival in version.arrivals)
        a_change, smaller = (
            version.patch_bytes / max(1, version.changed),
            version.checkpoint_bytes / version.patch_bytes,
        )
        cells = [
            f"v{version.version}", f"{100 * version.density:.3f}", f"{version.changed:,}", f"{version.patch_bytes:,}",
            f"{a_change:.3f}", f"{smaller:,.0f}", f"{version.publish:.2f}", lives,
        ]  # fmt: skip
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    return "".join(rows)
