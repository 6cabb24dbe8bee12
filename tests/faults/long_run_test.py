"""Kills and full disks in what a long run does beside publishing deltas: skips, anchors, gc, forks, readers that start
from an anchor; kills at failpoints on several random models."""

import errno

import pytest

from failpoints import KILLED_CALLS
from long_run import OPERATIONS, SEEDS, LongRun, PublishThatMayLackItsAnchor
from operations import sweep_errors, sweep_kills


@pytest.fixture(scope="module", params=SEEDS, ids=lambda seed: f"model {seed}")
def run(request, tmp_path_factory):
    return LongRun(tmp_path_factory.mktemp("run"), request.param)


@pytest.fixture(scope="module")
def one_run(tmp_path_factory):
    return LongRun(tmp_path_factory.mktemp("run"), SEEDS[0])


@pytest.fixture(scope="module")
def kills(summary):
    """Counts them."""
    counted = []
    yield counted
    summary.append(f"kills in publishes with skip and anchor, gc, fork, pulls from an anchor: {sum(counted)}")


@pytest.mark.parametrize(
    ("operation", "failpoint"),
    [(operation, name) for operation in OPERATIONS for name in operation.passes],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_killed_at_a_failpoint_nothing_is_lost_and_the_next_call_goes_on(operation, failpoint, run, kills, tmp_path):
    killed = sweep_kills(operation(), failpoint, run, tmp_path)
    assert killed > 0, f"{failpoint} was not passed"
    kills.append(killed)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
@pytest.mark.parametrize("call", KILLED_CALLS)
def test_killed_at_a_system_call_nothing_is_lost_and_the_next_call_goes_on(operation, call, one_run, kills, tmp_path):
    kills.append(sweep_kills(operation(), call, one_run, tmp_path))


@pytest.mark.parametrize(
    "operation",
    [PublishThatMayLackItsAnchor, *OPERATIONS[2:]],
    ids=lambda operation: operation.__name__,
)
def test_a_disk_that_is_full_at_any_write_harms_nothing_and_the_next_call_goes_on(operation, one_run, tmp_path):
    assert sweep_errors(operation(), "file.write", f"errno={errno.ENOSPC}", one_run, tmp_path) > 0
