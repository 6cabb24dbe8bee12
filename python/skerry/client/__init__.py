"""Requests by weight version, to engines behind a Skerry agent. docs/client.md has examples, docs/proxy.md the
protocol.

`Client` and `AsyncClient` need httpx: `pip install 'skerry[client]'`. Everything else here works without it, for users
of other clients: `constraint_headers` makes the headers of a request, `stamps` reads them out of an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skerry.client.answer import Answer
from skerry.client.constraint import constraint_headers
from skerry.client.errors import (
    AgentUnreachable,
    AnswerBroken,
    ConstraintNotKept,
    EngineTimeout,
    EngineUnavailable,
    Forbidden,
    InvalidRequest,
    ProtocolError,
    RequestFailed,
    SkerryError,
    TooLarge,
    WeightVersionNotReady,
)
from skerry.client.events import Event, Summary
from skerry.client.stamps import Span, Stamps, stamps

if TYPE_CHECKING:
    from skerry.client.async_client import AsyncClient, AsyncStream
    from skerry.client.sync_client import Client, Stream

__all__ = [
    "AgentUnreachable",
    "Answer",
    "AnswerBroken",
    "AsyncClient",
    "AsyncStream",
    "Client",
    "ConstraintNotKept",
    "EngineTimeout",
    "EngineUnavailable",
    "Event",
    "Forbidden",
    "InvalidRequest",
    "ProtocolError",
    "RequestFailed",
    "SkerryError",
    "Span",
    "Stamps",
    "Stream",
    "Summary",
    "TooLarge",
    "WeightVersionNotReady",
    "constraint_headers",
    "stamps",
]

_NEED_HTTPX = {
    "Client": "sync_client",
    "Stream": "sync_client",
    "AsyncClient": "async_client",
    "AsyncStream": "async_client",
}


def __getattr__(name: str) -> Any:
    """Imports what needs httpx when it is first asked for."""
    if name not in _NEED_HTTPX:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    try:
        module = importlib.import_module(f"skerry.client.{_NEED_HTTPX[name]}")
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        raise ImportError(f"skerry.client.{name} needs httpx: pip install 'skerry[client]'", name="httpx") from error
    globals()[name] = getattr(module, name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
