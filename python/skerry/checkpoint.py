"""Checkpoints: the tensors of a Hugging Face directory or of a safetensors file, by their bits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from skerry import _core
from skerry._sources import buffer_of, path_of
from skerry.errors import NotFound, Unsupported

Report = Callable[[str, int, int], None]  # stage, done, total: mostly bytes; raising ends the work

_NUMPY = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
}
# Of the package ml_dtypes, where it is installed.
_ML_DTYPES = {
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}


@dataclass(frozen=True)
class TensorInfo:
    """`dtype` as safetensors names it ("BF16"); `shape` in elements; `nbytes`: of the tensor's bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


class Checkpoint:
    """The tensors of a model, read-only, and without a copy where the host lets files be mapped.

    `source`: a checkpoint directory (one safetensors file, or shards with their index); one `.safetensors` file; or
    such a file's bytes, as bytes, a memoryview or another contiguous buffer (which stays in use and must not be written
    to), or as a binary file object (which is read to its end). All give the same result; what is not on disk is laid
    out as "model.safetensors".

    Raises NotFound, Invalid (neither of these), Corrupt (a malformed file, a stale index), Unavailable (an apply was
    interrupted: its files are part old, part new). May be used from several threads.
    """

    def __init__(self, source: str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO) -> None:
        self._native = _open(source)
        self._tensors = {
            name: (ordinal, TensorInfo(name, dtype, tuple(shape), nbytes))
            for ordinal, (name, dtype, shape, nbytes) in enumerate(self._native.tensors())
        }

    @property
    def names(self) -> list[str]:
        """Of all tensors, ascending by their UTF-8 bytes."""
        return list(self._tensors)

    @property
    def nbytes(self) -> int:
        """Of all tensors."""
        return self._native.nbytes

    @property
    def layout_digest(self) -> str:
        """SHA-256, in hexadecimal, over names, dtypes, shapes and the files that hold them."""
        return self._native.layout_digest

    @property
    def tensors_digest(self) -> str:
        """SHA-256, in hexadecimal, over names, dtypes and shapes alone."""
        return self._native.tensors_digest

    @property
    def side_files(self) -> list[str]:
        """Paths, within a directory, of what is no tensor: config, tokenizer, index."""
        return self._native.side_files

    @property
    def warnings(self) -> list[str]:
        """What in the directory is left out, and why."""
        return self._native.warnings

    def model_digest(self, threads: int = 0, *, progress: Report | None = None) -> str:
        """The digest by which boards and patches know the tensors' content, in hexadecimal. Reads all of it."""
        return self._native.model_digest(threads, progress)

    def __len__(self) -> int:
        return len(self._tensors)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __getitem__(self, name: str) -> TensorInfo:
        return self._find(name)[1]

    def read(self, name: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The tensor's bytes, little-endian, as they stand in the file: uint8, flat, read-only, without a copy where
        the file is mapped. A file that is cut short meanwhile shows zeros: `check` tells."""
        return self._native.read(self._find(name)[0])

    def array(self, name: str) -> np.ndarray[Any, Any]:
        """The tensor with its shape and dtype: a view of what `read` gives. BF16 and F8 need the package ml_dtypes.
        Unsupported for dtypes that no numpy has."""
        info = self._find(name)[1]
        return self.read(name).view(_numpy_dtype(info)).reshape(info.shape)

    def check(self) -> None:
        """Raises Refused where a file was cut short since it was opened: what was read may be wrong then."""
        self._native.check()

    def _find(self, name: str) -> tuple[int, TensorInfo]:
        found = self._tensors.get(name)
        if found is None:
            raise NotFound(f"tensor {name!r} is not in the checkpoint, which has {len(self)}")
        return found


def _open(source: Any) -> _core.Checkpoint:
    if not isinstance(source, (str, os.PathLike)):
        return _core.Checkpoint.from_buffer(buffer_of(source, "source"))
    path = path_of(source, "source")
    if os.path.isfile(path):
        return _core.Checkpoint.open_file(path)
    return _core.Checkpoint.open_directory(path)


def _numpy_dtype(info: TensorInfo) -> np.dtype[Any]:
    if info.dtype in _NUMPY:
        return np.dtype(_NUMPY[info.dtype])
    if info.dtype in _ML_DTYPES:
        try:
            import ml_dtypes
        except ImportError:
            hint = "numpy has no such dtype without the package ml_dtypes"
        else:
            return np.dtype(getattr(ml_dtypes, _ML_DTYPES[info.dtype]))
    else:
        hint = "numpy has no such dtype"
    raise Unsupported(f"tensor {info.name!r} is {info.dtype}: {hint}; read() gives its bytes")


def native(checkpoint: Any, argument: str) -> _core.Checkpoint:
    """Of a Checkpoint, or of what one can be made of."""
    if isinstance(checkpoint, Checkpoint):
        return checkpoint._native
    if isinstance(checkpoint, (str, os.PathLike)):
        path_of(checkpoint, argument)
    return _open(checkpoint)
