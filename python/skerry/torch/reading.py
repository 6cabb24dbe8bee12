"""A tensor as flat pieces of host memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from skerry.errors import Unsupported
from skerry.pieces import contiguous_pieces
from skerry.torch.staging import CudaDevice, Ring

# Told the first element's position and the elements: float32, or the bits as unsigned integers. The array may be
# overwritten when this returns.
Sink = Callable[[int, np.ndarray], None]

# What is not contiguous is copied in pieces of about this size.
_PIECE_BYTES = 16 << 20

_DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ", "complex64": "C64",
}  # fmt: skip
_BITS = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}


def dtype_name(tensor: torch.Tensor) -> str:
    """As safetensors names it ("BF16"), else as torch does."""
    name = str(tensor.dtype).removeprefix("torch.")
    return _DTYPES.get(name, name)


def identity(tensor: torch.Tensor) -> Hashable | None:
    """Equal for two tensors that are the same memory, also of another tensor that has been freed since: never equal
    then.

    None where it can't be told.
    """
    try:
        storage = StorageWeakRef(tensor.untyped_storage())
    except (NotImplementedError, RuntimeError):
        return None
    return storage, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype


def settled(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """The plain tensor behind `tensor`, on its device, after waiting for a collective that is still to fill it.

    Raises Unsupported, naming it, for what has no plain values here: shards, meta tensors, quantised subclasses.
    """
    tensor = tensor.detach()
    if hasattr(tensor, "_get_acs_underlying_tensor"):  # an AsyncCollectiveTensor
        tensor = tensor.wait()
    if hasattr(tensor, "placements") and hasattr(tensor, "to_local"):  # a DTensor
        tensor = _whole_local(tensor, name)
    if tensor.device.type == "meta":
        raise Unsupported(f"{name} is on the meta device: it has no values")
    if tensor.layout is not torch.strided or tensor.is_quantized or is_traceable_wrapper_subclass(tensor):
        raise Unsupported(f"{name} is a {type(tensor).__name__} of layout {tensor.layout}, which has no plain values")
    return tensor.resolve_conj().resolve_neg()


def _whole_local(tensor: torch.Tensor, name: str) -> torch.Tensor:
    local = settled(tensor.to_local(), name)
    if any(placement.is_partial() for placement in tensor.placements):
        raise Unsupported(f"{name} is a DTensor with a Partial placement: its values are still to be summed")
    if local.shape != tensor.shape:
        raise Unsupported(
            f"{name} is a DTensor of which this rank holds {list(local.shape)} of {list(tensor.shape)}: give the "
            "publisher group=, so that each rank publishes its own part"
        )
    return local


def _pieces(tensor: torch.Tensor, most_bytes: int) -> Iterator[tuple[int, torch.Tensor]]:
    most = max(1, most_bytes // tensor.element_size())
    return contiguous_pieces(tensor, most, torch.Tensor.is_contiguous, torch.Tensor.contiguous)


def host_array(piece: torch.Tensor) -> np.ndarray:
    """A contiguous tensor of the CPU as an array of the same memory: float32, or the bits as unsigned integers."""
    if piece.dtype is torch.float32:
        return piece.numpy()
    if piece.element_size() not in _BITS:
        raise Unsupported(f"elements of {piece.element_size()} bytes ({piece.dtype})")
    return piece.view(_BITS[piece.element_size()]).numpy()


def _cuda_ring(device: torch.device) -> Ring | None:
    return Ring(CudaDevice(device.index)) if device.type == "cuda" else None


class TensorReader:
    """Reads tensors of any device, those of CUDA through pinned buffers. Not thread-safe.

    Waits for what may still change a tensor: collectives that it waits for itself, and the CUDA work that was begun
    before. `sink` is called in the caller's thread.
    """

    def __init__(self, make_ring: Callable[[torch.device], Ring | None] = _cuda_ring) -> None:
        self._make_ring = make_ring
        self._rings: dict[torch.device, Ring | None] = {}

    def read(self, name: str, tensor: torch.Tensor, sink: Sink, *, ahead: bool = False) -> None:
        """Gives all of `tensor` to `sink`. `ahead`: the tensor stays as it is until `finish`, and may be read then."""
        tensor = settled(tensor, name)
        if tensor.device not in self._rings:
            self._rings[tensor.device] = self._make_ring(tensor.device)
        ring = self._rings[tensor.device]
        if ring is not None:
            for first, piece in _pieces(tensor, ring.slot_bytes):
                ring.push(piece, lambda host, first=first: sink(first, host_array(host)))
            if not ahead:
                ring.drain()
            return
        whole = tensor.device.type == "cpu" and tensor.is_contiguous()
        for first, piece in _pieces(tensor, tensor.nbytes or 1 if whole else _PIECE_BYTES):
            sink(first, host_array(piece.cpu()))

    def finish(self) -> None:
        """Reads what was left to be read."""
        for ring in self._rings.values():
            if ring is not None:
                ring.drain()

    def close(self) -> None:
        """After an error: no copy is under way any more. After `finish` it does nothing."""
        for ring in self._rings.values():
            if ring is not None:
                ring.abandon()
