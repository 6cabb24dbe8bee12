"""What can go wrong, each with the fields that a caller decides by. All can be pickled and copied."""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Mapping
from typing import Any

from skerry.errors import SkerryError

_LONGEST_EXCERPT = 300  # characters of a foreign error's body in a message


class CallError(SkerryError):
    """Base of what calls of the client raise. `attempts`: how often the request was sent before."""

    attempts: int = 1


class AgentUnreachable(CallError):
    """No answer: the connection failed, or broke or timed out before the answer's head. `timed_out` tells which.

    The engine may have worked on the request all the same.
    """

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class AnswerBroken(CallError):
    """An answer that had begun was cut off. It is never sent again by itself.

    `events`: how many events of the stream had come. `last_version`: the version of the last one.
    `version_start`, `run`: of the answer's head.
    """

    def __init__(
        self,
        message: str,
        *,
        events: int = 0,
        last_version: int | None = None,
        version_start: int | None = None,
        run: str | None = None,
        timed_out: bool = False,
    ) -> None:
        super().__init__(message)
        self.events, self.last_version = events, last_version
        self.version_start, self.run = version_start, run
        self.timed_out = timed_out


class ProtocolError(CallError, ValueError):
    """An answer that is not as docs/proxy.md says."""


class ConstraintNotKept(ProtocolError):
    """A successful answer that does not say that its version is the one asked for.

    Mostly the `base_url` is that of an engine itself.
    """


class RequestFailed(CallError):
    """An answer of another status than 2xx, from the agent or the engine.

    `status`; `type` and `message` of its error object (empty where it has none); `retry_after`: seconds, None where
    not said; `body`: the parsed JSON, else text.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        type: str = "",
        error: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
        body: Any = None,
    ) -> None:
        super().__init__(f"{status} {type}: {message}" if type else f"{status}: {message}")
        self.status, self.type, self.message = status, type, message
        self.retry_after, self.body = retry_after, body
        self._take(error or {})

    def _take(self, error: Mapping[str, Any]) -> None:
        """Fields that one kind of error has besides."""


class WeightVersionNotReady(RequestFailed):
    """409: the engines serve another version.

    `run`; `applied`: what is served (None: nothing known); `wanted`; `constraint`: "min" or "exact".
    """

    def _take(self, error: Mapping[str, Any]) -> None:
        self.run: str | None = error.get("run")
        self.applied: int | None = error.get("applied")
        self.wanted: int | None = error.get("wanted")
        self.constraint: str | None = error.get("constraint")

    @property
    def passed(self) -> bool:
        """The exact version that was wanted is older than what is served: only a rollback could bring it."""
        return (
            self.constraint == "exact"
            and isinstance(self.applied, int)
            and isinstance(self.wanted, int)
            and self.applied > self.wanted
        )


class EngineUnavailable(RequestFailed):
    """503: `type` is `NoEngineInRotation`, `EngineUnreachable`, `TooManyRequests`, or the engine's own."""


class EngineTimeout(RequestFailed):
    """504: the engine sent nothing for the agent's --engine-timeout."""


class InvalidRequest(RequestFailed):
    """400: a malformed constraint or request, by the agent; or what the engine did not like."""


class Forbidden(RequestFailed):
    """403: a control route of the engine, which the agent keeps for itself."""


class TooLarge(RequestFailed):
    """413: the body is larger than the agent's --max-body."""


_BY_STATUS: dict[int, type[RequestFailed]] = {
    400: InvalidRequest,
    403: Forbidden,
    413: TooLarge,
    503: EngineUnavailable,
    504: EngineTimeout,
}


def failure(status: int, headers: Mapping[str, str], content: bytes) -> RequestFailed:
    """The error of an answer of another status than 2xx."""
    text = content.decode("utf-8", "replace")
    try:
        body: Any = json.loads(text)
    except ValueError:
        body = text
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        error = {"message": error} if isinstance(error, str) else {}
    kind = str(error.get("type") or "")
    message = str(error.get("message") or text.strip()[:_LONGEST_EXCERPT] or "no message")
    made = _BY_STATUS.get(status, RequestFailed)
    if status == 409 and kind == "WeightVersionNotReady":
        made = WeightVersionNotReady
    return made(message, status=status, type=kind, error=error, retry_after=_retry_after(headers, error), body=body)


def _retry_after(headers: Mapping[str, str], error: Mapping[str, Any]) -> float | None:
    """Seconds; the finer `retry_after_ms` of the body is preferred."""
    milliseconds = error.get("retry_after_ms")
    if isinstance(milliseconds, (int, float)) and not isinstance(milliseconds, bool) and milliseconds >= 0:
        return milliseconds / 1000
    text = next((value for name, value in headers.items() if name.lower() == "retry-after"), "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    date = email.utils.parsedate_tz(text) if text else None
    return None if date is None else max(0.0, email.utils.mktime_tz(date) - time.time())
