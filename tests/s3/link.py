"""A poor link to a server: a TCP proxy with delay, bandwidth and resets.

Delay is one way: a round trip costs twice as much. Bandwidth is that of the link in each direction, shared by all its
connections. Resets are drawn for each chunk (whatever arrives at once, 64 KiB at most) from a seeded generator. Runs in
a thread of its own.
"""

import asyncio
import random
import socket
import threading
import time

CHUNK = 64 << 10


class Link:
    """Use as a context manager. `delay` in seconds each way, `bandwidth` in bytes a second each way (0: unlimited),
    `reset` the probability for each chunk."""

    def __init__(self, port, delay=0.0, bandwidth=0, reset=0.0, seed=1):
        self.server_port, self.delay, self.bandwidth, self.reset = port, delay, bandwidth, reset
        self.up = self.down = 0  # bytes that came through, to and from the server
        self.connections = self.resets = 0
        self._random = random.Random(seed)
        self._free_at = {"up": 0.0, "down": 0.0}  # when each direction has sent what was given to it
        self._started = threading.Event()

    def __enter__(self):
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    async def _run(self):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, limit=CHUNK)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _connection(self, reader, writer):
        self.connections += 1
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.server_port, limit=CHUNK)
        for end in (writer, far_writer):
            _keep_little_in_flight(end)
        ways = [
            asyncio.create_task(self._carry("up", reader, far_writer)),
            asyncio.create_task(self._carry("down", far_reader, writer)),
        ]
        try:
            await asyncio.gather(*ways)
        except (ConnectionError, asyncio.IncompleteReadError):
            for way in ways:
                way.cancel()
            for end in (writer, far_writer):
                _reset(end)
        finally:
            writer.close()
            far_writer.close()

    async def _carry(self, way, reader, writer):
        """Reads as fast as the bandwidth allows; what was read arrives `delay` later, in order."""
        arriving = asyncio.Queue(maxsize=256)
        delivery = asyncio.create_task(self._deliver(way, arriving, writer))
        try:
            while data := await reader.read(CHUNK):
                if self._random.random() < self.reset:
                    self.resets += 1
                    raise ConnectionResetError("the link lost this connection")
                await self._transmit(way, len(data))
                await arriving.put((time.monotonic() + self.delay, data))
            await arriving.put((time.monotonic() + self.delay, b""))
            await delivery
        finally:
            delivery.cancel()

    async def _transmit(self, way, size):
        if not self.bandwidth:
            return
        self._free_at[way] = max(self._free_at[way], time.monotonic()) + size / self.bandwidth
        await asyncio.sleep(self._free_at[way] - time.monotonic())

    async def _deliver(self, way, arriving, writer):
        while True:
            due, data = await arriving.get()
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if not data:
                if writer.can_write_eof():
                    writer.write_eof()
                return
            # Counted first: who reads the last byte may look at the count at once.
            setattr(self, way, getattr(self, way) + len(data))
            writer.write(data)
            await writer.drain()


def _keep_little_in_flight(writer):
    """What a link has in flight is lost with the connection; the machine's own buffers would be far more than that."""
    writer.transport.set_write_buffer_limits(high=0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, CHUNK)


def _reset(writer):
    """Ends with a reset, not with an orderly end."""
    connection = writer.get_extra_info("socket")
    if connection is not None and connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writer.transport.abort()
