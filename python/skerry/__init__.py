"""Lossless sparse weight patches from a trainer to inference engines anywhere. docs/python.md is the manual.

`Checkpoint`, `Patch`, `diff`, `apply` work on checkpoints and patches; `Board` and `Publisher` on the versions of runs;
`skerry.client` sends requests by weight version; `skerry.vllm` is the plugin for vLLM. Whatever is not used is not
imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skerry.board import Board
    from skerry.checkpoint import Checkpoint
    from skerry.errors import (
        Conflict,
        Corrupt,
        Interrupted,
        Invalid,
        Mismatch,
        NoSpace,
        NotFound,
        Refused,
        SkerryError,
        Unavailable,
        Unsupported,
    )
    from skerry.patch import Patch, apply, diff
    from skerry.publisher import Publisher

__version__ = "0.1.0"

_HOME = {
    "Board": "board",
    "Checkpoint": "checkpoint",
    "Patch": "patch",
    "Publisher": "publisher",
    "apply": "patch",
    "diff": "patch",
    **dict.fromkeys(
        (
            "Conflict",
            "Corrupt",
            "Interrupted",
            "Invalid",
            "Mismatch",
            "NoSpace",
            "NotFound",
            "Refused",
            "SkerryError",
            "Unavailable",
            "Unsupported",
        ),
        "errors",
    ),
}
_MODULES = ("board", "checkpoint", "client", "errors", "hf", "patch", "publisher", "torch", "trl", "vllm")

__all__ = [
    "Board",
    "Checkpoint",
    "Conflict",
    "Corrupt",
    "Interrupted",
    "Invalid",
    "Mismatch",
    "NoSpace",
    "NotFound",
    "Patch",
    "Publisher",
    "Refused",
    "SkerryError",
    "Unavailable",
    "Unsupported",
    "apply",
    "diff",
]


def __getattr__(name: str) -> Any:
    """Imports what is asked for the first time."""
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"skerry.{name}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(importlib.import_module(f"skerry.{_HOME[name]}"), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
