"""What is known of one island when all is over: its agent's account, and what the link saw."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .exchanges import Exchange

VERSION_OBJECT = re.compile(r"/versions/(\d{9})/(delta|skip|manifest|digests)")
ANCHOR_OBJECT = re.compile(r"/anchors/\d{9}/")
ANSWERS = "/v1/completions"
WAKE = "/v1/skerry/wake"


@dataclass
class Update:
    """A version that went live on an island. Times are of time.time()."""

    version: int
    live: float
    told: dict[str, Any]  # the agent's last_update
    model_digest: str
    files: dict[str, str] | None = None  # SHA-256 of its checkpoint; None: it moved on while it was read

    @property
    def seconds(self) -> dict[str, float]:
        return self.told["seconds"]


@dataclass
class IslandRecord:
    """Times are of time.time(). Bytes are those that its link brought."""

    name: str
    started: float
    ready: float | None = None  # its first version was live
    killed: float | None = None
    updates: list[Update] = field(default_factory=list)
    board: list[Exchange] = field(default_factory=list)  # with the board
    requests: list[Exchange] = field(default_factory=list)  # that came to it
    received: int = 0
    received_at_ready: int = 0

    def live_at(self, version: int) -> Update | None:
        """The update that brought the version or a newer one."""
        return next((update for update in self.updates if update.version >= version), None)

    def answers(self) -> list[Exchange]:
        """Requests for tokens, however they ended."""
        return [exchange for exchange in self.requests if exchange.path == ANSWERS]

    def given(self) -> list[Exchange]:
        """Those that were answered with tokens."""
        return [exchange for exchange in self.answers() if exchange.status == 200]

    def write_trace(self, path: Path) -> None:
        """All that the link saw and all updates, in the order of time, a line of JSON each."""
        exchanges = [(e.began, {"exchange": asdict(e)}) for e in self.board + self.requests]
        lines = exchanges + [(u.live, {"version": u.version, "live": u.live, "update": u.told}) for u in self.updates]
        path.write_text("".join(json.dumps(line) + "\n" for _, line in sorted(lines, key=lambda pair: pair[0])))


@dataclass
class VersionBytes:
    """What the board's link brought for one version after the island was ready."""

    patch: int = 0  # patches, with the heads of the answers
    described: int = 0  # manifest, and digests where they were wanted


def bytes_of_versions(island: IslandRecord) -> dict[int, VersionBytes]:
    """By version, for an island that follows. What came before it was ready belongs to its joining."""
    found: dict[int, VersionBytes] = {}
    for exchange in _after_ready(island):
        if match := VERSION_OBJECT.search(exchange.path):
            version = found.setdefault(int(match[1]), VersionBytes())
            if match[2] in ("delta", "skip"):
                version.patch += exchange.received
            else:
                version.described += exchange.received
    return found


def looks(island: IslandRecord) -> list[Exchange]:
    """Its looks at the head after it was ready."""
    return [exchange for exchange in _after_ready(island) if exchange.path.endswith("/head")]


def whole_model_bytes(island: IslandRecord) -> tuple[int, int]:
    """Bytes of full versions: while it joined, and after that."""
    joined = after = 0
    for exchange in island.board:
        if ANCHOR_OBJECT.search(exchange.path):
            if island.ready is not None and exchange.began > island.ready:
                after += exchange.received
            else:
                joined += exchange.received
    return joined, after


def _after_ready(island: IslandRecord) -> list[Exchange]:
    return [exchange for exchange in island.board if island.ready is not None and exchange.began > island.ready]
