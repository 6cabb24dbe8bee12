"""Where a demo works: a folder that stays or not, and one in memory for what is rewritten at every step."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

from processes import DemoError

MEMORY = Path("/dev/shm")


def open_work_folder(keep: Path | None, stack: ExitStack) -> Path:
    """The folder for everything: `keep`, which stays, or a temporary one, which does not."""
    if keep is None:
        work = Path(tempfile.mkdtemp(prefix="skerry-demo-"))
        stack.callback(shutil.rmtree, work, ignore_errors=True)
        return work
    try:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise DemoError(f"{keep} is not empty")
    except OSError as error:
        raise DemoError(f"cannot use {keep}: {error.strerror}") from error
    return keep.resolve()


def open_memory_folder(needed: int, stack: ExitStack) -> Path | None:
    """A temporary folder in memory where `needed` bytes fit twice, else None."""
    if not (MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 2 * needed):
        return None
    folder = Path(tempfile.mkdtemp(prefix="skerry-demo-", dir=MEMORY))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def folder_bytes(directory: Path) -> int:
    """Size of all files below the directory."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
