"""The client for programs with an event loop: sync_client.py with `await`."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import httpx

from skerry.client.answer import Answer
from skerry.client.call import STATUS_PATH, Call, checked_base_url, with_stream, without_stream
from skerry.client.errors import SkerryError
from skerry.client.events import Event
from skerry.client.options import Options, split_options
from skerry.client.pools import AsyncPools
from skerry.client.stream_state import StreamState
from skerry.client.version_wait import MAY_PASS, VersionWait

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from skerry.client.options import CallOptions


class AsyncClient:
    """`Client` for asyncio: the same arguments (`http`: an `httpx.AsyncClient`) and the same methods, to be awaited.

    Belongs to one event loop. Any number of calls may run at once; cancelling one closes its connection, which ends the
    request at the engine.
    """

    _sleep: Callable[[float], Awaitable[None]] = staticmethod(asyncio.sleep)

    def __init__(
        self,
        base_url: str,
        *,
        min_version: int | None = None,
        exact_version: int | None = None,
        wait: float | None = None,
        deadline: float | None = None,
        timeout: float = 600.0,
        retry_transport: bool = False,
        headers: Mapping[str, str] | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._base_url = checked_base_url(base_url)
        self._options = Options(
            min_version, exact_version, wait, deadline, timeout, retry_transport, dict(headers or {})
        )
        self._owned = http is None
        self._http = http or httpx.AsyncClient(transport=AsyncPools())

    def with_options(self, **options: Unpack[CallOptions]) -> AsyncClient:
        """A client with other defaults over the same connections, which this one closes."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, _options=self._options.replaced(options), _owned=False)
        return made

    async def request(self, method: str, path: str, body: Any = None, **options: Unpack[CallOptions]) -> Answer:
        """Any request. `body`: bytes as they are, None for none, anything else as JSON."""
        call = self._call(method, path, body, options)
        response = await self._send(call)
        try:
            with call.after_head(response):
                content = await response.aread()
        finally:
            await response.aclose()
        return call.answer(response, content)

    async def get(self, path: str, **options: Unpack[CallOptions]) -> Answer:
        return await self.request("GET", path, **options)

    async def post(self, path: str, json: Any, **options: Unpack[CallOptions]) -> Answer:
        return await self.request("POST", path, json, **options)

    async def completions(self, body: Mapping[str, Any] | None = None, **fields: Any) -> Answer:
        """POST /v1/completions. Members of the body as a mapping, by keyword, or both; a call's options by keyword."""
        return await self._convenience("/v1/completions", body, fields)

    async def chat(self, body: Mapping[str, Any] | None = None, **fields: Any) -> Answer:
        """POST /v1/chat/completions, as `completions`."""
        return await self._convenience("/v1/chat/completions", body, fields)

    async def generate(self, body: Mapping[str, Any] | None = None, **fields: Any) -> Answer:
        """POST /generate (SGLang), as `completions`. vLLM's token form: `post("/inference/v1/generate", …)`."""
        return await self._convenience("/generate", body, fields)

    def stream(self, path: str, json: Mapping[str, Any], **options: Unpack[CallOptions]) -> AsyncStream:
        """A POST whose answer comes as events; `"stream": true` is put into the body. Sent when entered or iterated."""
        call = self._call("POST", path, with_stream(json), options)
        return AsyncStream(call, lambda: self._send(call, stream=True))

    async def status(self, timeout: float = 10.0) -> dict[str, Any]:
        """The agent's status document (docs/http-api.md). `timeout` in seconds; tried once."""
        answer = await self.get(STATUS_PATH, timeout=timeout, wait=None, deadline=None, retry_transport=False)
        return dict(answer.json)

    async def version(self) -> int | None:
        """The version that all engines in rotation serve; None where they differ or none is."""
        return (await self.status()).get("version")

    async def wait_for_version(self, version: int, timeout: float) -> int:
        """Returns the version that is served, once it is `version` or a newer one. `timeout` in seconds.

        Looks at the agent's status up to 20 times a second, later once a second. Raises WeightVersionNotReady when
        the time is over, AgentUnreachable where the agent could not be reached by then.
        """
        wait = VersionWait(version, timeout)
        while True:
            try:
                if (served := wait.took(await self.status(wait.look_timeout()))) is not None:
                    return served
            except MAY_PASS as error:
                wait.failed(error)
            await self._sleep(wait.pause())

    async def aclose(self) -> None:
        if self._owned:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _convenience(self, path: str, body: Mapping[str, Any] | None, arguments: Mapping[str, Any]) -> Answer:
        options, members = split_options(arguments)
        return await self.post(path, without_stream({**(body or {}), **members}), **options)

    def _call(self, method: str, path: str, body: Any, options: Mapping[str, Any]) -> Call:
        return Call(self._base_url, method, path, body, self._options.replaced(options))

    async def _send(self, call: Call, *, stream: bool = False) -> httpx.Response:
        """A successful answer whose body has not been read; the caller closes it."""
        while True:
            try:
                return await self._try(call, stream)
            except SkerryError as error:
                pause = call.pause(error)
                if pause is None:
                    raise
            await self._sleep(pause)

    async def _try(self, call: Call, stream: bool) -> httpx.Response:
        with call.until_head():
            response = await self._http.send(call.request(self._http), stream=True)
        try:
            if response.is_success:
                call.check_head(response, stream=stream)
                return response
            with call.after_head(response):
                content = await response.aread()
        except BaseException:
            await response.aclose()
            raise
        await response.aclose()
        raise call.failure(response, content)


class AsyncStream(StreamState):
    """The events of an answer: `async with client.stream(…) as events: async for event in events: …`.

    As `Stream`. A loop that is left early without `async with` keeps its connection until `aclose` is called.
    """

    def __init__(self, call: Call, send: Callable[[], Awaitable[httpx.Response]]) -> None:
        super().__init__(call)
        self._send = send
        self._pending: deque[Event] = deque()
        self._pieces: AsyncIterator[bytes] | None = None

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        try:
            while not self._pending:
                if self.closed:
                    raise StopAsyncIteration
                pieces = await self._open()
                with self._call.after_head(self._head(), self._reader):
                    piece = await anext(pieces, None)
                if piece is None:
                    await self._head().aclose()
                    self.closed = True
                    self._call.check_end(self._reader)
                else:
                    self._pending.extend(self._reader.feed(piece))
        except StopAsyncIteration:
            raise
        except BaseException:
            await self.aclose()
            raise
        return self._pending.popleft()

    async def aclose(self) -> None:
        """May be called at any time, more than once."""
        self.closed = True
        self._pending.clear()
        if self._response is not None:
            await self._response.aclose()

    async def _open(self) -> AsyncIterator[bytes]:
        if self._pieces is None:
            if self.closed:
                raise RuntimeError("the stream was closed before it was opened")
            self._response = await self._send()
            self._pieces = self._response.aiter_bytes()
        return self._pieces
