"""A capture that keeps what it is given: what of a trainer's arrays reaches the native part, and how."""

from __future__ import annotations

import numpy as np

_ITEM_BYTES = {"F32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1, "BOOL": 1, "I64": 8}


class RecordingCapture:
    """`tensors`: name -> (dtype, shape). `calls`: (name, first, elements, numpy dtype) of each take."""

    def __init__(self, tensors: dict[str, tuple[str, tuple[int, ...]]]) -> None:
        self.tensors = [(name, dtype, tuple(shape)) for name, (dtype, shape) in tensors.items()]
        self.calls: list[tuple[str, int, int, str]] = []
        self._taken: dict[str, dict[int, object]] = {name: {} for name in tensors}

    def take(self, ordinal: int, array: np.ndarray, dtype: str, first: int = 0) -> None:
        name, served, _ = self.tensors[ordinal]
        assert array.ndim == 1 and array.flags.c_contiguous
        assert dtype == served or (dtype == "F32" and served in ("BF16", "F16")), (dtype, served)
        assert array.dtype == (np.float32 if dtype == "F32" else f"u{_ITEM_BYTES[dtype]}"), (dtype, array.dtype)
        self.calls.append((name, first, array.size, array.dtype.name))
        # Copied at once: the caller may overwrite it.
        for offset, value in enumerate(array.tolist()):
            assert first + offset not in self._taken[name], f"{name}[{first + offset}] was taken twice"
            self._taken[name][first + offset] = value

    def values(self, name: str) -> list[object]:
        """All elements of a tensor, which must have been taken."""
        taken = self._taken[name]
        assert sorted(taken) == list(range(len(taken)))
        return [taken[index] for index in range(len(taken))]

    @property
    def taken_names(self) -> set[str]:
        return {name for name, _, _, _ in self.calls}
