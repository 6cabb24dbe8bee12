"""What the tests share: the command; for skerry.client, a scripted agent, and the two clients called alike."""

import asyncio
import os
import sysconfig
from pathlib import Path

import pytest

from scripted_agent import ScriptedAgent

# Before torch is imported: the tests' matrices are small, and on a busy machine its threads wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")


class Both:
    """The sync or the async client, called alike. `pauses`: what it waited between tries, without waiting."""

    def __init__(self, kind):
        self.kind, self.pauses, self.opened = kind, [], []
        self.runner = asyncio.Runner() if kind == "async" else None

    def client(self, agent, **options):
        from skerry.client import AsyncClient, Client

        client = (Client if self.kind == "sync" else AsyncClient)(agent.url, **options)
        client._sleep = self.pauses.append if self.kind == "sync" else self._pause
        self.opened.append(client)
        return client

    async def _pause(self, seconds):
        self.pauses.append(seconds)

    def run(self, result):
        return self.runner.run(result) if asyncio.iscoroutine(result) else result

    def events(self, stream, most=None):
        """The events of a stream, up to `most`; it is left then."""
        if self.kind == "sync":
            with stream:
                return [event for _, event in zip(range(most or 10**9), stream)]

        async def collect():
            found = []
            async with stream:
                async for event in stream:
                    found.append(event)
                    if len(found) == most:
                        break
            return found

        return self.run(collect())

    def close(self):
        for client in self.opened:
            client.close() if self.kind == "sync" else self.run(client.aclose())
        if self.runner:
            self.runner.close()


@pytest.fixture(params=["sync", "async"])
def both(request):
    made = Both(request.param)
    yield made
    made.close()


@pytest.fixture
def start():
    agents = []

    def make(*script):
        agents.append(ScriptedAgent(*script))
        return agents[-1]

    yield make
    for agent in agents:
        agent.close()


@pytest.fixture(scope="session")
def command():
    """The command `skerry` that came with the package."""
    found = Path(sysconfig.get_path("scripts")) / "skerry"
    assert found.is_file(), f"{found} is missing: install the package"
    return found


_lines = []


@pytest.fixture(scope="session")
def summary():
    """A list of lines that are printed at the end."""
    return _lines


def pytest_terminal_summary(terminalreporter):
    if _lines:
        terminalreporter.section("measured")
        for line in _lines:
            terminalreporter.write_line(line)
