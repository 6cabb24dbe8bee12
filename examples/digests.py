"""SHA-256 of every file of a checkpoint: what both sides write down, and what the demo compares."""

from __future__ import annotations

import hashlib
from pathlib import Path


def file_digests(checkpoint: Path) -> dict[str, str]:
    """{path inside the checkpoint: SHA-256 in hex} of all its files but hidden ones."""
    digests = {}
    for path in sorted(checkpoint.rglob("*")):
        name = path.relative_to(checkpoint)
        if path.is_file() and not any(part.startswith(".") for part in name.parts):
            with path.open("rb") as file:
                digests[name.as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests
