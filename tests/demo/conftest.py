"""Tests of what ./demo is made of: examples/ is importable, and records of a run that never was."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "examples"), str(Path(__file__).parent)]


@pytest.fixture
def links():
    """The loop that links run in."""
    from loop.link import LinkLoop

    with LinkLoop() as loop:
        yield loop
