"""A run that is about to make its first skip and anchor, of a random small model; the operations that break there: the
publish that makes both, gc, a fork, a reader that starts from the anchor."""

import json
import os
import shutil

import board_files
import operations
from checkpoint_files import assert_same_files, files_of
from failpoints import STEPS
from operations import IN_PLACE, PULL, STORE, FreshPull, Operation, Publish
from program import KILLED, skerry
from random_model import RandomModel

SEEDS = [1, 2, 3]
ANCHOR = 8  # the version that gets an anchor and a skip from version 0
PUBLISH = ["publish.skip_stored", *operations.PUBLISH, *(name for name in STEPS if name.startswith("anchor."))]
GC = [name for name in STEPS if name.startswith("gc.")]
FORK = [name for name in STEPS if name.startswith("fork.")]
SWAP = [name for name in STORE if name.startswith("store.cas_")]


def writer(number):
    """That it is this one of two that publish version 8 together."""
    return ["--version", 8, "--writer", f"{number}/2", "--attempt", "first", "--wait", 10]


class LongRun:
    """Versions 0 … 10, and the places from which operations start: boards on which a killed publish left another
    version 7, each with an island at version 3."""

    def __init__(self, directory, seed, boards=True):
        model = RandomModel(seed)
        self.ckpt = {n: model.write(directory / f"v{n}", n) for n in range(11)}
        self.files = {n: files_of(path) for n, path in self.ckpt.items()}
        assert len({json.dumps(files) for files in self.files.values()}) == len(self.files)
        self.places = directory / "places"
        if boards:
            self._make_boards()

    def _make_boards(self):
        at7 = self.places / "board at 7"
        skerry("init", at7 / "b", "--run", "r", "--base", self.ckpt[0])
        self._publish(at7, [1, 2, 3])
        skerry("pull", at7 / "b", "--run", "r", "-o", at7 / "island")
        self._publish(at7, [4, 5, 6])
        skerry(*self._command(at7, 9), failpoints="publish.manifest_stored:kill", expect=KILLED)
        self._publish(at7, [7])
        another = self.places / "board at 7 with the part of another writer"
        shutil.copytree(at7, another)
        other = self._command(another, 8, state="s1", more=writer(1))
        assert skerry(*other, failpoints="publish.part_announced:kill", expect=None).killed
        at9 = self.places / "board at 9"
        shutil.copytree(at7, at9)
        self._publish(at9, [8, 9])

    def _publish(self, place, versions):
        for n in versions:
            skerry(*self._command(place, n))

    def _command(self, place, version, state="s", more=()):
        return ["publish", place / "b", self.ckpt[version], "--run", "r", "--state", place / state, *more]


def sweep_leftovers(board):
    """What gc does a day later."""
    for path in board.rglob(".tmp-*"):
        os.utime(path, (0, 0))
    skerry("gc", board, "--keep", 1000, "--grace", 0)
    assert not list(board.rglob(".tmp-*"))


class PublishOfSkipAndAnchor(Publish):
    start, passes = "board at 7", PUBLISH + STORE + IN_PLACE
    old, new, then = 7, 8, 9

    def check_done(self, place, world):
        super().check_done(place, world)
        assert [edge["kind"] for edge in board_files.walk(place / "b", "r")[1]["edges"]] == ["delta", "skip"]
        sweep_leftovers(place / "b")
        self.check_anchor(board_files.walk(place / "b", "r")[0], board_files.nameless_objects(place / "b", "r"))
        for reader in ("fresh", "island"):
            skerry("pull", place / "b", "--run", "r", "-o", place / reader)
            assert_same_files(place / reader, world.files[self.then])

    def check_anchor(self, newest, nameless):
        assert newest["anchors"][0]["version"] == ANCHOR
        assert not nameless, nameless


class PublishThatMayLackItsAnchor(PublishOfSkipAndAnchor):
    """For failures after which the publish goes through all the same, with a warning."""

    def check_anchor(self, newest, nameless):
        """What was begun of an anchor stays until there is a newer one: its writer may still be at work."""
        if newest["anchors"][0]["version"] == ANCHOR:
            assert not nameless, nameless
        assert all(key.startswith(f"runs/r/anchors/{ANCHOR:09d}/") for key in nameless), nameless


