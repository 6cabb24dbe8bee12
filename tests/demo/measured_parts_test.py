"""Small parts of the demo."""

import calendar
import os

import made_up
import pytest
from loop.conductor import cores_of_half
from loop.engine import Answer
from loop.final_checks import answer_differences
from loop.island import seconds_of
from loop.panel import equal_files, step_line, update_line


def test_the_agents_times_are_seconds_since_1970():
    assert seconds_of("2026-11-30T15:23:19.148Z") == pytest.approx(
        calendar.timegm((2026, 11, 30, 15, 23, 19)) + 0.148, abs=1e-6
    )
    assert seconds_of("1970-01-01T00:00:01Z") == 1.0


def test_answers_differ_by_a_token_or_by_the_last_bit_of_a_probability():
    fresh = [Answer([1, 2], [-0.5, -0.25]), Answer([3], [-1.0])]
    assert answer_differences("north", fresh, fresh) == []
    assert answer_differences("north", [fresh[0], Answer([4], [-1.0])], fresh) == [
        "north, question 1: tokens [4], a fresh engine [3]"
    ]
    (found,) = answer_differences("north", [Answer([1, 2], [-0.5, -0.25000000000000006]), fresh[1]], fresh)
    assert found.startswith("north, question 0: log probabilities differ by up to 5.55")


def test_engines_have_the_halves_of_the_cores_or_share_the_only_one(monkeypatch):
    for cores, halves in (({3}, ([3], [3])), ({0, 1}, ([0], [1])), ({7, 5, 2}, ([2], [5, 7]))):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: cores)
        assert (cores_of_half(0), cores_of_half(1)) == halves


def test_lines_say_the_figures_of_a_step_and_of_an_update():
    history = made_up.history()
    assert step_line(history.steps[1]) == "step  2  reward +0.200  v2: 0.200 % changed, patch 100.0 kB of 200.0 MB"
    assert update_line("north", made_up.update(2, 222.0), history) == "  north  v2 live after 2.0 s, paused 50 ms"
    assert update_line("north", made_up.update(0, 90.0), history) == "  north  v0 live, paused 50 ms"


def test_files_are_counted_where_both_sides_are_known():
    history, updates = made_up.history(), made_up.north().updates
    assert equal_files(updates, history) == (4, 0)
    updates[1].files, updates[2].files = None, {"model.safetensors": "something else"}
    updates.append(made_up.update(9, 400.0))
    assert equal_files(updates, history) == (2, 1)
