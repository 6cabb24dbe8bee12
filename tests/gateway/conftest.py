"""A gateway before islands: agents with stand-ins for engines, or with recording engines. The fixtures are those of
tests/proxy and tests/agent."""

import importlib.util
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / folder) for folder in ("proxy", "agent"))]

_spec = importlib.util.spec_from_file_location("proxy_fixtures", HERE.parent / "proxy" / "conftest.py")
_fixtures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_fixtures)
agent, engine, models, trained, trainer, recording = (
    _fixtures.agent, _fixtures.engine, _fixtures.models, _fixtures.trained, _fixtures.trainer, _fixtures.recording,
)  # fmt: skip

from gateway_process import TOKEN, gateways  # noqa: E402


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "fleet-token"
    path.write_text(TOKEN + "\n")
    return path


@pytest.fixture
def gateway(tmp_path, token_file):
    """gateway(option, value, …): a running one, at which islands can register."""
    with gateways() as begin:
        yield lambda *options: begin(tmp_path, "--token-file", token_file, *options)


@pytest.fixture
def island(agent, trainer, tmp_path, token_file):
    """island(engine, gateway=…, options=(…)): an agent with a state directory of its own that registers there."""
    count = 0

    def started(*engines, gateway=None, options=(), **how):
        nonlocal count
        count += 1
        more = ("--gateway", gateway.url, "--gateway-token-file", token_file) if gateway else ()
        return agent(trainer, *engines, state=tmp_path / f"island-{count}", options=(*more, *options), **how)

    return started
