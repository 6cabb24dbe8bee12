"""Several islands as one: each request goes to the least busy, and elsewhere where that one can't answer it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from skerry.client import Answer, Client
from skerry.client.errors import (
    AgentUnreachable,
    AnswerBroken,
    EngineTimeout,
    EngineUnavailable,
    RequestFailed,
    WeightVersionNotReady,
)
from skerry.errors import Invalid, Unavailable

Agents = str | Sequence[str] | Callable[[], Sequence[str]]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 2.0  # seconds between two rounds over all islands
_FIRST_REST, _LONGEST_REST = 1.0, 30.0  # seconds for which an island that failed is asked last

# An island whose machine is gone sends no word of it: so a request to it ends after 5 + 3 x 5 s.
_KEEPALIVE: list[tuple[int, int, int]] = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)] + [
    (socket.IPPROTO_TCP, getattr(socket, name), value)
    for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 20000))
    if hasattr(socket, name)
]


class NoIsland(Unavailable):
    """No island answered in time. `errors`: what the last try of each failed by."""

    errors: dict[str, str]


@dataclass
class _Island:
    client: Client
    running: int = 0
    failures: int = 0  # in a row
    rests_until: float = 0.0
    used: int = 0  # when it was last asked, counted in requests


@dataclass(frozen=True)
class Sent:
    """An answer, and how it came about."""

    answer: Answer
    agent: str
    seconds: float
    attempts: int
    """Islands that were asked, this one included."""


@dataclass
class _Search:
    """The tries of one request."""

    deadline: float
    attempts: int = 0
    round: int = 0
    refused: set[str] = field(default_factory=set)  # in this round
    errors: dict[str, str] = field(default_factory=dict)


class Fleet:
    """`agents`: URLs, or a function that gives those of the moment. Thread-safe.

    `hold`: seconds that an agent may hold a request for its version, once every island has refused it. `timeout`:
    seconds without a byte of an engine.
    """

    def __init__(
        self,
        agents: Agents,
        *,
        hold: float = 2.0,
        timeout: float = 600.0,
        headers: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._agents: Callable[[], Sequence[str]]
        if callable(agents):
            self._agents = agents
        else:
            fixed = (agents,) if isinstance(agents, str) else tuple(agents)
            if not fixed:
                raise Invalid("agents: no URL is given")
            self._agents = lambda: fixed
        self._hold, self._timeout, self._headers = hold, timeout, dict(headers or {})
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()
        self._islands: dict[str, _Island] = {}
        self._requests = 0
        transport = httpx.HTTPTransport(limits=httpx.Limits(max_connections=None), socket_options=_KEEPALIVE)
        self._http = httpx.Client(transport=transport, trust_env=False)
        if not callable(agents):
            self.agents()  # checks the URLs

    def agents(self) -> list[str]:
        """Those of the moment, without repeats."""
        found = list(dict.fromkeys(self._agents()))
        with self._lock:
            for url in found:
                if url not in self._islands:
                    try:
                        client = Client(url, timeout=self._timeout, headers=self._headers, http=self._http)
                    except ValueError as error:
                        raise Invalid(f"agents: {error}") from None
                    self._islands[url] = _Island(client)
        return found

    def post(
        self,
        path: str,
        body: Callable[[Client, str], Mapping[str, Any]],
        *,
        min_version: int | None,
        deadline: float,
        stop: threading.Event | None = None,
    ) -> Sent:
        """Sends `body(client, url)`, made for the island that gets it, until one answers.

        `deadline`: of `clock`. Raises NoIsland then, or when `stop` is set; at once what the engines say of the request
        itself, and ConstraintNotKept where a URL is no agent's.
        """
        began, search = self._clock(), _Search(deadline)
        while True:
            url = self._next(search)
            if url is None:
                self._pause(search, min_version, stop)
                continue
            island = self._islands[url]
            search.attempts += 1
            hold = self._hold if search.round > 0 and min_version is not None else None
            left = max(0.0, deadline - self._clock())
            try:
                answer = island.client.post(
                    path,
                    body(island.client, url),
                    min_version=min_version,
                    wait=None if hold is None else min(hold, left),
                )
            except _ELSEWHERE as error:
                self._refused(search, url, error)
            except RequestFailed as error:
                if error.status < 500 and error.status not in _TOO_BUSY:
                    raise
                self._refused(search, url, error)
            else:
                with self._lock:
                    island.failures, island.rests_until = 0, 0.0
                return Sent(answer, url, self._clock() - began, search.attempts)
            finally:
                with self._lock:
                    island.running -= 1

    def close(self) -> None:
        self._http.close()

    def _next(self, search: _Search) -> str | None:
        """The island to ask, counted as running; None where all have refused in this round."""
        now = self._clock()
        found = [url for url in self.agents() if url not in search.refused]
        with self._lock:
            if not found or now >= search.deadline:
                return None
            url = min(found, key=lambda one: self._order(self._islands[one], now))
            self._requests += 1
            island = self._islands[url]
            island.running += 1
            island.used = self._requests
            return url

    @staticmethod
    def _order(island: _Island, now: float) -> tuple[bool, int, int]:
        return island.rests_until > now, island.running, island.used

    def _refused(self, search: _Search, url: str, error: Exception) -> None:
        search.refused.add(url)
        search.errors[url] = str(error)
        if isinstance(error, WeightVersionNotReady):
            return  # it is behind, which says nothing against it
        with self._lock:
            island = self._islands[url]
            rest = min(_FIRST_REST * 2 ** min(island.failures, 16), _LONGEST_REST)
            island.failures += 1
            island.rests_until = self._clock() + rest

    def _pause(self, search: _Search, min_version: int | None, stop: threading.Event | None) -> None:
        """Between two rounds. Raises NoIsland when there is to be no other."""
        left = search.deadline - self._clock()
        if left <= 0 or (stop is not None and stop.is_set()):
            wanted = "" if min_version is None else f" with version {min_version} or newer"
            told = "; ".join(f"{url}: {what}" for url, what in search.errors.items()) or "there is none"
            error = NoIsland(f"no island{wanted} answered in time: {told}")
            error.errors = search.errors
            raise error
        self._sleep(min(left, _FIRST_PAUSE * 2 ** min(search.round, 16), _LONGEST_PAUSE))
        search.round += 1
        search.refused.clear()


_TOO_BUSY = (408, 429)
_ELSEWHERE = (WeightVersionNotReady, EngineUnavailable, EngineTimeout, AgentUnreachable, AnswerBroken)
