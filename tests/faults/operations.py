"""The operations that the fault tests break: where each starts, what readers may see after it broke, what it must have
done when it went through."""

import json
import os
import shutil

import board_files
import small_model
from checkpoint_files import assert_same_files, files_of
from failpoints import STEPS
from program import FAILED, KILLED, OK, skerry

MOST_PASSAGES = 120
IN_PLACE = [name for name in STEPS if name.startswith("apply.")]
UNDO = [name for name in STEPS if name.startswith("undo.")]
# A rollback writes the same kinds of files, in the same order, but decodes no patch.
ROLLBACK = [name for name in STEPS if name.startswith("rollback.")] + [
    name for name in [*IN_PLACE, *UNDO] if name not in ("apply.journal_begun", "apply.journal_written", "undo.begun")
]
REBUILD = [name for name in STEPS if name.startswith("rebuild.")]
INIT = [name for name in STEPS if name.startswith("init.")]
NOT_BY_EACH_PUBLISH = ["publish.skip_stored", "publish.part_announced"]
PUBLISH = [name for name in STEPS if name.startswith("publish.") and name not in NOT_BY_EACH_PUBLISH]
STORE = [name for name in STEPS if name.startswith("store.")]
PULL = [name for name in STEPS if name.startswith("pull.") and name != "pull.part_filled"]


class World:
    """Checkpoints v0 … v3 (v3r: version 3 in three shards), patches, a board at v1 and what stands around it."""

    def __init__(self, directory):
        self.ckpt = {n: small_model.write(directory / f"v{n}", n) for n in range(4)}
        self.ckpt["3r"] = small_model.write(directory / "v3r", 3, shards=3)
        self.files = {name: files_of(path) for name, path in self.ckpt.items()}
        self.patch = {}
        foreign = [small_model.write(directory / f"foreign{n}", n) for n in (8, 9)]
        for name, base, new in (("0-1", self.ckpt[0], self.ckpt[1]), ("foreign", *foreign)):
            self.patch[name] = directory / f"{name}.skerry"
            skerry("diff", base, new, "-o", self.patch[name])
        self.places = directory / "places"  # what an operation starts from, a folder each
        self.places.mkdir()

    def place(self, name):
        path = self.places / name
        path.mkdir()
        return path


def make_world(directory):
    world = World(directory)

    shutil.copytree(world.ckpt[0], world.place("checkpoint") / "here")

    world.place("nothing")

    at1 = world.place("board at 1")
    skerry("init", at1 / "b", "--run", "r", "--base", world.ckpt[0])
    skerry("publish", at1 / "b", world.ckpt[1], "--run", "r", "--state", at1 / "s")

    at2 = world.place("board at 2, island at 1")
    shutil.copytree(at1, at2, dirs_exist_ok=True)
    skerry("pull", at2 / "b", "--run", "r", "-o", at2 / "island")
    skerry("publish", at2 / "b", world.ckpt[2], "--run", "r", "--state", at2 / "s")

    back = world.place("board at 2, island at 2 with a way back")
    shutil.copytree(at2, back, dirs_exist_ok=True)
    shutil.rmtree(back / "island")
    for version in (0, 1, 2):
        skerry("pull", back / "b", "--run", "r", "-o", back / "island", "--version", version, "--undo", 3)

    at3 = world.place("board at 3 in other shards, island at 1")
    shutil.copytree(at2, at3, dirs_exist_ok=True)
    skerry("publish", at3 / "b", world.ckpt["3r"], "--run", "r", "--state", at3 / "s")
    return world


def only_recover(directory, world):
    """Opens a checkpoint for an apply that is refused: what a crash left is finished or dropped, no more."""
    ran = skerry("apply", directory, world.patch["foreign"], "--in-place", expect=FAILED)
    assert "base digest" in ran.err or "tensors" in ran.err


