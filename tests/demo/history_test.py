"""Reading the trainer's events: as they come, in parts, and what has no place."""

import json

import made_up
import pytest
from event_log import EventReader, EventWriter
from loop.history import History


def test_a_reader_gives_whole_lines_only_and_each_once(tmp_path):
    path = tmp_path / "events.jsonl"
    reader = EventReader(path)
    assert reader.read() == []
    with path.open("a") as file:
        file.write('{"event": "a"}\n{"event": ')
        file.flush()
        assert reader.read() == [{"event": "a"}]
        assert reader.read() == []
        file.write('"b", "n": 1}\n')
        file.flush()
        assert reader.read() == [{"event": "b", "n": 1}]


def test_what_a_writer_writes_a_reader_reads(tmp_path):
    writer, reader = EventWriter(tmp_path / "e"), EventReader(tmp_path / "e")
    writer.write("step", text="two\nlines", number=0.5)
    assert reader.read() == [{"event": "step", "text": "two\nlines", "number": 0.5}]


def test_steps_are_put_together_from_their_events():
    history = made_up.history()
    assert history.ready and len(history.steps) == 3
    assert [step.version for step in history.versions()] == [1, 2, 3]
    assert history.head == 3
    assert history.files_of(2) == made_up.files(2)
    assert history.files_of(0) == history.base_files == made_up.files(0)
    assert history.model_of(3) == "model 3"
    assert history.files_of(4) is history.model_of(4) is None


def test_the_head_at_a_time_is_the_newest_version_that_was_out():
    history = made_up.history()
    assert [history.head_at(time) for time in (0.0, 120.9, 121.0, 250.0, 1e9)] == [0, 0, 1, 2, 3]


def test_a_publish_may_end_in_a_later_step():
    history = made_up.history(1)
    history.add({"event": "began", "step": 2, "time": 200.0})
    history.add({**made_up.published(1, 205.0), "model": "late"})
    assert history.model_of(1) == "late"
    assert history.steps[1].receipt is None


def test_a_step_that_changes_nothing_makes_no_version():
    history = made_up.history(1)
    history.add({"event": "began", "step": 2, "time": 200.0})
    history.add({**made_up.published(1, 221.0), "step": 2, "published": False})
    assert [step.step for step in history.versions()] == [1]
    assert history.head == 1


def test_answers_are_counted_within_a_step():
    history = made_up.history(1)
    assert history.answered == 6
    history.add({"event": "began", "step": 2, "time": 200.0})
    assert history.answered == 0


@pytest.mark.parametrize(
    "event, words",
    [
        ({"event": "what"}, "what is the event 'what'"),
        ({"event": "stepped", "step": 9, "time": 1.0}, "step 9 never began"),
        ({"event": "rewarded", "time": 1.0, "reward": 0, "answer": ""}, "'rewarded' before the first step"),
    ],
)
def test_an_event_without_a_place_is_an_error_that_names_it(event, words):
    with pytest.raises(ValueError, match=words):
        History().add(json.loads(json.dumps(event)))
