"""What the demo says at its end: a table of versions, and what differs between both sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Event = dict[str, Any]

# title, unit, and how to get the cell from a version's trainer event and island event
COLUMNS: list[tuple[str, str, Callable[[Event, Event], str]]] = [
    ("", "", lambda t, i: f"v{t['receipt']['version']}"),
    ("density", "%", lambda t, i: f"{100 * t['receipt']['density']:.3f}"),
    ("changed", "elements", lambda t, i: f"{t['receipt']['changed']:,}"),
    ("patch", "bytes", lambda t, i: f"{t['receipt']['patch_bytes']:,}"),
    ("a change", "bytes", lambda t, i: f"{t['receipt']['bytes_per_changed']:.3f}"),
    ("smaller", "times", lambda t, i: f"{t['receipt']['times_smaller']:,.0f}"),
    ("diff", "s", lambda t, i: f"{t['receipt']['seconds']['diff']:.3f}"),
    ("encode", "s", lambda t, i: f"{t['receipt']['seconds']['encode']:.3f}"),
    ("publish", "s", lambda t, i: f"{t['receipt']['seconds']['total']:.3f}"),
    ("pull", "s", lambda t, i: f"{i['receipt']['seconds']['total']:.3f}"),
    ("apply", "s", lambda t, i: f"{i['receipt']['seconds']['apply']:.3f}"),
]


def table(steps: list[Event], versions: dict[int, Event]) -> str:
    """One line a published step; `versions` are the island's events by version.

    Publish and pull are the whole commands, diff and encode are parts of publish, apply of pull.
    """
    rows = [[title for title, _, _ in COLUMNS], [unit for _, unit, _ in COLUMNS]]
    for step in steps:
        island = versions[step["receipt"]["version"]]
        rows.append([cell(step, island) for _, _, cell in COLUMNS])
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    lines = [
        " ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
    ]
    lines.insert(2, " ".join("-" * width for width in widths))
    return "\n".join(lines)


def differences(served: dict[str, str], rebuilt: dict[str, str]) -> list[str]:
    """How the island's file digests of a version differ from the trainer's; empty: not at all."""
    found = []
    for name in sorted(served.keys() | rebuilt.keys()):
        if name not in rebuilt:
            found.append(f"{name} is missing on the island")
        elif name not in served:
            found.append(f"{name} is on the island only")
        elif served[name] != rebuilt[name]:
            found.append(f"{name}: trainer {served[name][:16]}…, island {rebuilt[name][:16]}…")
    return found


def size(count: float) -> str:
    """A number of bytes for people: 269.1 MB."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"
