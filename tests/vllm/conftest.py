"""Tests of the plugin inside real vLLM servers. VLLM_PYTHON names the python that has vLLM and skerry; without it they
are skipped. Servers start one after another: each takes a minute or two on two cores."""

import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "agent")]


def pytest_configure(config):
    config.addinivalue_line("markers", "vllm: starts vLLM servers; needs VLLM_PYTHON")


def pytest_collection_modifyitems(items):
    for item in items:
        if str(item.path).startswith(HERE):
            item.add_marker(pytest.mark.vllm)
            if "VLLM_PYTHON" not in os.environ:
                item.add_marker(pytest.mark.skip(reason="VLLM_PYTHON is not set"))


@pytest.fixture(scope="session")
def python():
    return os.environ["VLLM_PYTHON"]


@pytest.fixture(scope="session")
def models(python, tmp_path_factory):
    """A folder with the tiny models."""
    folder = tmp_path_factory.mktemp("models")
    subprocess.run([python, os.path.join(HERE, "tiny_models.py"), str(folder), "tied", "moe"], check=True)
    return folder
