"""Boards from Python, against the same things said by the command."""

import inspect
import json
import subprocess

import pytest

import skerry
from checkpoint_files import changed, random_tensors, write_checkpoint

V0 = random_tensors()
V1 = changed(V0, {"model.embed": [2, 300], "model.norm": [8]})


@pytest.fixture
def run(command):
    def run(*arguments):
        done = subprocess.run([command, *map(str, arguments), "--json"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture
def checkpoints(tmp_path):
    return [write_checkpoint(tmp_path / f"v{i}", tensors, config="{}") for i, tensors in enumerate((V0, V1))]


@pytest.fixture
def url(tmp_path):
    return tmp_path / "board"


def publish(run, url, checkpoint, tmp_path, *more):
    return run("publish", url, checkpoint, "--run", "grpo-1", "--state", tmp_path / "state", *more)


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def test_a_run_from_its_base_to_a_pulled_version(run, checkpoints, url, tmp_path):
    with skerry.Board(url) as board:
        made = board.init("grpo-1", checkpoints[0])
        assert made.created and made.run == "grpo-1" and made.writes == "full"
        assert made.model == skerry.Checkpoint(checkpoints[0]).model_digest()
        assert made.layout == skerry.Checkpoint(checkpoints[0]).layout_digest
        assert not board.init("grpo-1", skerry.Checkpoint(checkpoints[0])).created
        with pytest.raises(skerry.Conflict, match="grpo-1 exists with base"):
            board.init("grpo-1", checkpoints[1])
        assert board.runs() == ["grpo-1"] and board.head("other") is None

        publish(run, url, checkpoints[1], tmp_path, "--step", 40)
        head, said = board.head("grpo-1"), run("head", url, "--run", "grpo-1")
        assert (head.run, head.version, head.model) == ("grpo-1", 1, skerry.Checkpoint(checkpoints[1]).model_digest())
        for field in ("time", "epoch", "sequence", "publisher"):
            assert getattr(head, field) == said[field]
        assert head.signed_by is None

        versions, logged = board.versions("grpo-1"), run("log", url, "--run", "grpo-1")["versions"]
        assert [v.version for v in versions] == [1, 0] and [v.step for v in versions] == [40, None]
        for version, entry in zip(versions, logged, strict=True):
            assert version.model == entry["model_digest"]
            for field in ("time", "changed", "density", "patch_bytes", "checkpoint_bytes", "anchor"):
                assert getattr(version, field) == entry[field]
        assert versions[0].changed == 3 and versions[0].tensors_changed == 2 and not versions[0].anchor
        assert [v.version for v in board.versions("grpo-1", limit=1)] == [1]

        told = []
        first = board.pull("grpo-1", tmp_path / "island", version=0, progress=lambda *state: told.append(state))
        assert (first.version, first.from_version, first.patches) == (0, None, 0) and told
        second = board.pull("grpo-1", tmp_path / "island", undo=1)
        assert (second.version, second.from_version, second.patches, second.changed) == (1, 0, 1, 3)
        assert second.model == head.model and second.healed == "" and set(second.seconds) == {"plan", "fetch", "apply"}
        assert contents(tmp_path / "island") == contents(checkpoints[1])

        forked = board.fork("grpo-2", "grpo-1", version=0)
        assert (forked.run, forked.from_run, forked.from_version, forked.created) == ("grpo-2", "grpo-1", 0, True)
        assert board.runs() == ["grpo-1", "grpo-2"] and board.head("grpo-2").model == made.model

        collected = {entry.run: entry for entry in board.gc(dry_run=True)}
        assert set(collected["grpo-1"].kept) == {0, 1} and collected["grpo-1"].condemned == 0
        assert [entry.run for entry in board.gc("grpo-2", keep=5)] == ["grpo-2"]


def test_what_is_not_there_is_not_found(url, tmp_path, checkpoints):
    board = skerry.Board(url)
    for call in (board.runs, lambda: board.head("r"), lambda: board.versions("r")):
        with pytest.raises(skerry.NotFound):
            call()
    board.init("r", checkpoints[0])
    assert board.head("r").version == 0
    with pytest.raises(skerry.NotFound, match="grpo-9"):
        board.versions("grpo-9")
    with pytest.raises(skerry.Invalid, match="run r is at version 0, asked for 7"):
        board.pull("r", tmp_path / "out", version=7, wait=0)


@pytest.mark.parametrize(
    "url, message",
    [
        (None, "board: None, but a directory"),
        ("", "board: '', but a directory"),
        (7, "board: 7"),
        ("s3://", 'board: "" can\'t be the name of a bucket'),
        ("s3:///prefix", 'board: "" can\'t be the name of a bucket'),
        ("s3://bucket/p?colour=red", 'board.*unknown setting "colour"'),
        ("s3://name:secret@bucket/p", "board.*no names or passwords"),
        ("file://relative", "board.*a file URL has an absolute path"),
    ],
)
def test_J2_a_board_that_can_not_be_one_is_refused_when_it_is_named(url, message):
    with pytest.raises(skerry.Invalid, match=message):
        skerry.Board(url)


def test_J2_other_arguments_are_refused_by_name(url, tmp_path, checkpoints):
    with pytest.raises(skerry.Unsupported, match="board: .*not gopher://"):
        skerry.Board("gopher://x")
    for options, message in (
        ({"sign_key": ""}, "sign_key: ''"),
        ({"sign_key": "-----BEGIN PRIVATE KEY-----"}, "sign_key wants the name of a file"),
        ({"trust_keys": "ed25519:x"}, "trust_keys: 'ed25519:x', but a sequence"),
        ({"trust_keys": ["ed25519:x"]}, "trust_keys: "),
        ({"trust_keys": [None]}, "trust_keys: None"),
    ):
        with pytest.raises(skerry.Invalid, match=message):
            skerry.Board(url, **options)
    with pytest.raises(skerry.NotFound, match="sign_key: .*missing.pem"):
        skerry.Board(url, sign_key=tmp_path / "missing.pem")
    board = skerry.Board(url)
    board.init("r", checkpoints[0])
    for call, message in (
        (lambda: board.head(""), "run: ''"),
        (lambda: board.head(None), "run: None"),
        (lambda: board.versions("a b"), "run: 'a b' is not a run's name"),
        (lambda: board.versions("r", limit=0), "limit: 0"),
        (lambda: board.init("r", checkpoints[0], mode="move"), 'mode: "move"'),
        (lambda: board.init("r", b""), "."),
        (lambda: board.pull("r", None), "out: None"),
        (lambda: board.pull("r", tmp_path / "o", version=-1), "version: -1, but 0 to"),
        (lambda: board.pull("r", tmp_path / "o", version=10**12), "version: 1000000000000, but 0 to"),
        (lambda: board.pull("r", tmp_path / "o", wait=-1), "wait: -1"),
        (lambda: board.pull("r", tmp_path / "o", threads=-1), "threads: -1"),
        (lambda: board.fork("n", ""), "from_run: ''"),
        (lambda: board.gc(keep=0), "keep: 0"),
    ):
        with pytest.raises((skerry.Invalid, skerry.Corrupt), match=message):
            call()
    board.close()
    board.close()
    with pytest.raises(skerry.Invalid, match="is closed"):
        board.runs()


def test_signed_versions_are_read_by_who_trusts_the_key(run, checkpoints, url, tmp_path):
    run("keygen", "--output", tmp_path / "key")
    run("keygen", "--output", tmp_path / "other")
    signing = skerry.Board(url, sign_key=tmp_path / "key", trust_keys=[tmp_path / "key.pub"])
    signing.init("r", checkpoints[0])
    key = skerry.Board(url, trust_keys=[tmp_path / "key.pub"]).head("r").signed_by
    assert key.startswith("ed25519:") and skerry.Board(url, trust_keys=[key]).versions("r")[0].signed_by == key
    stranger = skerry.Board(url, trust_keys=[tmp_path / "other.pub"])
    with pytest.raises(skerry.Mismatch):
        stranger.head("r")
    with pytest.raises(skerry.Invalid, match="none of those trusted here"):
        skerry.Board(url, sign_key=tmp_path / "key", trust_keys=[tmp_path / "other.pub"])
    with pytest.raises(skerry.Invalid, match="say sign_key"):
        stranger.init("r2", checkpoints[0])


REQUIRED = {
    skerry.Checkpoint: ["source"],
    skerry.Patch: ["source"],
    skerry.diff: ["base", "new", "out"],
    skerry.apply: ["base", "patch", "out"],
    skerry.Board: ["url"],
    skerry.Board.init: ["self", "run", "base"],
    skerry.Board.pull: ["self", "run", "out"],
    skerry.Board.fork: ["self", "run", "from_run"],
    skerry.Board.gc: ["self"],
    skerry.Publisher: ["board", "run"],
}


@pytest.mark.parametrize("call", REQUIRED, ids=lambda call: call.__qualname__)
def test_J5_no_release_asks_for_an_argument_that_older_callers_do_not_give(call):
    parameters = inspect.signature(call).parameters.values()
    assert [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD] == REQUIRED[call]
    optional = [p for p in parameters if p.default is not p.empty]
    assert all(p.kind is p.KEYWORD_ONLY or p.name == "run" for p in optional)
