"""Where a demo works: a folder that stays or not, and one in memory for what is rewritten at every step."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

from processes import DemoError, tell_guard

MEMORY = Path("/dev/shm")


def open_work_folder(keep: Path | None, stack: ExitStack) -> Path:
    """The folder for everything: `keep`, which stays, or a temporary one, which does not."""
    if keep is None:
        return _temporary_folder(None, stack)
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
    return _temporary_folder(MEMORY, stack)


def folder_bytes(directory: Path) -> int:
    """Size of all files below the directory."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def _temporary_folder(parent: Path | None, stack: ExitStack) -> Path:
    """Removed when the stack ends, or when this process is killed."""
    folder = Path(tempfile.mkdtemp(prefix="skerry-demo-", dir=parent))
    stack.callback(lambda: tell_guard(f"removed {folder}"))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    tell_guard(f"folder {folder}")
    return folder
