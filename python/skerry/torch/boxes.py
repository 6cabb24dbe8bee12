"""Which box of a tensor this rank holds."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import torch

from skerry.errors import Unsupported
from skerry.torch.reading import identity, settled


class Box(NamedTuple):
    """`start` and `size` along each axis, in elements; both empty tuples for a scalar."""

    start: tuple[int, ...]
    size: tuple[int, ...]
    tensor: torch.Tensor
    name: str

    @property
    def is_empty(self) -> bool:
        return 0 in self.size

    def values(self) -> torch.Tensor:
        """The box's elements, with its shape, once nothing is still to write them."""
        tensor = self.tensor.to_local() if _is_dtensor(self.tensor) else self.tensor
        return settled(tensor, self.name)

    def whole(self) -> torch.Tensor:
        """The whole tensor: a collective of all ranks of its mesh."""
        tensor = self.tensor.full_tensor() if _is_dtensor(self.tensor) else self.tensor
        return settled(tensor, self.name)

    def identity(self) -> Hashable | None:
        """Equal for two tensors whose values here are the same memory."""
        return identity(self.tensor._local_tensor if _is_dtensor(self.tensor) else self.tensor)


def box_of(tensor: torch.Tensor, name: str) -> Box:
    """Raises Unsupported, naming it, for a DTensor whose values are still to be summed (`Partial`)."""
    tensor = tensor.detach()
    if not _is_dtensor(tensor):
        return Box((0,) * tensor.dim(), tuple(tensor.shape), tensor, name)
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    if any(placement.is_partial() for placement in tensor.placements):
        raise Unsupported(f"{name} is a DTensor with a Partial placement: its values are still to be summed")
    size, start = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    if tuple(size) != tuple(tensor._local_tensor.shape):
        raise Unsupported(
            f"{name} is a DTensor placed as {tensor.placements} of which this rank holds "
            f"{list(tensor._local_tensor.shape)}, not the {list(size)} that placement says"
        )
    return Box(tuple(start), tuple(size), tensor, name)


def _is_dtensor(tensor: torch.Tensor) -> bool:
    return hasattr(tensor, "placements") and hasattr(tensor, "to_local")
