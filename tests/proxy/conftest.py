"""An agent as a proxy: before recording engines, or before the stand-ins of tests/engines. Boards, agents and stand-ins
are those of tests/agent."""

import importlib.util
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "agent")]

_spec = importlib.util.spec_from_file_location("agent_fixtures", HERE.parent / "agent" / "conftest.py")
_fixtures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_fixtures)
agent, engine, models, trained, trainer = (
    _fixtures.agent, _fixtures.engine, _fixtures.models, _fixtures.trained, _fixtures.trainer,
)  # fmt: skip

from recording_engine import recording_engines  # noqa: E402


@pytest.fixture
def recording():
    """recording(answer): a running RecordingEngine."""
    with recording_engines() as begin:
        yield begin


@pytest.fixture
def before(agent, trainer):
    """before(engine, *options): an agent that is ready, at version 0, before any HTTP server that has an `upstream`."""

    def started(server, *options, **how):
        made = agent(trainer, "none", options=(*server.upstream, *options), **how)
        made.wait_for_version(0)
        return made

    return started
