"""Safetensors files that are written one tensor after another, and where tensors stand in a checkpoint."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from skerry.errors import Corrupt
from skerry.views.form import Form

INDEX = ".safetensors.index.json"
_FILE = ".safetensors"


class Entry(NamedTuple):
    name: str
    form: Form
    nbytes: int

    @property
    def unit(self) -> int:
        """Bytes of an element, and so what its first byte is to be aligned to."""
        return max(1, self.nbytes // max(1, math.prod(self.form.shape)))


class Shard:
    """A file whose tensors are known ahead. Each is written once, by its name; the file is whole when all are."""

    def __init__(self, path: Path, entries: Iterable[Entry]) -> None:
        # The order of the safetensors library, in which every tensor is aligned.
        ordered = sorted(entries, key=lambda entry: (-entry.unit, entry.name))
        header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        self._places: dict[str, tuple[int, int]] = {}
        end = 0
        for entry in ordered:
            begin, end = end, end + entry.nbytes
            self._places[entry.name] = begin, entry.nbytes
            header[entry.name] = {
                "dtype": entry.form.dtype,
                "shape": list(entry.form.shape),
                "data_offsets": [begin, end],
            }
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        self._first = 8 + len(text)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb")
        self._file.write(len(text).to_bytes(8, "little") + text)
        self._file.truncate(self._first + end)

    def write(self, name: str, data: memoryview) -> None:
        begin, nbytes = self._places.pop(name)
        if data.nbytes != nbytes:
            raise AssertionError(f"{name}: {data.nbytes} bytes were made, {nbytes} announced")
        self._file.seek(self._first + begin)
        self._file.write(data)

    def __enter__(self) -> Shard:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._file.close()
        if error is None and self._places:
            raise AssertionError(f"{len(self._places)} tensors were announced and not made: {min(self._places)}")


def index_file(folder: Path) -> Path | None:
    """The index of a checkpoint in shards; None where one file holds all."""
    return next(iter(sorted(folder.glob("*" + INDEX))), None)


def placement(folder: Path, names: Iterable[str]) -> dict[str, list[str]]:
    """The tensors of each file of a checkpoint, which skerry.Checkpoint has found whole."""
    index = index_file(folder)
    if index is None:
        return {next(iter(folder.glob("*" + _FILE))).name: list(names)}
    files: Mapping[str, str] = read_json(index)["weight_map"]
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(files[name], []).append(name)
    return dict(sorted(found.items()))


def read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        raise Corrupt(f"{path}: {error}") from error
    if not isinstance(found, dict):
        raise Corrupt(f"{path}: {type(found).__name__}, but a JSON object is wanted")
    return found


def write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")
