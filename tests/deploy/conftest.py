"""The fixtures of tests/agent: a trainer, and models."""

import importlib.util
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / folder) for folder in ("agent", "engines"))]

_spec = importlib.util.spec_from_file_location("agent_fixtures", HERE.parent / "agent" / "conftest.py")
_fixtures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_fixtures)
models, trained, trainer = _fixtures.models, _fixtures.trained, _fixtures.trainer