def assert_is_one_of(directory, world, names):
    there = files_of(directory)
    assert there in [
        world.files[name] for name in names
    ], f"{directory} is none of the versions {names}: {sorted(there)}"
    skerry("verify", directory)
    return next(name for name in names if there == world.files[name])


def assert_no_leftovers(place):
    """After the command went through, what its killed forerunner began is gone."""
    rest = [
        str(path.relative_to(place))
        for path in place.rglob("*")
        if any(mark in path.name for mark in (".tmp-", ".building", ".next", ".part", "journal", "spool"))
    ]
    # A board's temporary files have no owner that could know them dead.
    rest = [path for path in rest if not path.startswith("b/")]
    assert not rest, f"left over: {rest}"


class Operation:
    def prepare(self, place):
        """What is still to be done to the copy of the start."""

    def make_way(self, place):
        """Removes what keeps the same command from running again although it had succeeded."""


class Init(Operation):
    start, passes = "nothing", INIT + STORE

    def command(self, place, world):
        return ["init", place / "b", "--run", "r", "--base", world.ckpt[0]]

    def check_broken(self, place, world):
        if not (place / "b" / "runs" / "r" / "head").exists():
            ran = skerry("head", place / "b", "--run", "r", expect=FAILED)
            assert "no board" in ran.err or "no run" in ran.err
            return
        assert len(board_files.walk(place / "b", "r")) == 1

    def check_done(self, place, world):
        assert len(board_files.walk(place / "b", "r")) == 1
        skerry("pull", place / "b", "--run", "r", "-o", place / "new")
        assert_same_files(place / "new", world.files[0])


class Publish(Operation):
    """By a trainer that has published before: its snapshot moves in place."""

    start, passes = "board at 1", PUBLISH + STORE + IN_PLACE
    old, new, then = 1, 2, 3

    def prepare(self, place):
        self.before = board_files.immutable_objects(place / "b")

    def command(self, place, world):
        return ["publish", place / "b", world.ckpt[self.new], "--run", "r", "--state", place / "s"]

    def check_broken(self, place, world):
        board_files.assert_nothing_lost(self.before, place / "b")
        manifests = board_files.walk(place / "b", "r")
        version = manifests[0]["version"]
        assert version in (self.old, self.old + 1)
        name = self.old if version == self.old else self.new
        skerry("pull", place / "b", "--run", "r", "-o", place / "reader")
        assert_same_files(place / "reader", world.files[name])

    def check_done(self, place, world):
        board_files.assert_nothing_lost(self.before, place / "b")
        assert board_files.walk(place / "b", "r")[0]["version"] == self.old + 1
        # The publisher goes on from what it left, and readers follow.
        skerry("publish", place / "b", world.ckpt[self.then], "--run", "r", "--state", place / "s")
        assert board_files.walk(place / "b", "r")[0]["version"] == self.old + 2
        for version, name in ((self.old + 1, self.new), (self.old + 2, self.then)):
            skerry("pull", place / "b", "--run", "r", "-o", place / "reader", "--version", version)
            assert_same_files(place / "reader", world.files[name])


class FirstPublishOfAnotherTrainer(Publish):
    """Without a snapshot: it is built from the board first."""

    passes = PUBLISH + PULL + IN_PLACE

    def prepare(self, place):
        super().prepare(place)
        shutil.rmtree(place / "s")


class PublishInOtherShards(Publish):
    """Both the layout of the files and, before that, the snapshot change: version 4 follows 3 in other shards."""

    start = "board at 3 in other shards, island at 1"
    passes = [name for name in PUBLISH if name not in ("publish.undo_kept", "publish.snapshot_advanced")]
    passes += REBUILD + PULL
    old, new, then = 3, 2, 1

    def check_broken(self, place, world):
        board_files.assert_nothing_lost(self.before, place / "b")
        version = board_files.walk(place / "b", "r")[0]["version"]
        skerry("pull", place / "b", "--run", "r", "-o", place / "reader")
        assert_same_files(place / "reader", world.files[{3: "3r", 4: 2}[version]])


