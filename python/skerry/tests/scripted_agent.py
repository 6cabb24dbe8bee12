"""A server on loopback that answers as docs/proxy.md says, byte for byte as a test scripts it."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


WAIT_FOR_CLIENT = object()  # a piece of an answer: wait until the client has closed the connection
CUT = object()  # a piece of an answer: the connection is reset
CLOSE = object()  # a piece of an answer: the connection is closed in order
Reply = Iterable[object]


class ScriptedAgent:
    """Answers the requests in the order of `script`; the last entry answers all that come after it.

    An entry is a reply (pieces of bytes, or one of the marks above) or a function that makes one of the request. One
    thread for each connection. `requests`: all that came. `client_left` is set at WAIT_FOR_CLIENT, or before.
    """

    def __init__(self, *script: Reply | Callable[[Request], Reply]) -> None:
        self.script = list(script)
        self.requests: list[Request] = []
        self.client_left = threading.Event()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """New connections are refused from here on. May be called twice."""
        if self._listener.fileno() >= 0:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as file:
            while (request := read_request(file)) is not None:
                with self._lock:
                    self.requests.append(request)
                    entry = self.script.pop(0) if len(self.script) > 1 else self.script[0]
                for piece in entry(request) if callable(entry) else entry:
                    if piece is CUT:
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        return
                    if piece is CLOSE:
                        return
                    if piece is WAIT_FOR_CLIENT:
                        wait_for_end(connection)
                        self.client_left.set()
                        return
                    try:
                        connection.sendall(piece)
                    except OSError:  # it left before all was sent
                        self.client_left.set()
                        return


def read_request(file) -> Request | None:
    try:
        first = file.readline().decode().split()
        if not first:
            return None
        headers = {}
        while line := file.readline().decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return Request(first[0], first[1], headers, file.read(int(headers.get("content-length", 0))))
    except OSError:
        return None


def wait_for_end(connection: socket.socket) -> None:
    try:
        while connection.recv(4096):
            pass
    except OSError:
        pass


def head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Status", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode()


def answer(body: object, status: int = 200, **headers: str) -> list[bytes]:
    """JSON, or bytes as they are. `Skerry_Run="r"` is the header Skerry-Run."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return [head(status, {"Content-Type": "application/json", "Content-Length": str(len(content)), **named}), content]


def stamped(body: dict, start: int, end: int, **headers: str) -> list[bytes]:
    """A JSON answer as the agent stamps it."""
    both = {"Skerry_Run": "grpo-1", "Skerry_Version_Start": str(start), "Skerry_Version_End": str(end)}
    return answer({**body, "weight_version_start": start, "weight_version_end": end}, **{**both, **headers})


def refused(status: int, kind: str, *, retry_after: str = "", **fields: object) -> list[bytes]:
    headers = {"Retry_After": retry_after} if retry_after else {}
    return answer({"error": {"type": kind, "message": f"{kind} it is", **fields}}, status, **headers)


def not_ready(applied: int | None, wanted: int, constraint: str = "min", after_ms: int = 1730) -> list[bytes]:
    return refused(
        409,
        "WeightVersionNotReady",
        retry_after="2",
        run="grpo-1",
        applied=applied,
        wanted=wanted,
        constraint=constraint,
        retry_after_ms=after_ms,
    )


def chunked(body: bytes, size: int) -> list[bytes]:
    """The body in HTTP chunks of `size` bytes, without the end."""
    pieces = [body[i : i + size] for i in range(0, len(body), size)]
    return [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces]


CHUNKS_END = b"0\r\n\r\n"


def stream_head(start: int = 7, **headers: str) -> bytes:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    stamps = {"Skerry-Run": "grpo-1", "Skerry-Version-Start": str(start)}
    return head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked", **stamps, **named})


def data(body: dict) -> bytes:
    return b"data: " + json.dumps(body, ensure_ascii=False).encode() + b"\n\n"


def summary(start: int, end: int | None, events: dict[str, int]) -> bytes:
    body = {"run": "grpo-1", "weight_version_start": start, "weight_version_end": end, "events": events}
    return b"event: skerry.summary\n" + data(body)


DONE = b"data: [DONE]\n\n"
