"""One request over all its tries, without sending it: what the two clients have in common."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from skerry.client.answer import Answer
from skerry.client.errors import (
    AgentUnreachable,
    AnswerBroken,
    ConstraintNotKept,
    ProtocolError,
    RequestFailed,
    failure,
)
from skerry.client.events import EventReader
from skerry.client.options import Options
from skerry.client.retry import Retries
from skerry.client.stamps import Stamps, header_stamps

STATUS_PATH = "/v1/skerry/status"
CONNECT_TIMEOUT = 10.0  # seconds
_AGENTS_OWN = ("/healthz", "/readyz", "/metrics", "/v1/skerry/")
# Mistakes of the caller's, not of the network's.
_OWN_MISTAKES = (httpx.LocalProtocolError, httpx.UnsupportedProtocol)


class Call:
    """A request with its options, retries and checks. Not thread-safe; for one call.

    `body`: bytes are sent as they are, None sends none, anything else as JSON.
    """

    def __init__(self, base_url: str, method: str, path: str, body: Any, options: Options) -> None:
        self.method, self.path = method, path if path.startswith("/") else f"/{path}"
        if options.retry_transport and options.patience is None:
            raise ValueError("retry_transport needs wait or deadline: seconds in which to try again")
        self._url = base_url + self.path
        self._options = options
        self._constraint = options.constraint
        self._stamped = not self.path.startswith(_AGENTS_OWN)
        self._content = body
        self._headers = {"Accept-Encoding": "identity"}  # an agent can't stamp a compressed body
        if body is not None and not isinstance(body, bytes):
            self._content = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
            self._headers["Content-Type"] = "application/json"
        self._held = isinstance(body, Mapping) and "weight_version" in body
        self._retries = Retries(options.patience, transport=options.retry_transport)

    def request(self, http: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """The next try. The agent is asked to hold it no longer than the patience lasts."""
        self._retries.begin_try()
        wait = self._options.wait if self._constraint.pinned or self._held else None
        left = self._retries.left()
        if wait is not None and left is not None:
            wait = min(wait, left)
        headers = dict(self._headers)
        if self._stamped:
            constraint = dataclasses.replace(self._constraint, wait=wait)
            headers.update(constraint.headers())
        headers.update(self._options.headers)
        read = self._options.timeout + (wait or 0.0)
        return http.build_request(
            self.method,
            self._url,
            content=self._content,
            headers=headers,
            timeout=httpx.Timeout(read, connect=min(CONNECT_TIMEOUT, self._options.timeout), pool=None),
        )

    def pause(self, error: BaseException) -> float | None:
        """Seconds before the next try; None: `error` is final, and has the number of tries."""
        if not isinstance(error, (RequestFailed, AgentUnreachable)):
            return None
        error.attempts = self._retries.attempts
        return self._retries.pause(error)

    def check_head(self, response: httpx.Response, *, stream: bool = False) -> None:
        """Raises for a successful answer that is not what was asked for."""
        kind = response.headers.get("content-type", "")
        if stream and not kind.lower().startswith("text/event-stream"):
            raise ProtocolError(f"{self.path} answers {kind or 'without a type'}: no stream of events")
        if self._stamped and self._constraint.pinned:
            self._check(header_stamps(response.headers))

    def failure(self, response: httpx.Response, content: bytes) -> RequestFailed:
        return failure(response.status_code, response.headers, content)

    def answer(self, response: httpx.Response, content: bytes) -> Answer:
        """Raises ConstraintNotKept for one whose end is another version than `exact_version`."""
        made = Answer(response.status_code, dict(response.headers), content, self._retries.attempts)
        if self._stamped and self._constraint.exact_version is not None:
            self._check(made.stamps)
        return made

    def check_end(self, reader: EventReader) -> None:
        """Of a stream that has ended."""
        if self._constraint.exact_version is not None and reader.summary is not None:
            self._check(Stamps(version_start=reader.summary.version_start, version_end=reader.summary.version_end))

    def _check(self, found: Stamps) -> None:
        start, end = found.version_start, found.version_end
        least, exact = self._constraint.min_version, self._constraint.exact_version
        if start is None:
            raise ConstraintNotKept(
                f"{self.path}: the answer has no Skerry-Version-Start, so nobody has looked at the version that was "
                "asked for: is the base URL that of an engine, not of the agent?"
            )
        if least is not None and start < least:
            raise ConstraintNotKept(f"{self.path}: min_version {least} was asked for, the answer begins on {start}")
        if exact is not None and (start != exact or end not in (None, exact)):
            raise ConstraintNotKept(
                f"{self.path}: exact_version {exact} was asked for, {start} to {end} made the answer"
            )

    @contextlib.contextmanager
    def until_head(self) -> Iterator[None]:
        """Turns httpx's errors before an answer's head into AgentUnreachable."""
        try:
            yield
        except _OWN_MISTAKES:
            raise
        except httpx.RequestError as error:
            late = isinstance(error, httpx.TimeoutException)
            raise AgentUnreachable(f"{self.method} {self._url}: {_told(error)}", timed_out=late) from error

    @contextlib.contextmanager
    def after_head(self, response: httpx.Response, reader: EventReader | None = None) -> Iterator[None]:
        """Turns httpx's errors in the body of an answer into AnswerBroken."""
        try:
            yield
        except httpx.RequestError as error:
            try:
                head = header_stamps(response.headers)
            except ProtocolError:
                head = Stamps()
            came = "" if reader is None else f" after {reader.count} events"
            raise AnswerBroken(
                f"{self.method} {self._url}: the answer broke off{came}: {_told(error)}",
                events=reader.count if reader else 0,
                last_version=reader.last_version if reader else None,
                version_start=head.version_start,
                run=head.run,
                timed_out=isinstance(error, httpx.TimeoutException),
            ) from error


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def with_stream(body: Mapping[str, Any]) -> dict[str, Any]:
    """A body that asks for events."""
    return {**body, "stream": True}


def without_stream(body: Mapping[str, Any]) -> Mapping[str, Any]:
    if body.get("stream"):
        raise ValueError("stream=True: use stream(path, body)")
    return body


def checked_base_url(base_url: str) -> str:
    """Without the slash and the `/v1` that OpenAI's clients have at its end."""
    url = httpx.URL(str(base_url))
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"base_url {base_url!r}: http://HOST:PORT is expected")
    return str(base_url).rstrip("/").removesuffix("/v1").rstrip("/")
