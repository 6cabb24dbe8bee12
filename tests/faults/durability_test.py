"""D7: what must be on disk before what, as the kernel sees it: strace of a publish and of an apply."""

import re
import shutil
import subprocess

import pytest

import board_files
import small_model
from checkpoint_files import assert_same_files, write_checkpoint
from long_run import LongRun
from operations import make_world
from program import BINARY, environment, skerry

CALLS = "fsync,fdatasync,msync,rename,renameat,renameat2,link,linkat,unlink,unlinkat"
CALL = re.compile(r"^\d+ +(\w+)\((.*)\) += 0$")
BEGUN = re.compile(r"^(\d+) +(.*) <unfinished \.\.\.>$")
ENDED = re.compile(r"^(\d+) +<\.\.\. \w+ resumed>(.*)$")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("world"))


def calls_of(tmp_path, *command):
    """The successful calls of a command, in the order in which they ended: (name, paths)."""
    assert shutil.which("strace"), "strace is not installed: packages.txt names it"
    log = tmp_path / "strace.log"
    strace = ["strace", "-f", "-y", "-s", "4096", "-o", log, "-e", f"trace={CALLS}", BINARY]
    done = subprocess.run([*strace, *command], capture_output=True, text=True, env=environment(), timeout=120)
    assert done.returncode == 0, done.stderr
    calls, begun = [], {}  # by thread: what strace saw of a call before it turned to another thread
    for line in log.read_text().splitlines():
        if match := BEGUN.match(line):
            begun[match[1]] = match[2]
            continue
        if match := ENDED.match(line):
            line = f"{match[1]} {begun.pop(match[1])}{match[2]}"
        if match := CALL.match(line):
            name, arguments = match.groups()
            calls.append((name, re.findall(r'"([^"]*)"', arguments) or re.findall(r"<([^>]*)>", arguments)))
    return calls


class Calls:
    def __init__(self, calls):
        self.calls = calls

    def synced(self, path, after, before):
        return any(
            name in ("fsync", "fdatasync") and paths == [str(path)] for name, paths in self.calls[after + 1 : before]
        )

    def named(self, path):
        """When a file got this name, and what it was called before: (index, old name)."""
        for index, (name, paths) in enumerate(self.calls):
            if name in ("link", "linkat", "rename", "renameat", "renameat2") and paths[-1] == str(path):
                return index, paths[0]
        raise AssertionError(f"nothing was named {path}")

    def removed(self, path):
        for index, (name, paths) in enumerate(self.calls):
            if name in ("unlink", "unlinkat") and paths[-1] == str(path):
                return index
        raise AssertionError(f"{path} was not removed")

    def check_durable(self, path, before):
        """fsync(file), then its name, then fsync(directory), all before the given call."""
        index, old = self.named(path)
        assert index < before, f"{path} was named too late"
        assert self.synced(old, -1, index), f"{path} got its name before its content was synced"
        assert self.synced(path.parent, index, before), f"the directory of {path} was not synced after"


def named_objects(board, run, version):
    """What the head's manifest of this version names and this publish wrote."""
    manifest = next(manifest for manifest in board_files.walk(board, run) if manifest["version"] == version)
    keys = [board_files.head_of(board, run)["manifest"]["key"]]
    keys += [manifest["tensor_digests"]["key"]]
    keys += [reference["key"] for edge in manifest["edges"] for reference in edge["objects"]]
    if version == 0:
        keys += anchor_objects(board, manifest["anchors"][0])
    else:
        keys.append(f"runs/{run}/versions/{version - 1:09d}/manifest.json")
    return [board / key for key in keys], board / "runs" / run / "layouts" / f"{manifest['layout']}.json.zst"


def anchor_objects(board, anchor):
    """Keys of an anchor's document and, before it, all that it names."""
    return [reference["key"] for reference in board_files.anchor_objects(board, anchor)] + [anchor["object"]["key"]]


def check_head_moves_last(calls, board, objects):
    head = board_files.head_path(board, "r")
    moved, old = calls.named(head)
    assert calls.synced(old, -1, moved), "the head was not synced before it was renamed"
    assert calls.synced(head.parent, moved, len(calls.calls)), "the head's directory was not synced"
    for path in objects:
        calls.check_durable(path, before=moved)


def test_D7_a_publish_makes_everything_durable_before_the_head_moves(world, tmp_path):
    shutil.copytree(world.places / "board at 1", tmp_path / "p")
    board = tmp_path / "p" / "b"
    calls = Calls(calls_of(tmp_path, "publish", board, world.ckpt[2], "--run", "r", "--state", tmp_path / "p" / "s"))
    objects, _ = named_objects(board, "r", 2)
    check_head_moves_last(calls, board, objects)


def test_D7_a_publish_in_other_shards_makes_its_layout_durable_too(world, tmp_path):
    shutil.copytree(world.places / "board at 1", tmp_path / "p")
    board = tmp_path / "p" / "b"
    calls = Calls(calls_of(tmp_path, "publish", board, world.ckpt["3r"], "--run", "r", "--state", tmp_path / "p" / "s"))
    objects, layout = named_objects(board, "r", 2)
    check_head_moves_last(calls, board, [*objects, layout])