class PublishByTwoWriters(PublishThatMayLackItsAnchor):
    """The first of two, when the other has put its part on the board. Who asks for a version by its number after it is
    out gets no anchor."""

    start, passes = "board at 7 with the part of another writer", ["publish.part_announced", *PUBLISH, *STORE]

    def prepare(self, place):
        """The others' receipts go once the version is out."""
        super().prepare(place)
        self.before = {key: sha256 for key, sha256 in self.before.items() if "/parts/" not in key}

    def command(self, place, world):
        return [*super().command(place, world), *writer(0)]

    def check_done(self, place, world):
        super().check_done(place, world)
        delta = board_files.walk(place / "b", "r")[1]["edges"][0]
        assert len(delta["objects"]) == 2 and all(part["tensors"] for part in delta["objects"])


class Collect(Operation):
    """Version 9, its anchor 8 and what is between them stay; the island at 3 loses its way."""

    start, passes = "board at 9", GC + SWAP

    def prepare(self, place):
        self.head = board_files.head_path(place / "b", "r").read_bytes()

    def command(self, place, world):
        return ["gc", place / "b", "--keep", 1, "--grace", 0]

    def check_broken(self, place, world):
        assert board_files.head_path(place / "b", "r").read_bytes() == self.head
        board_files.walk(place / "b", "r", collected=True)
        for reader in ("fresh", "island"):
            skerry("pull", place / "b", "--run", "r", "-o", place / reader)
            assert_same_files(place / reader, world.files[9])

    def check_done(self, place, world):
        assert len(board_files.walk(place / "b", "r", collected=True)) == 2
        nameless = board_files.nameless_objects(place / "b", "r", collected=True)
        assert not nameless, nameless
        assert {path.name for path in (place / "b" / "runs" / "r" / "anchors").iterdir()} == {f"{ANCHOR:09d}"}
        assert skerry("gc", place / "b", "--keep", 1, "--grace", 0, "--json").json["runs"][0]["keys"] == []
        self.check_broken(place, world)
        skerry("publish", place / "b", world.ckpt[10], "--run", "r", "--state", place / "s")
        for reader in ("fresh", "island", "another"):
            skerry("pull", place / "b", "--run", "r", "-o", place / reader)
            assert_same_files(place / reader, world.files[10])


class Fork(Operation):
    start, passes = "board at 9", FORK + STORE

    def prepare(self, place):
        self.before = board_files.immutable_objects(place / "b")

    def command(self, place, world):
        return ["fork", place / "b", "--run", "f", "--from", "r", "--version", ANCHOR]

    def check_broken(self, place, world):
        board_files.assert_nothing_lost(self.before, place / "b")
        assert board_files.walk(place / "b", "r")[0]["version"] == 9
        if board_files.head_path(place / "b", "f").exists():
            (manifest,) = board_files.walk(place / "b", "f")
            assert (manifest["fork"]["run"], manifest["fork"]["version"]) == ("r", ANCHOR)
            skerry("pull", place / "b", "--run", "f", "-o", place / "new")
            assert_same_files(place / "new", world.files[ANCHOR])

    def check_done(self, place, world):
        self.check_broken(place, world)
        skerry("publish", place / "b", world.ckpt[10], "--run", "f", "--state", place / "other")
        sweep_leftovers(place / "b")
        nameless = board_files.nameless_objects(place / "b", "f")
        assert not nameless, nameless
        for reader in ("fresh", "new"):
            skerry("pull", place / "b", "--run", "f", "-o", place / reader)
            assert_same_files(place / reader, world.files[10])


class PullFromTheAnchor(FreshPull):
    start, passes = "board at 9", [*PULL, "pull.part_filled", *IN_PLACE]
    new = 9


OPERATIONS = [PublishOfSkipAndAnchor, PublishByTwoWriters, Collect, Fork, PullFromTheAnchor]
