"""A device's tensors through a few host buffers: while one is read, the next ones are being copied."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

import torch

# Pinned memory is SLOTS x SLOT_BYTES, whatever the model's size.
SLOTS = 3
SLOT_BYTES = 32 << 20

# Told a host tensor that holds the piece; it may be overwritten when this returns.
Consumer = Callable[[torch.Tensor], None]


class Fence(Protocol):
    """A copy under way."""

    def wait(self) -> None:
        """Returns when the copy is done. Raises what it failed by."""


class Device(Protocol):
    """How a ring copies."""

    def buffer(self, size: int) -> torch.Tensor:
        """A host tensor of uint8[size]."""

    def copy(self, into: torch.Tensor, source: torch.Tensor) -> Fence:
        """Begins a copy. Reads `source` as all work that was enqueued before leaves it."""


class Ring:
    """Not thread-safe. A piece is read in the order in which it was pushed."""

    def __init__(self, device: Device, *, slots: int = SLOTS, slot_bytes: int = SLOT_BYTES) -> None:
        self._device = device
        self._slots, self._slot_bytes = slots, slot_bytes
        self._free: list[torch.Tensor] = []
        self._made = 0
        # Buffer, its part in use, what it is copied from (kept alive until then), fence, consumer.
        self._busy: deque[tuple[torch.Tensor, torch.Tensor, torch.Tensor, Fence, Consumer]] = deque()

    @property
    def slot_bytes(self) -> int:
        """The most bytes that a piece may have."""
        return self._slot_bytes

    def push(self, piece: torch.Tensor, consumer: Consumer) -> None:
        """Begins to copy `piece`, flat and contiguous, of 1 to slot_bytes bytes. May have to read an earlier one
        first.
        """
        buffer = self._take_buffer()
        part = buffer[: piece.nbytes].view(piece.dtype)
        fence = self._device.copy(part, piece)
        self._busy.append((buffer, part, piece, fence, consumer))

    def drain(self) -> None:
        """Reads all that was pushed."""
        while self._busy:
            self._read_oldest()

    def abandon(self) -> None:
        """Waits for all copies and reads none, after an error."""
        while self._busy:
            buffer, _, _, fence, _ = self._busy.popleft()
            try:
                fence.wait()
            except Exception:  # the error that led here is the one to tell
                continue
            self._free.append(buffer)

    def _take_buffer(self) -> torch.Tensor:
        if not self._free:
            if self._made < self._slots:
                self._made += 1
                return self._device.buffer(self._slot_bytes)
            self._read_oldest()
        return self._free.pop()

    def _read_oldest(self) -> None:
        buffer, part, _, fence, consumer = self._busy.popleft()
        fence.wait()
        self._free.append(buffer)
        consumer(part)


class CudaDevice:
    """Copies on a stream of its own, into pinned memory. `index`: of the CUDA device."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._stream = torch.cuda.Stream(device=index)
        # Work of any stream that the trainer has begun: gathers, offloads, an optimizer's own stream.
        torch.cuda.synchronize(index)

    def buffer(self, size: int) -> torch.Tensor:
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def copy(self, into: torch.Tensor, source: torch.Tensor) -> Fence:
        # What has been enqueued since, by an iterator that gathers tensor after tensor, say.
        self._stream.wait_stream(torch.cuda.current_stream(self._index))
        with torch.cuda.stream(self._stream):
            into.copy_(source, non_blocking=True)
            event = torch.cuda.Event()
            event.record(self._stream)
        return _CudaFence(event)


class _CudaFence:
    def __init__(self, event: torch.cuda.Event) -> None:
        self._event = event

    def wait(self) -> None:
        self._event.synchronize()
