"""The client for programs without an event loop."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import httpx

from skerry.client.answer import Answer
from skerry.client.call import STATUS_PATH, Call, checked_base_url, with_stream, without_stream
from skerry.client.errors import SkerryError
from skerry.client.events import Event
from skerry.client.options import Options, split_options
from skerry.client.pools import Pools
from skerry.client.stream_state import StreamState
from skerry.client.version_wait import MAY_PASS, VersionWait

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from skerry.client.options import CallOptions


class Client:
    """Requests to the engines behind a Skerry agent, by weight version.

    `base_url`: the agent's, `http://HOST:PORT`, with or without `/v1`. The other arguments hold for every call that
    does not say otherwise:

    - `min_version`, `exact_version`: the answer begins on that version or a newer one; that version makes all of it.
    - `wait`: seconds (at most 3600) that the agent may hold the request until the version is live.
    - `deadline`: seconds from the first try in which answers 409 and 503 lead to another try; `wait` where it
      is not given. Without either every refusal is raised at once. It bounds the tries, not the time of an answer.
    - `retry_transport`: try again also after a connection that failed before the answer's head. The engine may then
      work twice.
    - `timeout`: seconds without a byte of the engine, on top of `wait`.
    - `headers`: sent along, `Authorization` for example.
    - `http`: an `httpx.Client` of your own (TLS, proxies, limits); it is not closed here. Without it, proxies of the
      environment are not used, and any number of requests run at once.

    Calls raise the errors of `skerry.client.errors`. Thread-safe; a `Stream` belongs to one thread.
    """

    _sleep: Callable[[float], None] = staticmethod(time.sleep)

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
        http: httpx.Client | None = None,
    ) -> None:
        self._base_url = checked_base_url(base_url)
        self._options = Options(
            min_version, exact_version, wait, deadline, timeout, retry_transport, dict(headers or {})
        )
        self._owned = http is None
        self._http = http or httpx.Client(transport=Pools())

    def with_options(self, **options: Unpack[CallOptions]) -> Client:
        """A client with other defaults over the same connections, which this one closes."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, _options=self._options.replaced(options), _owned=False)
        return made

    def request(self, method: str, path: str, body: Any = None, **options: Unpack[CallOptions]) -> Answer:
        """Any request. `body`: bytes as they are, None for none, anything else as JSON."""
        call = self._call(method, path, body, options)
        response = self._send(call)
        try:
            with call.after_head(response):
                content = response.read()
        finally:
            response.close()
        return call.answer(response, content)

    def get(self, path: str, **options: Unpack[CallOptions]) -> Answer:
        return self.request("GET", path, **options)

    def post(self, path: str, json: Any, **options: Unpack[CallOptions]) -> Answer:
        return self.request("POST", path, json, **options)

    def completions(self, body: Mapping[str, Any] | None = None, **fields: Any) -> Answer:
        """POST /v1/completions. Members of the body as a mapping, by keyword, or both; a call's options by keyword."""
        return self._convenience("/v1/completions", body, fields)

    def chat(self, body: Mapping[str, Any] | None = None, **fields: Any) -> Answer:
        """POST /v1/chat/completions, as `completions`."""
        return self._convenience("/v1/chat/completions", body, fields)

    def generate(self, body: Mapping[str, Any] | None = None, **fields: Any) -> Answer:
        """POST /generate (SGLang), as `completions`. vLLM's token form: `post("/inference/v1/generate", …)`."""
        return self._convenience("/generate", body, fields)

    def stream(self, path: str, json: Mapping[str, Any], **options: Unpack[CallOptions]) -> Stream:
        """A POST whose answer comes as events; `"stream": true` is put into the body. Sent when entered or iterated."""
        call = self._call("POST", path, with_stream(json), options)
        return Stream(call, lambda: self._send(call, stream=True))

    def status(self, timeout: float = 10.0) -> dict[str, Any]:
        """The agent's status document (docs/http-api.md). `timeout` in seconds; tried once."""
        answer = self.get(STATUS_PATH, timeout=timeout, wait=None, deadline=None, retry_transport=False)
        return dict(answer.json)

    def version(self) -> int | None:
        """The version that all engines in rotation serve; None where they differ or none is."""
        return self.status().get("version")

    def wait_for_version(self, version: int, timeout: float) -> int:
        """Returns the version that is served, once it is `version` or a newer one. `timeout` in seconds.

        Looks at the agent's status up to 20 times a second, later once a second. Raises WeightVersionNotReady when
        the time is over, AgentUnreachable where the agent could not be reached by then.
        """
        wait = VersionWait(version, timeout)
        while True:
            try:
                if (served := wait.took(self.status(wait.look_timeout()))) is not None:
                    return served
            except MAY_PASS as error:
                wait.failed(error)
            self._sleep(wait.pause())

    def close(self) -> None:
        if self._owned:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _convenience(self, path: str, body: Mapping[str, Any] | None, arguments: Mapping[str, Any]) -> Answer:
        options, members = split_options(arguments)
        return self.post(path, without_stream({**(body or {}), **members}), **options)

    def _call(self, method: str, path: str, body: Any, options: Mapping[str, Any]) -> Call:
        return Call(self._base_url, method, path, body, self._options.replaced(options))

    def _send(self, call: Call, *, stream: bool = False) -> httpx.Response:
        """A successful answer whose body has not been read; the caller closes it."""
        while True:
            try:
                return self._try(call, stream)
            except SkerryError as error:
                pause = call.pause(error)
                if pause is None:
                    raise
            self._sleep(pause)

    def _try(self, call: Call, stream: bool) -> httpx.Response:
        with call.until_head():
            response = self._http.send(call.request(self._http), stream=True)
        try:
            if response.is_success:
                call.check_head(response, stream=stream)
                return response
            with call.after_head(response):
                content = response.read()
        except BaseException:
            response.close()
            raise
        response.close()
        raise call.failure(response, content)


class Stream(StreamState):
    """The events of an answer: `with client.stream(…) as events: for event in events: …`.

    Leaving the `with` early closes the connection, which ends the request at the engine. [DONE] is not yielded; the
    agent's `summary` is there after the last event. Raises AnswerBroken where the stream is cut off. Belongs to one
    thread.
    """

    def __init__(self, call: Call, send: Callable[[], httpx.Response]) -> None:
        super().__init__(call)
        self._send = send
        self._pending: deque[Event] = deque()
        self._pieces: Iterator[bytes] | None = None

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        try:
            while not self._pending:
                if self.closed:
                    raise StopIteration
                pieces = self._open()
                with self._call.after_head(self._head(), self._reader):
                    piece = next(pieces, None)
                if piece is None:
                    self._head().close()
                    self.closed = True
                    self._call.check_end(self._reader)
                else:
                    self._pending.extend(self._reader.feed(piece))
        except StopIteration:
            raise
        except BaseException:
            self.close()
            raise
        return self._pending.popleft()

    def close(self) -> None:
        """May be called at any time, more than once."""
        self.closed = True
        self._pending.clear()
        if self._response is not None:
            self._response.close()

    def __del__(self) -> None:
        # A loop that was left without `with` must not keep the engine busy.
        if getattr(self, "_response", None) is not None and not self.closed:
            with contextlib.suppress(Exception):
                self.close()

    def _open(self) -> Iterator[bytes]:
        if self._pieces is None:
            if self.closed:
                raise RuntimeError("the stream was closed before it was opened")
            self._response = self._send()
            self._pieces = self._response.iter_bytes()
        return self._pieces
