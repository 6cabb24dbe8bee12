"""A long way to a server: a TCP proxy that holds bytes back, and reads along.

All links run in one thread with one event loop. A byte arrives `delay` seconds after it was sent; a new connection
costs a round trip first, as a handshake over such a way does. With a rate, each direction carries no more than that.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

from .exchanges import Conversation, Exchange

CHUNK = 64 << 10  # bytes read at once
MOST_CHUNKS = 64  # on their way, in each direction of a connection
PATIENCE = 10.0  # seconds for the loop to do what it is told

Address = tuple[str, int]


class LinkLoop:
    """The thread that all links run in. Use as a context manager."""

    def __enter__(self) -> LinkLoop:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(TimeoutError):
            self.call(_end_all_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the loop and return what it returns."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)


class Link:
    """The way to `target`, for who connects to `address`. `exchanges` grows as requests begin."""

    def __init__(
        self, loop: LinkLoop, target: Address, *, host: str = "127.0.0.1", delay: float = 0.0, rate: float = 0.0,
        clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        """Listens on a free port of `host`. `delay`: seconds each way. `rate`: bits a second each way, of all
        connections together; 0: no limit."""
        self.target = target
        self.delay = delay
        self.rate = rate
        self.exchanges: list[Exchange] = []
        self._clock = clock
        self._loop = loop
        self._connections: set[asyncio.Task[None]] = set()
        self._free_at = {"up": 0.0, "down": 0.0}  # when each direction has sent what was given to it
        self.address: Address = loop.call(self._listen(host))

    @property
    def url(self) -> str:
        return f"http://{self.address[0]}:{self.address[1]}"

    def close(self) -> None:
        """Stop listening and cut all connections."""
        self._loop.call(self._end())

    async def _listen(self, host: str) -> Address:
        self._server = await asyncio.start_server(self._accept, host, 0, limit=CHUNK)
        return self._server.sockets[0].getsockname()[:2]

    async def _end(self) -> None:
        self._server.close()
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._connection(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversation = Conversation(self.exchanges.append, self._clock)
        ends = [writer]
        try:
            await asyncio.sleep(2 * self.delay)  # the handshake
            far_reader, far_writer = await asyncio.open_connection(*self.target, limit=CHUNK)
            ends.append(far_writer)
            up = asyncio.create_task(self._carry("up", reader, far_writer, conversation.sent))
            down = asyncio.create_task(self._carry("down", far_reader, writer, conversation.received))
            try:
                await asyncio.gather(up, down)
            finally:
                up.cancel()
                down.cancel()
        except OSError:  # the target refuses, or one end broke off: so does the other
            for end in ends:
                _reset(end)
        finally:
            for end in ends:
                end.close()

    async def _carry(
        self, way: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tell: Callable[[bytes], None]
    ) -> None:
        """What is read arrives `delay` later, in order."""
        arriving: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(MOST_CHUNKS)
        delivery = asyncio.create_task(_deliver(arriving, writer, tell))
        try:
            while True:
                reading = asyncio.ensure_future(reader.read(CHUNK))
                await asyncio.wait((reading, delivery), return_when=asyncio.FIRST_COMPLETED)
                if delivery.done():  # the receiver is gone
                    reading.cancel()
                    return delivery.result()
                data = reading.result()
                await self._transmit(way, len(data))
                await arriving.put((time.monotonic() + self.delay, data))
                if not data:
                    return await delivery
        finally:
            delivery.cancel()

    async def _transmit(self, way: str, size: int) -> None:
        if self.rate:
            self._free_at[way] = max(self._free_at[way], time.monotonic()) + 8 * size / self.rate
            await asyncio.sleep(self._free_at[way] - time.monotonic())


async def _deliver(
    arriving: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter, tell: Callable[[bytes], None]
) -> None:
    while True:
        due, data = await arriving.get()
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        if not data:
            writer.write_eof()
            return
        tell(data)  # first: who reads the last byte may look at the exchanges at once
        writer.write(data)
        await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    """End it with a reset, not with an orderly end."""
    connection = writer.get_extra_info("socket")
    if connection is not None and connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writer.transport.abort()


async def _end_all_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
