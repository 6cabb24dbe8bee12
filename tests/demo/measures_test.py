"""The figures of the report, from a run that never was."""

import dataclasses

import made_up
import pytest
from loop.measures import measure


@pytest.fixture
def figures():
    return measure(made_up.history(), made_up.islands(), made_up.WAY)


def arrivals(figures, island):
    return {v.version: a for v in figures.versions for a in v.arrivals if a.island == island}


def test_the_way_takes_the_bytes_over_the_rate_and_the_round_trips():
    assert made_up.WAY.seconds(100_000, 3) == pytest.approx(0.04 + 0.12)


def test_steps_are_divided_into_sampling_learning_and_the_call_that_publishes(figures):
    first = figures.steps[0]
    assert (first.sampling, first.learning, first.publish_call) == (10.0, 10.0, 0.5)
    assert (first.step, first.version, first.reward) == (1, 1, 0.1)


def test_a_version_arrives_where_an_island_was_ready_when_it_was_published(figures):
    assert set(arrivals(figures, "north")) == {1, 2, 3}
    assert set(arrivals(figures, "south")) == {1}
    assert set(arrivals(figures, "west")) == {3}


def test_an_arrival_has_the_updates_own_figures(figures):
    arrival = arrivals(figures, "north")[2]
    assert arrival.live == pytest.approx(2.0)
    assert arrival.round_trips == 3
    assert arrival.way == pytest.approx(0.16)
    assert arrival.work == pytest.approx(1.0 + 0.6)
    assert arrival.bound == pytest.approx(1.5 * 0.16 + 1.6 + 0.05)
    assert (arrival.wire_patch_bytes, arrival.wire_described_bytes) == (made_up.PATCH + 500, 2_000)


def test_a_new_connection_and_the_wake_up_are_round_trips_too():
    north = made_up.north()
    north.board[-1].opened = True
    north.requests.append(dataclasses.replace(made_up.answer(321.1, None, None), target="/v1/skerry/wake", opened=True))
    found = measure(made_up.history(), [north], made_up.WAY)
    assert arrivals(found, "north")[3].round_trips == 3 + 1 + 2


def test_a_version_that_was_passed_over_is_live_with_the_newer_one():
    north = made_up.north()
    del north.updates[2]
    found = measure(made_up.history(), [north], made_up.WAY)
    assert arrivals(found, "north")[2].with_version == 3
    assert arrivals(found, "north")[2].live == pytest.approx(102.0)


def test_requests_are_as_far_behind_as_the_newest_version_out_when_they_were_asked(figures):
    assert [(r.version_start, r.head, r.behind) for r in figures.requests if r.island == "north"] == [
        (0, 0, 0),
        (1, 1, 0),
        (2, 2, 0),
    ]
    late = made_up.north()
    late.requests = [made_up.answer(222.0, 1, 1), made_up.answer(220.9, 1, 1)]
    found = measure(made_up.history(), [late], made_up.WAY)
    assert [r.behind for r in found.requests] == [1, 0]


def test_bytes_of_the_whole_model_belong_to_the_joining(figures):
    assert [(i.whole_model_bytes, i.whole_model_bytes_later) for i in figures.islands] == [(made_up.CHECKPOINT, 0)] * 3
    again = made_up.north()
    again.board.append(made_up.fetched("anchors/000000002/part-000-0123456789abcdef.skerry", 250.0, 5_000))
    (found,) = measure(made_up.history(), [again], made_up.WAY).islands
    assert found.whole_model_bytes_later == 5_000


def test_versions_are_compared_by_files_and_by_digest(figures):
    north = figures.islands[0]
    assert (north.files_equal, north.digests_equal, north.files_not_read, north.different) == (4, 3, 0, [])
    damaged = made_up.north()
    damaged.updates[1].files = {"model.safetensors": "something else"}
    damaged.updates[2].model_digest = "something else"
    damaged.updates[3].files = None
    (found,) = measure(made_up.history(), [damaged], made_up.WAY).islands
    assert (found.different, found.files_not_read) == ([1, 2], 1)


def test_the_first_load_of_the_whole_model_is_no_pause_of_an_update(figures):
    assert [version for version, _ in figures.islands[0].pauses] == [1, 2, 3]


def test_what_was_refused_before_the_island_was_ready_is_counted(figures):
    assert [(i.name, i.refused_before_ready, i.answers) for i in figures.islands] == [
        ("north", 1, 3),
        ("south", 0, 1),
        ("west", 1, 1),
    ]
