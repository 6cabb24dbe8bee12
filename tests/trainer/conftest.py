"""Real trainers: TRL's, in processes of their own. VLLM_PYTHON names the python that has TRL, vLLM and skerry;
without it the tests are skipped.
"""

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "agent"), str(HERE.parent / "vllm")]


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents and "VLLM_PYTHON" not in os.environ:
            item.add_marker(pytest.mark.skip(reason="VLLM_PYTHON is not set"))


@pytest.fixture(scope="session")
def python():
    return os.environ["VLLM_PYTHON"]
