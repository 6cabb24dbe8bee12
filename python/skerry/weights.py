"""Arrays of the trainer, by name, taken into a capture (what differs from the last published version)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from skerry.errors import Invalid
from skerry.names import Matching, Names
from skerry.pieces import contiguous_pieces
from skerry.view_weights import as_served, host_tensor

# Of a numpy array that is not contiguous, this many bytes are copied at a time.
_PIECE_BYTES = 16 << 20

_LISTS_TIED_ONCE = "parameters that are tied are listed once: give the module itself, or tied={name: the one it shares}"


class Capture(Protocol):
    """What `skerry._core.Capture` is."""

    tensors: list[tuple[str, str, tuple[int, ...]]]

    def take(self, ordinal: int, array: np.ndarray, dtype: str, first: int = 0) -> None:
        """Compares elements [first, first + size) of a tensor with the snapshot and keeps what differs.

        `array`: flat; its bits are of `dtype`, the tensor's own, or F32, which is rounded, for BF16 and F16.
        """


class Given(NamedTuple):
    """`values`, where it is given, makes what is published in the place of `array`, of the same shape and dtype."""

    name: str
    array: Any
    values: Callable[[], Any] | None = None


def is_torch(kind: str, value: object) -> bool:
    """Whether `value` is a `torch.Tensor` or a `torch.nn.Module`, without importing torch."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    return isinstance(value, torch.Tensor if kind == "Tensor" else torch.nn.Module)


class Weights:
    """What a publish was given. `again`: it can be gone through more than once; `ahead`: its arrays stay alive, and as
    they are, until the end.
    """

    def __init__(self, source: Any) -> None:
        self.again = self.ahead = True
        self.hint = ""
        if is_torch("Module", source):
            from skerry.torch import module_tensors

            tensors = list(module_tensors(source))
            self._items = lambda: tensors
        elif isinstance(source, Mapping):
            self._items = source.items
        elif isinstance(source, Iterable) and not isinstance(source, (bytes, bytearray, np.ndarray)):
            if is_torch("Tensor", source):
                raise Invalid("weights: one tensor without a name; give (name, tensor) pairs")
            iterator = isinstance(source, Iterator)
            self.again, self.ahead = not iterator, not iterator
            self.hint = _LISTS_TIED_ONCE
            self._items = lambda: source
        else:
            raise Invalid(
                f"weights: {type(source).__name__} is neither a module, a mapping of names to arrays, (name, array) "
                "pairs, nor the path of a checkpoint"
            )

    def __iter__(self) -> Iterator[Given]:
        for item in self._items():
            try:
                given = Given(*item)
            except TypeError:
                raise Invalid(f"weights: {type(item).__name__} where a (name, array) pair was expected") from None
            if not isinstance(given.name, str):
                raise Invalid(f"weights: {type(given.name).__name__} where the name of an array was expected")
            yield given


def check(capture: Capture, weights: Weights, names: Names) -> None:
    """Raises NamesDiffer (names.py) where the arrays are not the checkpoint's tensors. Reads no array."""
    matching = Matching(names, capture.tensors, weights.hint)
    for given in weights:
        matching.place(given.name, *_form(given))
    matching.finish()


class Also(Protocol):
    """Wants the arrays too (view_weights.py)."""

    of_masters: bool  # the arrays as they are given, and not as the checkpoint has them

    def take(self, name: str, tensor: Any) -> None: ...

    def finish(self) -> None: ...


def take(capture: Capture, weights: Weights, names: Names, also: Sequence[Also] = ()) -> None:
    """Takes all arrays. They may be overwritten when it returns. `also` is told each of them, by the checkpoint's name.

    Raises NamesDiffer; where the arrays can be gone through twice, before one is read.
    """
    if weights.again:
        check(capture, weights, names)
    matching = Matching(names, capture.tensors, weights.hint)
    reader = _Reader(capture, weights.ahead)
    try:
        for given in weights:
            form = _form(given)
            ordinals = matching.place(given.name, *form)
            if not ordinals:
                continue
            array = reader.read(given, form[0], ordinals)
            if also:
                tensor = host_tensor(array)
                for ordinal in ordinals:
                    name, dtype, _ = capture.tensors[ordinal]
                    served = as_served(tensor, dtype)
                    for one in also:
                        one.take(name, tensor if one.of_masters else served)
        reader.finish()
    finally:
        reader.close()
    matching.finish()
    for one in also:
        one.finish()


def _form(given: Given) -> tuple[str, tuple[int, ...], Hashable | None]:
    """dtype, shape, and what tells whether two arrays are the same memory."""
    if is_torch("Tensor", given.array):
        from skerry.torch import dtype_name, identity

        return dtype_name(given.array), tuple(given.array.shape), identity(given.array)
    if not isinstance(given.array, np.ndarray):
        raise Invalid(f"{given.name}: {type(given.array).__name__} is neither a tensor of torch nor an array of numpy")
    return _numpy_dtype(given.array.dtype), given.array.shape, None


class _Reader:
    def __init__(self, capture: Capture, ahead: bool) -> None:
        self._capture, self._ahead = capture, ahead
        self._torch: Any = None  # a TensorReader, once there is a tensor

    def read(self, given: Given, dtype: str, ordinals: list[int]) -> Any:
        """Returns the array that was read."""

        def sink(first: int, array: np.ndarray) -> None:
            for ordinal in ordinals:
                self._capture.take(ordinal, array, dtype, first)

        if not is_torch("Tensor", given.array):
            for first, piece in _numpy_pieces(given.array):
                sink(first, piece)
            return given.array
        if self._torch is None:
            from skerry.torch import TensorReader

            self._torch = TensorReader()
        value = given.array if given.values is None else given.values()
        self._torch.read(given.name, value, sink, ahead=self._ahead)
        return value

    def finish(self) -> None:
        if self._torch is not None:
            self._torch.finish()

    def close(self) -> None:
        if self._torch is not None:
            self._torch.close()


def _numpy_pieces(array: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    contiguous = array.flags.c_contiguous
    most = max(1, array.size if contiguous else _PIECE_BYTES // max(1, array.itemsize))
    for first, piece in contiguous_pieces(array, most, lambda a: a.flags.c_contiguous, np.ascontiguousarray):
        if piece.dtype.byteorder == ">":
            piece = piece.astype(piece.dtype.newbyteorder("<"))
        yield first, piece if piece.dtype == np.float32 else piece.view(f"u{piece.itemsize}")


_NUMPY_DTYPES = {
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0",
    "bfloat16": "BF16", "bool": "BOOL", "complex64": "C64",
}  # fmt: skip
_NUMPY_KINDS = {"f": "F", "i": "I", "u": "U"}


def _numpy_dtype(dtype: np.dtype) -> str:
    """As safetensors names it, those of ml_dtypes included; else as numpy does."""
    if dtype.name in _NUMPY_DTYPES:
        return _NUMPY_DTYPES[dtype.name]
    kind = _NUMPY_KINDS.get(dtype.kind)
    return f"{kind}{dtype.itemsize * 8}" if kind else dtype.name