class FreshPull(Operation):
    start, passes = "board at 2, island at 1", PULL + IN_PLACE
    new = 2

    def prepare(self, place):
        shutil.rmtree(place / "island")

    def command(self, place, world):
        return ["pull", place / "b", "--run", "r", "-o", place / "island"]

    def check_broken(self, place, world):
        if (place / "island").exists():
            assert_is_one_of(place / "island", world, [self.new])

    def check_done(self, place, world):
        assert_same_files(place / "island", world.files[self.new])
        skerry("verify", place / "island")
        assert_no_leftovers(place)


class StepOfAnIsland(Operation):
    start, passes = "board at 2, island at 1", PULL + IN_PLACE
    new = 2

    def command(self, place, world):
        return ["pull", place / "b", "--run", "r", "-o", place / "island"]

    def check_broken(self, place, world):
        only_recover(place / "island", world)
        assert_is_one_of(place / "island", world, [1, self.new])

    def check_done(self, place, world):
        assert_same_files(place / "island", world.files[self.new])
        skerry("verify", place / "island")
        assert_no_leftovers(place)


class StepOfAnIslandWithAWayBack(StepOfAnIsland):
    """And then back over that step, whatever broke."""

    passes = PULL + IN_PLACE + UNDO

    def command(self, place, world):
        return [*super().command(place, world), "--undo", 3]

    def check_done(self, place, world):
        super().check_done(place, world)
        if json.loads((place / "island" / ".skerry" / "state.json").read_text())["version"] == self.new and list(
            (place / "island" / ".skerry" / "undo").glob("*.undo")
        ):
            skerry("rollback", place / "island", "--to", 1)
            assert_same_files(place / "island", world.files[1])


class Rollback(Operation):
    """Over two versions at once."""

    start, passes = "board at 2, island at 2 with a way back", ROLLBACK

    def command(self, place, world):
        return ["rollback", place / "island", "--to", 0]

    def check_broken(self, place, world):
        only_recover(place / "island", world)
        assert_is_one_of(place / "island", world, [2, 0])

    def check_done(self, place, world):
        assert_same_files(place / "island", world.files[0])
        skerry("verify", place / "island")
        assert_no_leftovers(place)
        undo = place / "island" / ".skerry" / "undo"
        assert all(path.suffix == ".undo" for path in undo.iterdir())
        # Forward again, by the log and by the board.
        skerry("rollback", place / "island", "--to", 2)
        assert_same_files(place / "island", world.files[2])
        skerry("rollback", place / "island", "--to", 0)
        skerry("pull", place / "b", "--run", "r", "-o", place / "island")
        assert_same_files(place / "island", world.files[2])


class StepOfAnIslandToOtherShards(StepOfAnIsland):
    start, passes = "board at 3 in other shards, island at 1", PULL + REBUILD + IN_PLACE
    new = "3r"

    def check_broken(self, place, world):
        only_recover(place / "island", world)
        assert_is_one_of(place / "island", world, [1, 2, "3r"])


class ApplyToANewDirectory(Operation):
    start, passes = "checkpoint", REBUILD
    patch, new = "0-1", 1

    def command(self, place, world):
        return ["apply", place / "here", world.patch[self.patch], "-o", place / "new"]

    def check_broken(self, place, world):
        assert_same_files(place / "here", world.files[0])
        if (place / "new").exists():
            assert_is_one_of(place / "new", world, [self.new])

    def make_way(self, place):
        shutil.rmtree(place / "new", ignore_errors=True)

    def check_done(self, place, world):
        assert_same_files(place / "here", world.files[0])
        assert_same_files(place / "new", world.files[self.new])


