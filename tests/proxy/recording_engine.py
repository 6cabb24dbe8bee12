"""An engine that records the requests which reach it, byte for byte, and answers each of them as a test says.

Raw sockets, in a thread of its own. An answer is a list of steps, or a generator of them:
  bytes                 are sent
  float                 so many seconds pass
  threading.Event       is waited for
  FIN, RST              the connection is closed in order, or reset; nothing after it is done
whole(), events() and head() make such steps.
"""

import asyncio
import contextlib
import json
import socket
import struct
import threading

from messages import Malformed, Reader

FIN, RST = "FIN", "RST"
MOST_WAITING = 256 << 10  # bytes for a client that does not read


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data) if data else b""


def head(status=200, fields=(), reason=b"OK"):
    lines = [b"HTTP/1.1 %d %s" % (status, reason), *(name + b": " + value for name, value in fields)]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def cut(data, sizes):
    """The data in pieces of these sizes, and what is left."""
    pieces, at = [], 0
    for size in sizes:
        pieces.append(data[at : at + size])
        at += size
    return [piece for piece in (*pieces, data[at:]) if piece]


def framed(body, framing, cuts=()):
    """The bytes of a body with chunks of the sizes `cuts`."""
    if framing == "chunked":
        return b"".join(map(chunk, cut(body, cuts))) + b"0\r\n\r\n"
    return body


def whole(
    status=200, fields=(), body=b"", framing="length", cuts=(), writes=(), gap=0.0, reason=b"OK", sends_body=True
):
    """A complete answer. `writes`: sizes in which it is sent, `gap` seconds apart. `sends_body`: false where the head
    alone is right (HEAD, 304)."""
    more = {"length": [(b"Content-Length", b"%d" % len(body))], "chunked": [(b"Transfer-Encoding", b"chunked")]}
    data = head(status, [*fields, *more.get(framing, [])], reason)
    if sends_body:
        data += framed(body, framing, cuts)
    steps = []
    for piece in cut(data, writes):
        steps += [piece, gap] if gap else [piece]
    return steps + ([FIN] if framing == "close" else [])


def event(number):
    choices = [{"index": 0, "text": f" {number}"}]
    return f"data: {json.dumps({'object': 'text_completion', 'choices': choices})}\n\n".encode()


def events(count, gap=0.0, end=True):
    """A stream of server-sent events, `gap` seconds between two. Without `end`, the body has none."""
    yield head(200, [(b"Content-Type", b"text/event-stream"), (b"Transfer-Encoding", b"chunked")])
    for number in range(count):
        yield chunk(event(number))
        if gap:
            yield gap
    if end:
        yield chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


def ok(_request):
    return whole(200, [(b"Content-Type", b"text/plain")], b"ok")


class RecordingEngine:
    """`answer`: a function of the request (messages.Message) that gives the steps; may be replaced at any time."""

    specification = "none"  # its place in the agent's options is --upstream

    def __init__(self, answer=ok, port=0):
        self.answer = answer
        self.begun, self.requests, self.malformed = [], [], []  # heads that came, complete requests, what was no HTTP
        self.open = self.accepted = self.aborted = self.bytes = 0
        self.connections = set()
        listener = socket.create_server(("127.0.0.1", port), backlog=4096)
        self.port = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.loop = asyncio.new_event_loop()
        self._server = self.loop.run_until_complete(self.loop.create_server(lambda: _Connection(self), sock=listener))
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def upstream(self):
        """What puts an agent before it."""
        return ("--upstream", self.url)

    def close(self):
        if not self.loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._close(), self.loop).result(30)
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(30)
            self.loop.close()

    async def _close(self):
        self._server.close()
        for connection in list(self.connections):
            connection.transport.abort()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)

    def forget(self):
        """What was recorded so far."""
        self.begun, self.requests, self.malformed, self.bytes = [], [], [], 0

    def saw(self):
        """For messages: everything that came, in short."""
        return f"{self.bytes} bytes, {[m.head for m in self.begun]}, {self.malformed}"


class _Connection(asyncio.Protocol):
    def __init__(self, engine):
        self.engine, self.reader, self.waiting = engine, Reader(), asyncio.Queue()
        self.current = self.task = None
        self.writable = asyncio.Event()
        self.writable.set()

    def connection_made(self, transport):
        self.transport = transport
        transport.set_write_buffer_limits(MOST_WAITING)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.engine.open += 1
        self.engine.connections.add(self)
        self.engine.accepted += 1
        self.task = asyncio.ensure_future(self.serve())

    def connection_lost(self, _error):
        self.engine.open -= 1
        self.engine.connections.discard(self)
        if self.current:
            self.engine.aborted += 1
        self.task.cancel()

    def pause_writing(self):
        self.writable.clear()

    def resume_writing(self):
        self.writable.set()

    def data_received(self, data):
        self.engine.bytes += len(data)
        try:
            complete = self.reader.feed(data)
        except Malformed as malformed:
            self.engine.malformed.append(f"{malformed}: {data[:200]!r}")
            self.transport.abort()
            return
        for message in (*complete, self.reader.message):
            if message and not message.noted:
                message.noted = True
                self.engine.begun.append(message)
        for message in complete:
            self.engine.requests.append(message)
            self.waiting.put_nowait(message)

    async def serve(self):
        while not self.transport.is_closing():
            request = await self.waiting.get()
            self.current = request
            for step in self.engine.answer(request):
                if await self.do(step):
                    break
            self.current = None

    async def do(self, step):
        """Whether that was the end."""
        if isinstance(step, bytes):
            await self.writable.wait()
            self.transport.write(step)
        elif isinstance(step, threading.Event):
            while not step.is_set():
                await asyncio.sleep(0.005)
        elif step == RST:
            self.current = None
            self.transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            self.transport.abort()
            return True
        elif step == FIN:
            self.current = None
            self.transport.close()
            return True
        else:
            await asyncio.sleep(step)
        return False


@contextlib.contextmanager
def recording_engines():
    """Starts engines and closes them."""
    started = []

    def begin(*arguments, **how):
        started.append(RecordingEngine(*arguments, **how))
        return started[-1]

    try:
        yield begin
    finally:
        for engine in started:
            engine.close()
