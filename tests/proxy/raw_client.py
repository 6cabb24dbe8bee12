"""A client that sends just the bytes that it is given, and reads answers strictly."""

import contextlib
import json
import os
import socket
import struct
import time
from urllib.parse import urlsplit

from messages import Malformed, answers

PATIENCE = int(os.environ.get("SKERRY_TEST_PATIENCE", 120))


class Cut(Exception):
    """The connection ended before the answer was complete. `message`: what of it came, or None."""

    def __init__(self, why, message):
        super().__init__(f"{why}: {message!r}")
        self.message = message


def request(method, target, fields=(), body=None, version=b"HTTP/1.1"):
    """Bytes of a request; `body` goes with Content-Length. Names and values may be text."""
    encoded = [tuple(part if isinstance(part, bytes) else part.encode() for part in pair) for pair in fields]
    lines = [b"%s %s %s" % (method.encode(), target.encode(), version)]
    if not any(name.lower() == b"host" for name, _ in encoded):
        lines.append(b"Host: engines")
    lines += [name + b": " + value for name, value in encoded]
    if body is not None:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + (body or b"")


class Client:
    """One connection. `room`: bytes that the system may keep for a client that does not read."""

    def __init__(self, url, timeout=PATIENCE, room=None):
        where = urlsplit(url)
        self.socket = socket.socket()
        if room:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        self.socket.settimeout(timeout)
        self.socket.connect((where.hostname, where.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader, self._ready = answers(), []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data, method="GET"):
        """`method`: of the request that the data has, which decides how its answer ends."""
        self.reader.methods.append(method)
        self.socket.sendall(data)

    def more(self):
        """Reads once. False: the connection has ended in order. The answer that comes is self.reader.message."""
        data = self.socket.recv(1 << 18)
        if data:
            self._ready += self.reader.feed(data)
        return bool(data)

    def answer(self):
        while not self._ready:
            came = self.reader.message
            try:
                if not self.more():
                    ended = self.reader.end()
                    if ended is None:
                        raise Cut("closed without an answer", None)
                    return ended
            except (ConnectionError, Malformed) as error:
                raise Cut(str(error), self.reader.message or came) from error
        return self._ready.pop(0)

    def ask(self, method, target, fields=(), body=None):
        self.send(request(method, target, fields, body), method)
        return self.answer()

    def post(self, target, document, fields=()):
        """Sends JSON."""
        return self.ask("POST", target, [("Content-Type", "application/json"), *fields], json.dumps(document).encode())

    def begin(self, target, document, fields=()):
        """Sends JSON and reads the head of the answer, whose body then grows in the message with more()."""
        body = json.dumps(document).encode()
        self.send(request("POST", target, [("Content-Type", "application/json"), *fields], body), "POST")
        return self.head()

    def head(self):
        while self.reader.message is None and not self._ready:
            if not self.more():
                raise Cut("closed without an answer", None)
        return self._ready[0] if self._ready else self.reader.message

    def is_closed(self, timeout=PATIENCE):
        """Whether the other side closes the connection within that time, and says nothing more."""
        self.socket.settimeout(timeout)
        try:
            return not self.socket.recv(1)
        except TimeoutError:
            return False
        except ConnectionError:
            return True

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self):
        self.socket.close()


def ask(url, method, target, fields=(), body=None):
    with Client(url) as client:
        return client.ask(method, target, fields, body)


def post(url, target, document, fields=()):
    with Client(url) as client:
        return client.post(target, document, fields)


def arrivals(client, message):
    """Yields (seconds since the first look, bytes of the body so far) until the answer is complete."""
    begin = time.monotonic()
    yield 0.0, len(message.body)
    while not message.complete:
        if not client.more():
            return
        yield time.monotonic() - begin, len(message.body)


def outcome(url, data):
    """Statuses of the answers, until the connection is closed or nothing more comes."""
    statuses = []
    with Client(url) as client:
        client.reader.methods.extend(["GET"] * 100)
        with contextlib.suppress(ConnectionError):  # refused while more was coming
            client.socket.sendall(data)
        with contextlib.suppress(Cut, TimeoutError):
            while True:
                statuses.append(client.answer().status)
                client.socket.settimeout(1)
    return statuses