class ApplyInPlace(Operation):
    start, passes = "checkpoint", IN_PLACE

    def command(self, place, world):
        return ["apply", place / "here", world.patch["0-1"], "--in-place"]

    def check_broken(self, place, world):
        only_recover(place / "here", world)
        assert_is_one_of(place / "here", world, [0, 1])

    def check_done(self, place, world):
        assert_same_files(place / "here", world.files[1])
        skerry("verify", place / "here")
        assert_no_leftovers(place)


class ApplyInPlaceWithStateElsewhere(ApplyInPlace):
    def command(self, place, world):
        return ["apply", place / "here", world.patch["0-1"], "--in-place", "--state", place / "state"]

    def check_broken(self, place, world):
        skerry("apply", place / "here", world.patch["foreign"], "--in-place", "--state", place / "state", expect=FAILED)
        assert_is_one_of(place / "here", world, [0, 1])


class Diff(Operation):
    start, passes = "checkpoint", []

    def command(self, place, world):
        return ["diff", place / "here", world.ckpt[1], "-o", place / "p.skerry"]

    def check_broken(self, place, world):
        assert_same_files(place / "here", world.files[0])
        if (place / "p.skerry").exists():
            skerry("show", place / "p.skerry")

    def check_done(self, place, world):
        assert (place / "p.skerry").read_bytes() == world.patch["0-1"].read_bytes()


OPERATIONS = [
    Init, Publish, FirstPublishOfAnotherTrainer, PublishInOtherShards, FreshPull, StepOfAnIsland,
    StepOfAnIslandWithAWayBack, Rollback, StepOfAnIslandToOtherShards, ApplyToANewDirectory, ApplyInPlace,
    ApplyInPlaceWithStateElsewhere, Diff,
]  # fmt: skip


def start_over(operation, place, world):
    if place.exists():
        shutil.rmtree(place)
    shutil.copytree(world.places / operation.start, place)
    operation.prepare(place)


def check_what_is_left(operation, place, world, tmp_path):
    """What readers see now, on a copy; then the same command once more from just what was left."""
    seen = tmp_path / "seen"
    shutil.copytree(place, seen)
    operation.check_broken(seen, world)
    shutil.rmtree(seen)
    operation.make_way(place)
    skerry(*operation.command(place, world))
    operation.check_done(place, world)


def sweep_kills(operation, failpoint, world, tmp_path):
    """Kills the operation at its 1st, 2nd, … passage of the failpoint until it gets through. Returns their number."""
    place = tmp_path / "place"
    for passage in range(1, MOST_PASSAGES):
        start_over(operation, place, world)
        ran = skerry(*operation.command(place, world), failpoints=f"{failpoint}:kill@{passage}", expect=(OK, KILLED))
        if ran.code == OK:
            operation.check_done(place, world)
            return passage - 1
        check_what_is_left(operation, place, world, tmp_path)
    raise AssertionError(f"{failpoint} is passed more than {MOST_PASSAGES} times")


def sweep_errors(operation, failpoint, action, world, tmp_path):
    """Lets one passage after the other fail. Either the command says so and nothing is broken, or it does without.
    Returns how many there are."""
    place = tmp_path / "place"
    complaint = os.strerror(int(action[6:])) if action.startswith("errno=") else f"failpoint {failpoint}"
    for passage in range(1, MOST_PASSAGES):
        start_over(operation, place, world)
        ran = skerry(
            *operation.command(place, world), failpoints=f"{failpoint}:{action}@{passage}", expect=(OK, FAILED)
        )
        if ran.code == FAILED:
            assert complaint in ran.err and ran.err.count("\n") == 1, ran.err
            check_what_is_left(operation, place, world, tmp_path)
            continue
        operation.check_done(place, world)
        if complaint not in ran.err:  # it did without, or there is no such passage: a kill can't be overlooked
            start_over(operation, place, world)
            ran = skerry(
                *operation.command(place, world), failpoints=f"{failpoint}:kill@{passage}", expect=(OK, KILLED)
            )
            if ran.code == OK:
                return passage - 1
    raise AssertionError(f"{failpoint} is passed more than {MOST_PASSAGES} times")
