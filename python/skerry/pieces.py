"""An array of any strides as contiguous pieces, for numpy and torch alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any


def contiguous_pieces(
    array: Any,
    most_elements: int,
    is_contiguous: Callable[[Any], bool],
    compact: Callable[[Any], Any],
) -> Iterator[tuple[int, Any]]:
    """`array` in row-major order, each piece flat, with the position of its first element; nothing of an empty array.

    Pieces have at most `most_elements` (at least 1) elements. They are views where the array is contiguous, else copies
    by `compact`, of one piece each.
    """
    size = math.prod(array.shape)
    if size == 0:
        return
    if is_contiguous(array):
        flat = array.reshape(-1)
        for first in range(0, size, most_elements):
            yield first, flat[first : first + most_elements]
        return
    if size <= most_elements:
        yield 0, compact(array).reshape(-1)
        return
    row = size // array.shape[0]
    rows = max(1, most_elements // row)
    for index in range(0, array.shape[0], rows):
        part = array[index] if rows == 1 else array[index : index + rows]
        for first, piece in contiguous_pieces(part, most_elements, is_contiguous, compact):
            yield index * row + first, piece
