"""What a worker answers, with an update that only pretends."""

import threading

import pytest

from skerry.vllm.replica import Replica


class Fake:
    slices = 1  # calls of prove that it takes

    def __init__(self, label, base, checkpoint, positions):
        self.label, self.base, self.checkpoint, self.whole = label, base, checkpoint, not positions
        self.seconds, self.retired, self.done = {}, [], []

    def _act(self, what):
        self.done.append(what)
        if what in self.checkpoint:
            raise OSError(f"no {what}")

    def prepare(self):
        self._act("prepare")

    def prove(self, seconds):
        self._act("prove")
        return self.done.count("prove") >= self.slices

    def apply(self):
        self._act("apply")

    def verify(self):
        self._act("verify")
        return {"elements": 1}

    def facts(self):
        return {"tensors": 1, "scattered": 2, "reloaded": 3}

    def close(self):
        self._act("close")


@pytest.fixture
def replica():
    return Replica(Fake, {"device": "cpu", "rank": 0, "unsupported": ""})


def prepare(replica, label, base="", checkpoint="dir", positions=""):
    answer = replica.prepare(label, base, checkpoint, positions)
    if replica._preparing:
        replica._preparing[1].join()
    return replica.prepared(label) if answer["ok"] else answer


def load(replica, label, **kwargs):
    assert prepare(replica, label, **kwargs)["ok"]
    return replica.commit(label)


def test_a_worker_names_its_process_and_has_no_label_at_first(replica):
    status = replica.status()
    assert status["ok"] and status["label"] == "" and status["state"] == "idle" and len(status["instance"]) == 16
    assert status["instance"] != Replica(Fake, {}).instance


def test_an_update_goes_from_prepared_to_served_to_verified(replica):
    assert prepare(replica, "r@1")["state"] == "prepared"
    assert replica.status()["prepared"] == "r@1" and replica.status()["label"] == ""
    assert replica.commit("r@1")["scattered"] == 2
    assert replica.verify("r@1")["elements"] == 1
    assert replica.status()["label"] == "r@1" and replica.status()["state"] == "idle"
    update = replica.update
    assert replica.commit("r@1")["ok"] and update.done.count("apply") == 1


def test_the_same_label_prepared_again_is_applied_again(replica):
    load(replica, "r@1")
    load(replica, "r@1")
    assert replica.update.done == ["prepare", "prove", "apply"]


def test_changes_to_other_weights_than_the_served_are_refused_with_both_labels(replica):
    load(replica, "r@1")
    answer = prepare(replica, "r@3", base="r@2", positions="p")
    assert not answer["ok"] and "'r@2'" in answer["error"] and "'r@1'" in answer["error"]
    assert replica.status()["label"] == "r@1"


def test_the_first_load_is_whole(replica):
    assert "whole" in prepare(replica, "r@1", positions="p")["error"]


def test_a_failed_preparation_is_told_and_harmless(replica):
    load(replica, "r@1")
    answer = prepare(replica, "r@2", checkpoint="prepare")
    assert not answer["ok"] and "no prepare" in answer["error"] and answer["state"] == "failed"
    assert not replica.commit("r@2")["ok"]
    assert replica.status()["label"] == "r@1" and replica.commit("r@1")["ok"]


def test_what_was_made_is_proved_by_the_calls_of_the_workers_own_thread():
    threads = []

    class Packed(Fake):
        slices = 3

        def prepare(self):
            threads.append(threading.current_thread())

        def prove(self, seconds):
            assert 0 < seconds < 0.1, "the engine waits meanwhile"
            threads.append(threading.current_thread())
            return super().prove(seconds)

    replica = Replica(Packed, {})
    assert prepare(replica, "r@1")["state"] == "preparing"
    assert not replica.commit("r@1")["ok"], "not all of it has been read back"
    assert replica.prepared("r@1")["state"] == "preparing"
    assert replica.prepared("r@1")["state"] == "prepared"
    assert replica.prepared("r@1")["state"] == "prepared" and len(threads) == 4
    assert threads[0] is not threading.current_thread()
    assert set(threads[1:]) == {threading.current_thread()}
    assert replica.commit("r@1")["ok"]


def test_a_packed_copy_that_is_wrong_is_told_and_harmless(replica):
    load(replica, "r@1")
    answer = prepare(replica, "r@2", checkpoint="prove")
    assert not answer["ok"] and "no prove" in answer["error"] and answer["state"] == "failed"
    assert not replica.commit("r@2")["ok"] and replica.status()["label"] == "r@1"


def test_after_a_failed_switch_only_a_whole_load_leads_out(replica):
    load(replica, "r@1")
    answer = load(replica, "r@2", base="r@1", checkpoint="apply", positions="p")
    assert not answer["ok"] and "uncertain" in answer["error"]
    assert replica.status()["state"] == "uncertain" and replica.status()["label"] == "?"
    assert not replica.commit("r@2")["ok"] and not replica.verify("r@2")["ok"] and not replica.commit("?")["ok"]
    assert not prepare(replica, "r@2", base="r@1", positions="p")["ok"]
    assert load(replica, "r@2")["ok"]
    assert replica.status()["label"] == "r@2" and not replica.status()["uncertain"]


def test_weights_that_are_not_what_they_should_be_make_the_worker_uncertain(replica):
    assert load(replica, "r@1", checkpoint="verify")["ok"]
    assert "no verify" in replica.verify("r@1")["error"]
    assert replica.status()["label"] == "?"


def test_what_can_not_be_moved_is_said_at_once():
    replica = Replica(Fake, {"unsupported": "adapters"})
    assert replica.prepare("r@1", "", "dir", "")["error"] == "adapters"


def test_a_later_preparation_replaces_one_that_is_under_way():
    go, made = threading.Event(), []

    class Slow(Fake):
        def prepare(self):
            made.append(self.label)
            if self.label == "r@1":
                go.wait(60)

    replica = Replica(Slow, {})
    assert replica.prepare("r@1", "", "dir", "")["state"] == "preparing"
    assert replica.prepare("r@2", "", "dir", "")["ok"]
    thread = replica._preparing[1]
    assert not replica.commit("r@2")["ok"] and not replica.prepared("r@1")["ok"]
    go.set()
    thread.join()
    assert replica.prepared("r@2")["state"] == "prepared" and replica.commit("r@2")["ok"]
    assert made[-1] == "r@2" and not replica.prepared("r@1")["ok"]
