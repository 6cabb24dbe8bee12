"""Connections for thousands of requests at once.

httpcore's pool looks at all of its connections for each one of them at each request, so a thousand running requests
would cost it millions of steps each. Here every pool is small, and there are as many as are needed.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator

import httpx

POOL_SIZE = 4  # requests that run in one pool
# A request never waits for a connection: it would wait at the wrong place. Idle ones are dropped before the agent drops
# them (75 s).
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=30.0)


class _Loads:
    """Running requests of each pool. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[int] = []

    def take(self) -> int:
        """The first pool with room, so that idle connections are found again; perhaps one that is not made yet."""
        with self._lock:
            pool = next((i for i, running in enumerate(self._running) if running < POOL_SIZE), len(self._running))
            if pool == len(self._running):
                self._running.append(0)
            self._running[pool] += 1
            return pool

    def give_back(self, pool: int) -> None:
        with self._lock:
            self._running[pool] -= 1


class Pools(httpx.BaseTransport):
    """A transport of `httpx.Client`. Thread-safe."""

    def __init__(self) -> None:
        self._loads = _Loads()
        self._verify = httpx.create_ssl_context()
        self._lock = threading.Lock()
        self._pools: dict[int, httpx.HTTPTransport] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        number = self._loads.take()
        try:
            with self._lock:
                if number not in self._pools:
                    self._pools[number] = httpx.HTTPTransport(verify=self._verify, limits=_LIMITS)
                pool = self._pools[number]
            response = pool.handle_request(request)
            assert isinstance(response.stream, httpx.SyncByteStream)
            response.stream = _Body(response.stream, self._loads, number)
            return response
        except BaseException:
            self._loads.give_back(number)
            raise

    def close(self) -> None:
        with self._lock:
            for pool in self._pools.values():
                pool.close()


class AsyncPools(httpx.AsyncBaseTransport):
    """A transport of `httpx.AsyncClient`. For one event loop."""

    def __init__(self) -> None:
        self._loads = _Loads()
        self._verify = httpx.create_ssl_context()
        self._pools: dict[int, httpx.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        number = self._loads.take()
        try:
            if number not in self._pools:
                self._pools[number] = httpx.AsyncHTTPTransport(verify=self._verify, limits=_LIMITS)
            response = await self._pools[number].handle_async_request(request)
            assert isinstance(response.stream, httpx.AsyncByteStream)
            response.stream = _AsyncBody(response.stream, self._loads, number)
            return response
        except BaseException:
            self._loads.give_back(number)
            raise

    async def aclose(self) -> None:
        for pool in self._pools.values():
            await pool.aclose()


class _Body(httpx.SyncByteStream):
    """Gives its place back when it is closed, which httpx does with every body."""

    def __init__(self, stream: httpx.SyncByteStream, loads: _Loads, pool: int) -> None:
        self._stream, self._loads, self._pool = stream, loads, pool
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        yield from self._stream

    def close(self) -> None:
        try:
            self._stream.close()
        finally:
            if not self._closed:
                self._closed = True
                self._loads.give_back(self._pool)


class _AsyncBody(httpx.AsyncByteStream):
    """As `_Body`."""

    def __init__(self, stream: httpx.AsyncByteStream, loads: _Loads, pool: int) -> None:
        self._stream, self._loads, self._pool = stream, loads, pool
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            yield piece

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            if not self._closed:
                self._closed = True
                self._loads.give_back(self._pool)
