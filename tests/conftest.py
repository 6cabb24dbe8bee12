"""What all the tests share: where the helpers and temporary files are, a private cache, and lines for the summary."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "e2e"))

MEMORY = Path("/dev/shm")
MEMORY_NEEDED = 2 << 30

_lines = []


def pytest_configure(config):
    """Temporary files go to memory where the machine has enough of it: the tests make the program sync files thousands
    of times. A given --basetemp wins."""
    usable = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MEMORY_NEEDED
    config.addinivalue_line("markers", "slow: takes minutes; runs only with -m slow")
    config.skerry_temporary = None
    if config.option.basetemp is None and usable:
        config.skerry_temporary = tempfile.mkdtemp(prefix="skerry-tests-", dir=MEMORY)
        config.option.basetemp = config.skerry_temporary


def pytest_collection_modifyitems(config, items):
    """Without -m, what is slow is left out."""
    if config.option.markexpr:
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


def pytest_sessionfinish(session, exitstatus):
    temporary = session.config.skerry_temporary
    if temporary is None:
        return
    if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        shutil.rmtree(temporary, ignore_errors=True)
    else:
        _lines.append(f"the files of this run are kept in {temporary}")


@pytest.fixture(autouse=True, scope="session")
def private_cache(tmp_path_factory):
    """Publishers keep their snapshots below the user's cache folder unless they are told otherwise."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def disk_dir():
    """An empty directory on disk, for files that are too big for memory."""
    directory = Path(tempfile.mkdtemp(prefix="skerry-tests-"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def summary():
    """A list of lines that are printed at the end."""
    return _lines


def pytest_terminal_summary(terminalreporter):
    if _lines:
        terminalreporter.section("measured")
        for line in _lines:
            terminalreporter.write_line(line)
