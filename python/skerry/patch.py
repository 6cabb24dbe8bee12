"""Patches: what changed between two checkpoints."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from skerry import _core
from skerry._sources import buffer_of, path_of
from skerry.checkpoint import Checkpoint, Report, native


@dataclass(frozen=True)
class PatchTensor:
    """A tensor that a patch changes. `shape` in elements; `changed`: elements (bytes, where several share one)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    changed: int


@dataclass(frozen=True)
class DiffReceipt:
    """What a patch became. Digests in hexadecimal; sizes in bytes; `elements` and `changed` count stored elements.

    `seconds`: "compare" and "encode", each summed over the threads.
    """

    patch: str
    base_model: str
    target_model: str
    elements: int
    changed: int
    tensors: int
    tensors_changed: int
    side_files_changed: int
    patch_bytes: int
    checkpoint_bytes: int
    seconds: dict[str, float]

    @property
    def density(self) -> float:
        """The share of the elements that changed."""
        return self.changed / self.elements if self.elements else 0.0


@dataclass(frozen=True)
class ApplyReceipt:
    """A rebuilt checkpoint. `model`: its digest, verified. `seconds`: "verify", "copy", "apply"."""

    checkpoint: str
    model: str
    elements: int
    changed: int
    seconds: dict[str, float]


class Patch:
    """A patch file, opened: what it says about itself, and its changes on demand.

    `source`: a path, or the file's bytes as bytes, a memoryview or a binary file object (these are copied). Raises
    NotFound, Corrupt (a damaged or foreign file) and Unsupported (made by a newer version). May be used from several
    threads.

    `base_model`, `target_model`: model digests before and after; `base_layout`, `target_layout`: layout digests;
    `elements`: stored elements of the whole model; `changed`: of them; `structural`: whether it adds, removes or
    reshapes tensors; `nbytes`: of the file.
    """

    def __init__(self, source: str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO) -> None:
        if isinstance(source, (str, os.PathLike)):
            self._native = _core.Patch.open(path_of(source, "source"))
        else:
            self._native = _core.Patch.from_buffer(buffer_of(source, "source"))
        info = self._native.info()
        self.base_model: str = info["base_model"]
        self.target_model: str = info["target_model"]
        self.base_layout: str = info["base_layout"]
        self.target_layout: str = info["target_layout"]
        self.elements: int = info["elements"]
        self.changed: int = info["changed"]
        self.structural: bool = info["structural"]
        self.nbytes: int = info["nbytes"]

    @property
    def tensors(self) -> list[PatchTensor]:
        """Those that change. Empty for patches of a board, which leave the names to its layout."""
        return [
            PatchTensor(name, dtype, tuple(shape), changed) for name, dtype, shape, changed in self._native.tensors()
        ]

    @property
    def side_files(self) -> dict[str, bool]:
        """Paths of the side files that change; False: it is removed."""
        return dict(self._native.side_files())

    def changes(
        self, base: Checkpoint | str | os.PathLike[str], name: str, *, threads: int = 0, progress: Report | None = None
    ) -> tuple[np.ndarray[Any, np.dtype[np.uint64]], np.ndarray[Any, Any]]:
        """What happens to one tensor: (positions, values), both flat and of one length. Positions (uint64) rise, and
        count the tensor's elements in row-major order, or its bytes where several elements share one. Values are the
        new bits, as unsigned integers of the element's width.

        `base`: the checkpoint that the patch was made for. Mismatch where it has other tensors, Corrupt where it has
        other bits or the patch is damaged, NotFound where there is no tensor of that name.
        """
        return self._native.changes(native(base, "base"), name, threads, progress)


def diff(
    base: Checkpoint | str | os.PathLike[str],
    new: Checkpoint | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    level: str = "compact",
    structural: bool = False,
    threads: int = 0,
    progress: Report | None = None,
) -> DiffReceipt:
    """Writes what changed between two checkpoints as the patch file `out`, which takes the place of another only when
    it is complete. Side files (config, tokenizer) travel too where both are directories.

    `level`: "compact" is the smallest, "fast" decodes quickest. `structural`: accept added and removed tensors and
    other dtypes and shapes; such tensors travel whole. `threads`: 0 is all cores; the result does not depend on it.
    `progress`: called with (stage, done, total) on the calling thread as each stage begins and some times a second;
    what it raises ends the work. Ctrl-C ends it too. In both cases there is no `out`.

    Raises Invalid where the tensors differ, listing how.
    """
    path = path_of(out, "out")
    receipt = _core.diff(native(base, "base"), native(new, "new"), path, level, structural, threads, progress)
    return DiffReceipt(patch=path, **receipt)


def apply(
    base: Checkpoint | str | os.PathLike[str],
    patch: Patch | str | os.PathLike[str] | bytes | memoryview | BinaryIO,
    out: str | os.PathLike[str],
    *,
    threads: int = 0,
    progress: Report | None = None,
) -> ApplyReceipt:
    """Makes the checkpoint directory `out` from a base on disk and a patch: byte for byte the files that the patch was
    made from. Everything is verified before the first byte is written, and `out` appears only when it is complete.

    Raises Mismatch (another base), Corrupt (a damaged patch or base), NoSpace, Conflict (`out` exists). `threads` and
    `progress`: as for `diff`. Ctrl-C leaves no `out`, but perhaps a folder beside it that a later call sweeps.
    """
    path = path_of(out, "out")
    opened = patch if isinstance(patch, Patch) else Patch(patch)
    receipt = _core.apply(native(base, "base"), opened._native, path, threads, progress)
    return ApplyReceipt(checkpoint=path, **receipt)
