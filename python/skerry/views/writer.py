"""A served checkpoint as files."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skerry._sources import path_of
from skerry.checkpoint import Checkpoint, Report, TensorInfo
from skerry.errors import Conflict, Invalid, NoSpace, NotFound, Refused
from skerry.views.form import Form, torch_dtype
from skerry.views.shards import INDEX, Entry, Shard, index_file, placement, read_json, write_json

if TYPE_CHECKING:
    import torch

    from skerry.views.view import View

_CONFIG = "config.json"


@dataclass(frozen=True)
class Written:
    """`nbytes`: of the tensors, `source_nbytes`: of those that they were made of; `converted`: how many weights were
    quantised. `blocks`: all their scales; `rescaled`: those that differ from the version before.
    """

    path: str
    files: int
    tensors: int
    converted: int
    nbytes: int
    source_nbytes: int
    blocks: int
    rescaled: int


def write(
    view: View,
    checkpoint: str | os.PathLike[str],
    out: str | os.PathLike[str],
    previous: str | os.PathLike[str] | None,
    progress: Report | None,
) -> Written:
    """View.write. 1. All is written to a directory beside `out`; 2. that is renamed. A crash before leaves it there."""
    source, target = Path(path_of(checkpoint, "checkpoint")), Path(path_of(out, "out"))
    if os.path.lexists(target):
        raise Conflict(f"out: {target} is there already")
    before = None if previous is None else _reader(Checkpoint(path_of(previous, "previous")))
    job = _Job(view, source, before, progress)
    with _refusals(target), _folder_beside(target) as folder:
        written = job.run(folder, target)
        os.rename(folder, target)
    return written


class _Job:
    def __init__(
        self, view: View, source: Path, before: Callable[[str], torch.Tensor] | None, progress: Report | None
    ) -> None:
        if not source.is_dir():
            raise Invalid(f"checkpoint: {source} is no directory")
        self._opened = Checkpoint(source)
        infos = [self._opened[name] for name in self._opened]
        if not (source / _CONFIG).is_file():
            raise Invalid(f"checkpoint: {source} has no {_CONFIG}, which tells engines how weights are stored")
        self._config = view.config(read_json(source / _CONFIG), [(info.name, info.shape) for info in infos])
        self._layout = view.layout([(info.name, info.dtype, info.shape) for info in infos])
        self._view, self._source, self._before, self._progress = view, source, before, progress
        self._read = _reader(self._opened)
        self._done = self._converted = self._blocks = self._rescaled = 0

    def run(self, folder: Path, target: Path) -> Written:
        self._tell()
        self._side_files(folder)
        files = placement(self._source, self._opened.names)
        weight_map: dict[str, str] = {}
        nbytes = 0
        for file, names in files.items():
            entries = [entry for name in names for entry in self._entries(name)]
            with Shard(folder / file, entries) as shard:
                for name in names:
                    self._convert(name, shard)
            weight_map.update(dict.fromkeys((entry.name for entry in entries), file))
            nbytes += sum(entry.nbytes for entry in entries)
        index = index_file(self._source)
        if index is not None:
            metadata = {**read_json(index).get("metadata", {}), "total_size": nbytes}
            write_json(folder / index.name, {"metadata": metadata, "weight_map": dict(sorted(weight_map.items()))})
        self._opened.check()
        return Written(
            path=str(target),
            files=len(files),
            tensors=len(weight_map),
            converted=self._converted,
            nbytes=nbytes,
            source_nbytes=self._opened.nbytes,
            blocks=self._blocks,
            rescaled=self._rescaled,
        )

    def _stays(self, info: TensorInfo) -> bool:
        return self._layout[info.name] == {info.name: Form(info.dtype, info.shape)}

    def _entries(self, name: str) -> list[Entry]:
        info = self._opened[name]
        if self._stays(info):
            return [Entry(name, Form(info.dtype, info.shape), info.nbytes)]
        return [Entry(served, form, form.nbytes) for served, form in self._layout[name].items()]

    def _convert(self, name: str, shard: Shard) -> None:
        info = self._opened[name]
        if self._stays(info):
            shard.write(name, memoryview(self._opened.read(name)))
        else:
            made = self._view.quantize(name, self._read(name), self._before)
            for served, tensor in made.tensors.items():
                shard.write(served, _bytes_of(tensor))
            self._converted += self._view.converts(name, info.shape)
            self._blocks += made.blocks
            self._rescaled += made.rescaled
        self._done += info.nbytes
        self._tell()

    def _side_files(self, folder: Path) -> None:
        for path in self._opened.side_files:
            if path.endswith(INDEX):
                continue
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            if path == _CONFIG:
                write_json(folder / path, self._config)
            else:
                shutil.copyfile(self._source / path, folder / path)

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress("write", self._done, self._opened.nbytes)


def _reader(checkpoint: Checkpoint) -> Callable[[str], torch.Tensor]:
    """Gives the tensors of a checkpoint by name, each as a copy."""

    def read(name: str) -> torch.Tensor:
        import torch

        info = checkpoint[name]
        dtype = torch_dtype(info.dtype)
        return torch.from_numpy(checkpoint.read(name).copy()).view(dtype).reshape(info.shape)

    return read


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    import torch

    return memoryview(tensor.reshape(-1).view(torch.uint8).numpy())


@contextlib.contextmanager
def _folder_beside(target: Path) -> Iterator[Path]:
    """A new directory that is gone afterwards, unless it was renamed."""
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _refusals(target: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"{error.filename or target}: {error.strerror}") from error
    except OSError as error:
        kind = NoSpace if error.errno in (errno.ENOSPC, errno.EDQUOT) else Refused
        raise kind(f"writing {target}: {error.strerror}") from error
