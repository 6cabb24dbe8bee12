"""What may be given where bytes or a place are wanted."""

from __future__ import annotations

import os
from typing import Any

from skerry.errors import Invalid


def path_of(value: Any, argument: str) -> str:
    """The path as text. Invalid, naming the argument, for what is none."""
    if isinstance(value, (str, os.PathLike)):
        path = os.fspath(value)
        if isinstance(path, str) and path and "\0" not in path:
            return path
    raise Invalid(f"{argument}: {value!r} is not a path")


def text_of(value: Any, argument: str, meaning: str) -> str:
    """The text. Invalid, naming the argument and saying what it means, for what is none or empty."""
    if isinstance(value, str) and value:
        return value
    raise Invalid(f"{argument}: {value!r}, but {meaning} is wanted")


def buffer_of(source: Any, argument: str) -> memoryview:
    """The bytes of `source`, a buffer or a binary file object (read to its end from where it is)."""
    if hasattr(source, "read"):
        source = source.read()
        if isinstance(source, str):
            raise Invalid(f"{argument}: a file opened as text, but a binary one is wanted")
    try:
        view = memoryview(source)
    except TypeError:
        kind = type(source).__name__
        raise Invalid(f"{argument}: {kind}, but a path, bytes or a binary file object is wanted") from None
    if not view.c_contiguous:
        raise Invalid(f"{argument}: the bytes are not contiguous")
    return view
