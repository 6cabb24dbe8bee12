"""The words and figures of the live view."""

from __future__ import annotations

from collections.abc import Sequence

from report import size

from .history import History, Step
from .island import Island
from .island_record import Update
from .view import duration


def step_line(step: Step) -> str:
    """A version is out."""
    receipt = step.receipt or {}
    patch, whole = size(receipt["patch_bytes"]), size(receipt["checkpoint_bytes"])
    return (
        f"step {step.step:>2}  reward {step.reward:+.3f}  v{step.version}: "
        f"{100 * receipt['density']:.3f} % changed, patch {patch} of {whole}"
    )


def update_line(name: str, update: Update, history: History) -> str:
    """A version is live on an island."""
    since = next((step.stepped for step in history.versions() if step.version == update.version), None)
    after = f" after {duration(update.live - since)}" if since is not None and update.live > since else ""
    return f"  {name:<6} v{update.version} live{after}, paused {duration(update.seconds['paused'])}"


def equal_files(updates: Sequence[Update], history: History) -> tuple[int, int]:
    """How many versions had the trainer's files, byte for byte, and how many had others."""
    both = [(update.files, history.files_of(update.version)) for update in updates if update.files is not None]
    known = [found == served for found, served in both if served is not None]
    return known.count(True), known.count(False)


def lines(history: History, islands: Sequence[Island], steps: int, elapsed: float) -> list[str]:
    """The whole panel."""
    rows = ["", f"  {duration(elapsed)} on the way", _trainer_line(history, steps)]
    rows.append(
        f"  {'island':<8}{'version':<9}{'behind':<8}{'pause':<9}{'received':<11}{'answers':<9}files as the trainer's"
    )
    return rows + [_island_line(island, history) for island in islands]


def _trainer_line(history: History, steps: int) -> str:
    if not history.steps:
        return "  trainer  " + ("ready" if history.ready else "loading")
    step = history.steps[-1]
    if step.stepped is not None:
        doing = "publishing"
    elif step.rewarded is not None:
        doing = "learning"
    else:
        doing = f"sampling, {history.answered} answers"
    last = next((s for s in reversed(history.steps) if s.receipt), None)
    text = f"  trainer  step {step.step}, of {steps} at least: {doing}"
    if last and last.receipt:
        density, patch = 100 * last.receipt["density"], size(last.receipt["patch_bytes"])
        text += f"  |  v{last.version}: reward {last.reward:+.3f}, density {density:.3f} %, patch {patch}"
    return text


def _island_line(island: Island, history: History) -> str:
    record = island.record()
    if not island.alive:
        doing, behind, pause = "killed", "", ""
    elif record.updates:
        version = record.updates[-1].version
        doing, behind = f"v{version}", str(max(0, history.head - version))
        pause = duration(record.updates[-1].seconds["paused"])
    else:
        engine = "engine up" if island.engine_up else "engine starts"
        doing, behind, pause = f"{island.status.get('phase', 'starting')}, {engine}", "", ""
        return f"  {island.name:<8}{doing:<26}{size(record.received):<11}"
    same, different = equal_files(record.updates, history)
    files = f"{same} versions" + (f", {different} DIFFER" if different else "")
    return (
        f"  {island.name:<8}{doing:<9}{behind:<8}{pause:<9}{size(record.received):<11}{len(record.given()):<9}{files}"
    )
