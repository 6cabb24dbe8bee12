"""What a process tells the others: JSON objects, one a line, appended to a file."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any


class EventWriter:
    """Appends events to a file; each can be read by others when `write` returns. Any thread may write."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._lock = threading.Lock()

    def write(self, kind: str, **fields: Any) -> None:
        """Append {"event": kind, ...fields}."""
        line = json.dumps({"event": kind, **fields}) + "\n"
        with self._lock:
            self._file.write(line)
            self._file.flush()


class EventReader:
    """Reads the events of a file that somebody else is still writing, or has not created yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> list[dict[str, Any]]:
        """The complete lines added since the last call."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            complete, newline, _ = file.read().rpartition(b"\n")
        self._offset += len(complete) + len(newline)
        return [json.loads(line) for line in complete.splitlines()]