def test_D7_skips_are_durable_before_the_head_moves_and_an_anchors_objects_before_its_document(tmp_path):
    run = LongRun(tmp_path / "run", seed=1)
    shutil.copytree(run.places / "board at 7", tmp_path / "p")
    board, state = tmp_path / "p" / "b", tmp_path / "p" / "s"
    calls = Calls(calls_of(tmp_path, "publish", board, run.ckpt[8], "--run", "r", "--state", state))
    objects, _ = named_objects(board, "r", 8)
    assert any("skip-" in str(path) for path in objects)
    check_head_moves_last(calls, board, objects)
    skerry("publish", board, run.ckpt[9], "--run", "r", "--state", state)
    (anchor,) = [anchor for anchor in board_files.walk(board, "r")[0]["anchors"] if anchor["version"] == 8]
    *parts, document = anchor_objects(board, anchor)
    named = calls.named(board / document)[0]
    for part in parts:
        calls.check_durable(board / part, before=named)
    calls.check_durable(board / document, before=len(calls.calls))


def test_D7_an_init_makes_the_whole_base_durable_before_the_head_appears(world, tmp_path):
    board = tmp_path / "b"
    calls = Calls(calls_of(tmp_path, "init", board, "--run", "r", "--base", world.ckpt[0]))
    objects, layout = named_objects(board, "r", 0)
    check_head_moves_last(calls, board, [*objects, layout, board / "board.json"])


def test_D7_an_apply_in_place_syncs_its_journal_before_and_the_checkpoint_before_the_journal_goes(world, tmp_path):
    here = tmp_path / "here"
    shutil.copytree(world.ckpt[0], here)
    calls = Calls(calls_of(tmp_path, "apply", here, world.patch["0-1"], "--in-place"))
    journal, state = here / ".skerry" / "journal", here / ".skerry" / "state.json"
    began, gone = calls.named(journal)[0], calls.removed(journal)
    calls.check_durable(journal, before=gone)
    for shard in here.glob("*.safetensors"):
        assert calls.synced(shard, began, gone), f"{shard} was not synced while the journal was there"
    calls.check_durable(here / "generation_config.json", before=gone)
    calls.check_durable(state, before=gone)
    assert calls.named(state)[0] > calls.named(here / "generation_config.json")[0] > began
    assert calls.synced(journal.parent, gone, len(calls.calls))


@pytest.fixture
def moved_files(tmp_path):
    """Two checkpoints, and the patch between them, whose side files differ in folders: one new, one gone."""
    weights = small_model.tensors(0)
    old = write_checkpoint(tmp_path / "old", weights, side_files={"gone/a.json": "1", "gone.json": "1"})
    new = write_checkpoint(tmp_path / "new", small_model.tensors(1), side_files={"made/deep/a.json": "1"})
    skerry("diff", old, new, "-o", tmp_path / "patch")
    return old, new, tmp_path / "patch"


def test_D7_an_apply_in_place_syncs_the_folders_that_side_files_came_to_and_went_from(moved_files, tmp_path):
    here, new, patch = moved_files
    calls = Calls(calls_of(tmp_path, "apply", here, patch, "--in-place"))
    assert_same_files(here, new)
    gone = calls.removed(here / ".skerry" / "journal")
    written = calls.named(here / "made" / "deep" / "a.json")[0]
    assert calls.synced(here / "made" / "deep", written, gone), "the new file's folder was not synced after it came"
    # The folders that were made for it are synced into their parents when they are made, before the file comes.
    for folder in (here / "made", here):
        assert calls.synced(folder, -1, gone), f"{folder} was not synced after a folder came to it"
    assert calls.synced(here, calls.removed(here / "gone.json"), gone)
    assert calls.synced(here / "gone", calls.removed(here / "gone" / "a.json"), gone)


def test_D7_a_new_checkpoint_is_durable_before_it_gets_its_name(moved_files, tmp_path):
    base, target, patch = moved_files
    new = tmp_path / "made"
    calls = Calls(calls_of(tmp_path, "apply", base, patch, "-o", new))
    assert_same_files(new, target)
    index, building = calls.named(new)
    for path in new.rglob("*"):
        if path.is_file():
            was = f"{building}/{path.relative_to(new)}"
            assert calls.synced(was, -1, index), f"{path} was not synced before the checkpoint got its name"
    for folder in [new, *(path for path in new.rglob("*") if path.is_dir())]:
        was = building if folder == new else f"{building}/{folder.relative_to(new)}"
        assert calls.synced(was, -1, index), f"the entries of {folder} were not synced"
    assert calls.synced(tmp_path, index, len(calls.calls))


def test_D7_a_patch_is_durable_before_it_gets_its_name(world, tmp_path):
    patch = tmp_path / "p.skerry"
    calls = Calls(calls_of(tmp_path, "diff", world.ckpt[0], world.ckpt[1], "-o", patch))
    calls.check_durable(patch, before=len(calls.calls))


def test_D7_a_pulled_checkpoint_is_durable_before_it_gets_its_name(world, tmp_path):
    shutil.copytree(world.places / "board at 2, island at 1" / "b", tmp_path / "b")
    new = tmp_path / "new"
    calls = Calls(calls_of(tmp_path, "pull", tmp_path / "b", "--run", "r", "-o", new, "--version", "0"))
    index, building = calls.named(new)
    for path in [path for path in new.rglob("*") if path.is_file() and ".skerry" not in path.parts]:
        assert calls.synced(f"{building}/{path.relative_to(new)}.part", -1, index) or calls.synced(
            f"{building}/{path.relative_to(new)}", -1, index
        ), path
    assert calls.synced(tmp_path, index, len(calls.calls))
