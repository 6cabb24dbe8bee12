"""Ends what a demo has started and removes its temporary folders, if the demo itself was killed and could not.

Reads lines: `group N` and `ended N` name process groups, `folder PATH` and `removed PATH` folders. At the end of its
input it kills the groups and removes the folders that are left.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable

TRIES, PAUSE_SECONDS = 50, 0.1


def guard(lines: Iterable[str]) -> None:
    groups: set[int] = set()
    folders: set[str] = set()
    for line in lines:
        kind, _, name = line.rstrip("\n").partition(" ")
        if kind == "group":
            groups.add(int(name))
        elif kind == "ended":
            groups.discard(int(name))
        elif kind == "folder":
            folders.add(name)
        elif kind == "removed":
            folders.discard(name)
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    for folder in folders:
        for _ in range(TRIES):  # what dies may still have written into it
            shutil.rmtree(folder, ignore_errors=True)
            if not os.path.exists(folder):
                break
            time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    guard(sys.stdin)
