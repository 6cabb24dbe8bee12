"""Reads along on a TCP connection that carries HTTP/1.1, and writes down each request and its answer.

It is a witness of its own: what it says about bytes and weight versions does not come from Skerry's own accounts. It
relies on requests that follow one another on a connection (no pipelining), as all clients here send them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

MOST_HEAD = 64 << 10  # bytes; a longer head is not understood


@dataclass
class Exchange:
    """One request and its answer. Times are of time.time()."""

    method: str = ""
    target: str = ""
    min_version: int | None = None  # the floor that was asked for
    began: float = 0.0  # first byte of the request
    first_byte: float | None = None  # of the answer
    ended: float | None = None  # last byte of the answer so far
    status: int | None = None
    version_start: int | None = None  # the answer's stamps
    version_end: int | None = None
    sent: int = 0  # bytes of the request
    received: int = 0  # bytes of the answer so far, with its head
    opened: bool = False  # first on its connection

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


class Conversation:
    """The exchanges of one connection. `tell` gets each as it begins; it is filled in as bytes pass."""

    def __init__(self, tell: Callable[[Exchange], None], clock: Callable[[], float] = time.time) -> None:
        self._tell = tell
        self._clock = clock
        self._current: Exchange | None = None
        self._request_head = b""
        self._answer_head: bytes | None = b""  # None: read

    def sent(self, data: bytes) -> None:
        """The client sent these bytes."""
        if self._current is None or self._current.received:
            self._current = Exchange(began=self._clock(), opened=self._current is None)
            self._request_head, self._answer_head = b"", b""
            self._tell(self._current)
        self._current.sent += len(data)
        if not self._current.method and len(self._request_head) < MOST_HEAD:
            self._request_head += data
            self._read_request()

    def received(self, data: bytes) -> None:
        """The server sent these bytes."""
        if self._current is None:
            return  # nobody asked
        now = self._clock()
        if self._current.first_byte is None:
            self._current.first_byte = now
        self._current.ended = now
        self._current.received += len(data)
        if self._answer_head is not None and len(self._answer_head) < MOST_HEAD:
            self._answer_head += data
            self._read_answer()

    def _read_request(self) -> None:
        head, complete, _ = self._request_head.partition(b"\r\n\r\n")
        if not complete:
            return
        first, fields = _read_head(head)
        self._current.method, self._current.target = (first.split(" ") + ["", ""])[:2]
        self._current.min_version = _number(fields.get("skerry-min-version"))

    def _read_answer(self) -> None:
        head, complete, rest = self._answer_head.partition(b"\r\n\r\n")
        if not complete:
            return
        first, fields = _read_head(head)
        status = _number((first.split(" ") + ["", ""])[1])
        if status is not None and status < 200:  # 100 Continue: the answer is still to come
            self._answer_head = rest
            self._read_answer()
            return
        self._answer_head = None
        self._current.status = status
        self._current.version_start = _number(fields.get("skerry-version-start"))
        self._current.version_end = _number(fields.get("skerry-version-end"))


def _read_head(head: bytes) -> tuple[str, dict[str, str]]:
    """The first line, and the fields by name in lower case."""
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return first, {name.strip().lower(): value.strip() for name, _, value in pairs}


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
