"""HTTP/1.1 messages as bytes, read strictly (RFC 9112): what is not exactly as it must be is `Malformed`. No sockets here;
the recording engine reads requests with this, the raw clients answers."""

import json
import re
from collections import deque
from dataclasses import dataclass, field

TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
REQUEST_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([\x21-\x7e]+) HTTP/1\.([01])")
STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9][0-9]) ([\t\x20-\x7e\x80-\xff]*)")
LONGEST_HEAD = 1 << 20


class Malformed(Exception):
    pass


@dataclass
class Message:
    """`framing`: "none" (no body), "length", "chunked" or "close". `body` grows while the message comes in."""

    head: bytes
    line: tuple  # request: method, target, minor version; answer: minor version, status, reason
    fields: list  # (name, value), as they were but for the white space around values
    framing: str = "none"
    body: bytearray = field(default_factory=bytearray)
    chunks: list = field(default_factory=list)  # their sizes
    trailers: list = field(default_factory=list)
    complete: bool = False
    interim: list = field(default_factory=list)  # answers with a status 1xx that came before
    noted: bool = False  # for whoever reads it

    def all(self, name):
        return [value for key, value in self.fields if key.lower() == name.lower()]

    def get(self, name):
        """Its one value as text, or None."""
        values = self.all(name.encode())
        assert len(values) <= 1, f"{name} came {len(values)} times: {values}"
        return values[0].decode() if values else None

    @property
    def method(self):
        return self.line[0].decode()

    @property
    def target(self):
        return self.line[1].decode()

    @property
    def status(self):
        return int(self.line[1])

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        shown = bytes(self.body[:200]).decode(errors="replace")
        return f"<{b' '.join(self.line).decode()}, {self.framing}, {len(self.body)} bytes: {shown}>"


def read_fields(lines):
    fields = []
    for line in lines:
        name, colon, value = line.partition(b":")
        value = value.strip(b" \t")
        if not colon or not TOKEN.fullmatch(name) or not VALUE.fullmatch(value):
            raise Malformed(f"field {line[:80]!r}")
        fields.append((name, value))
    return fields


class Reader:
    """Messages from a connection's bytes. With `methods`, a deque of what was asked, it reads answers."""

    def __init__(self, methods=None):
        self.buffer, self.methods = bytearray(), methods
        self.message, self.interim, self.left = None, [], 0

    def feed(self, data):
        """The messages that are complete with this data."""
        self.buffer += data
        done = []
        while self._advance():
            done.append(self.message)
            self.message = None
        return done

    def end(self):
        """The connection was closed in order. The message that this completes, or None; Malformed in the midst of one."""
        message, self.message = self.message, None
        if message and message.framing == "close":
            message.complete = True
            return message
        if message or self.buffer:
            raise Malformed(f"closed in the midst of {message!r}, {len(self.buffer)} bytes waiting")
        return None

    def _advance(self):
        if self.message is None and not self._head():
            return False
        message = self.message
        if message.framing == "close":
            message.body += self.buffer
            self.buffer.clear()
        elif message.framing == "length":
            self._take()
            message.complete = not self.left
        elif message.framing == "chunked":
            while not message.complete and self._chunk():
                pass
        else:
            message.complete = True
        return message.complete

    def _take(self):
        part = self.buffer[: self.left]
        self.message.body += part
        del self.buffer[: len(part)]
        self.left -= len(part)

    def _line(self):
        end = self.buffer.find(b"\r\n")
        if end < 0:
            if len(self.buffer) > LONGEST_HEAD:
                raise Malformed("a line without end")
            return None
        line = bytes(self.buffer[:end])
        del self.buffer[: end + 2]
        return line

    def _chunk(self):
        """Reads a part of a chunked body; False: more bytes are needed."""
        if self.left > 2:
            self.left -= 2
            self._take()
            self.left += 2
            if self.left > 2:
                return False
        if self.left == 2:
            if len(self.buffer) < 2:
                return False
            if self.buffer[:2] != b"\r\n":
                raise Malformed(f"behind a chunk: {bytes(self.buffer[:10])!r}")
            del self.buffer[:2]
            self.left = 0
        if self.left < 0:
            return self._trailer()
        line = self._line()
        if line is None:
            return False
        if not re.fullmatch(rb"[0-9a-fA-F]{1,16}", line):
            raise Malformed(f"size of a chunk: {line[:40]!r}")
        size = int(line, 16)
        if size:
            self.message.chunks.append(size)
        self.left = size + 2 if size else -1
        return True

    def _trailer(self):
        line = self._line()
        if line is None:
            return False
        if line:
            self.message.trailers += read_fields([line])
            return True
        self.left, self.message.complete = 0, True
        return False

    def _head(self):
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self.buffer) > LONGEST_HEAD:
                raise Malformed("a head without end")
            return False
        head = bytes(self.buffer[: end + 4])
        del self.buffer[: end + 4]
        first, *lines = head[:-4].split(b"\r\n")
        matched = (REQUEST_LINE if self.methods is None else STATUS_LINE).fullmatch(first)
        if not matched:
            raise Malformed(f"first line {first[:80]!r}")
        message = Message(head, matched.groups(), read_fields(lines))
        message.framing = self._framing(message)
        if self.methods is not None and message.status // 100 == 1 and message.status != 101:
            self.interim.append(message)
            return bool(self.buffer) and self._head()
        if self.methods is not None:
            self.methods.popleft()
            message.interim, self.interim = self.interim, []
        self.message = message
        return True

    def _framing(self, message):
        lengths, codings = message.all(b"content-length"), message.all(b"transfer-encoding")
        if len(lengths) > 1 or len(codings) > 1 or (lengths and codings):
            raise Malformed(f"the body's end is doubtful: {lengths} {codings}")
        if lengths and not re.fullmatch(rb"[0-9]{1,18}", lengths[0]):
            raise Malformed(f"Content-Length {lengths[0]!r}")
        if codings and codings[0].lower() != b"chunked":
            raise Malformed(f"Transfer-Encoding {codings[0]!r}")
        if self.methods is not None:
            if not self.methods:
                raise Malformed(f"an answer that nobody asked for: {message!r}")
            if self.methods[0] == "HEAD" or message.status // 100 == 1 or message.status in (204, 304):
                return "none"
        if codings:
            return "chunked"
        if lengths:
            self.left = int(lengths[0])
            return "length"
        return "none" if self.methods is None else "close"


def answers():
    """A reader of answers."""
    return Reader(deque())


def events_of(body):
    """[(event or None, data)] of a stream of server-sent events."""
    found = []
    for block in re.split(rb"\r\n\r\n|\n\n|\r\r", bytes(body)):
        name, data = None, []
        for line in re.split(rb"\r\n|\n|\r", block):
            key, _, value = line.partition(b":")
            value = value.removeprefix(b" ").decode()
            if key == b"event":
                name = value
            if key == b"data":
                data.append(value)
        if data:
            found.append((name, "\n".join(data)))
    return found
