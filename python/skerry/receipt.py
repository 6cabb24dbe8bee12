"""What a publish did, and one that is still under way."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

_log = logging.getLogger("skerry")


@dataclass(frozen=True)
class ViewReceipt:
    """The same version in a further view of the run. `blocks` have a scale each, which `rescaled` of them changed. Of
    `patch_bytes`, `shared_bytes` lie in an object of the run's own view: tensors that are the same in all views.
    """

    model: str
    elements: int
    changed: int
    patch_bytes: int
    shared_bytes: int
    checkpoint_bytes: int
    blocks: int = 0
    rescaled: int = 0

    @property
    def density(self) -> float:
        return self.changed / self.elements if self.elements else 0.0


@dataclass(frozen=True)
class Receipt:
    """Can be pickled."""

    version: int
    """The head of the run: this publish's version, or, where nothing was published, the one that holds these weights.
    """
    published: bool
    """False: the head holds these very bits already."""
    step: int | None
    """The trainer's own count, kept with the version."""
    model: str
    """Model digest of the version: SHA-256 in hex, docs/decisions/0002."""
    elements: int
    changed: int
    """Elements whose bits differ from the version before."""
    tensors_changed: int
    patch_bytes: int
    checkpoint_bytes: int
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Of each stage: `capture` (in the caller's thread), `encode`, `publish`, …, and `total`."""
    views: Mapping[str, ViewReceipt] = field(default_factory=dict)
    """By name; the run's own view is this receipt itself."""
    warning: str = ""
    """Something that the next publish has to mend; the version itself is out."""

    @property
    def density(self) -> float:
        """The share of elements that changed."""
        return self.changed / self.elements if self.elements else 0.0


class Handle:
    """A publish under way. Thread-safe."""

    def __init__(self, work: Callable[[], Receipt]) -> None:
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[Handle], Any]] = []
        self._receipt: Receipt | None = None
        self._error: BaseException | None = None
        # Told to somebody: result() raised it, or exception() gave it back.
        self.error_was_told = False
        # Not a daemon: a program that ends still publishes what it gave.
        self._thread = threading.Thread(target=self._run, args=(work,), name="skerry-publish")
        self._thread.start()

    def done(self) -> bool:
        return self._ended.is_set()

    @property
    def failed(self) -> bool:
        """It is done, by an error, which `result` raises."""
        return self.done() and self._error is not None

    def wait(self, timeout: float | None = None) -> bool:
        """Whether it is done within `timeout` seconds."""
        return self._ended.wait(timeout)

    def result(self, timeout: float | None = None) -> Receipt:
        """The receipt. Raises what the publish failed by; TimeoutError after `timeout` seconds."""
        self._wait(timeout)
        if self._error is not None:
            self.error_was_told = True
            raise self._error
        assert self._receipt is not None
        return self._receipt

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the publish failed by. Raises TimeoutError after `timeout` seconds."""
        self._wait(timeout)
        self.error_was_told = True
        return self._error

    def add_done_callback(self, callback: Callable[[Handle], Any]) -> None:
        """Calls `callback(self)` when it is done, in the thread that publishes, or at once where it is done already.
        What it raises is logged.
        """
        with self._lock:
            if not self._ended.is_set():
                self._callbacks.append(callback)
                return
        self._call(callback)

    def _wait(self, timeout: float | None) -> None:
        if not self.wait(timeout):
            raise TimeoutError(f"the publish is not done after {timeout:g} s")

    def _run(self, work: Callable[[], Receipt]) -> None:
        try:
            self._receipt = work()
        except BaseException as error:
            self._error = error
            _log.error("a publish in the background failed: %s", error)
        with self._lock:
            self._ended.set()
        for callback in self._callbacks:
            self._call(callback)

    def _call(self, callback: Callable[[Handle], Any]) -> None:
        try:
            callback(self)
        except Exception:
            _log.exception("a callback of a publish failed")
