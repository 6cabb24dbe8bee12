"""The command line as people and scripts meet it: help, exit statuses, JSON, where output goes."""

import json
import os
import pty
import re
import shutil
import subprocess

import numpy as np
import pytest

import board_files
import small_model
from checkpoint_files import bf16, flip_bit, tensor_bytes, write_checkpoint
from program import BINARY, CONFLICT, CORRUPT, FAILED, OK, UNAVAILABLE, USAGE, environment, skerry

COMMANDS = (
    "diff apply show squash invert verify init publish fork pull rollback log head status gc probe absorb keygen".split()
)
# Run until they are stopped: tests/agent, tests/gateway and tests/relay run them.
LASTING = ["agent", "gateway", "relay"]
HEX = re.compile(r"[0-9a-f]{64}")


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """Checkpoints v0 … v2, patches p from v0 to v1 and q from there to v2, a board b at version 1, an island at it and
    one with a way back from it."""
    directory = tmp_path_factory.mktemp("cli")
    for n in range(3):
        small_model.write(directory / f"v{n}", n)
    skerry("diff", directory / "v0", directory / "v1", "-o", directory / "p")
    skerry("diff", directory / "v1", directory / "v2", "-o", directory / "q")
    skerry("init", directory / "b", "--run", "r", "--base", directory / "v0")
    skerry("publish", directory / "b", directory / "v1", "--run", "r", "--state", directory / "s", "--step", 7)
    skerry("pull", directory / "b", "--run", "r", "-o", directory / "island")
    for version in (0, 1):
        skerry("pull", directory / "b", "--run", "r", "-o", directory / "back", "--version", version, "--undo", 2)
    shutil.copytree(directory / "b", directory / "forked")
    return directory


def example(command, stage, out):
    """A right use of each command; what it makes goes below `out`."""
    return {
        "diff": ["diff", stage / "v0", stage / "v1", "-o", out / "patch"],
        "apply": ["apply", stage / "v0", stage / "p", "-o", out / "new"],
        "show": ["show", stage / "p", "--tensors"],
        "squash": ["squash", stage / "p", stage / "q", "--base", stage / "v0", "-o", out / "both"],
        "invert": ["invert", stage / "p", "--base", stage / "v0", "-o", out / "back"],
        "verify": ["verify", stage / "v1", "--tensors"],
        "init": ["init", out / "board", "--run", "r", "--base", stage / "v0"],
        "publish": ["publish", stage / "b", stage / "v1", "--run", "r", "--state", stage / "s"],
        "fork": ["fork", stage / "forked", "--run", "f", "--from", "r", "--version", "0"],
        "pull": ["pull", stage / "b", "--run", "r", "-o", out / "island"],
        "rollback": ["rollback", stage / "back", "--to", "0"],
        "log": ["log", stage / "b", "--run", "r"],
        "head": ["head", stage / "b", "--run", "r"],
        "status": ["status", stage / "b"],
        "gc": ["gc", stage / "b", "--dry-run"],
        "keygen": ["keygen", "-o", out / "key"],
        "absorb": ["absorb", stage / "v0", "--lr", "1e-6"],
        "probe": ["probe", stage / "b", "--writers", "2", "--rounds", "1"],
    }[command]


# Help.


def test_help_lists_every_command_and_the_exit_statuses():
    text = skerry("--help").out
    for command in [*COMMANDS, *LASTING]:
        assert re.search(rf"^  {command} +\w", text, re.M), command
    assert "Exit status: 0 ok, 1 operation failed, 2 usage, 3 conflict, 4 corrupt data, 5 unavailable." in text
    listed = re.search(r"^Subcommands:\n((?:  .*\n?)+)", text, re.M | re.I).group(1)
    assert sorted(re.findall(r"^  ([a-z]+) ", listed, re.M)) == sorted([*COMMANDS, *LASTING]), "a command is not tested here"


@pytest.mark.parametrize("command", [*COMMANDS, *LASTING])
def test_help_of_a_command_has_an_example_that_names_it(command):
    ran = skerry(command, "--help")
    assert ran.err == ""
    assert re.search(rf"^Example:\s+skerry {command} ", ran.out, re.M), ran.out
    for common in ("--json", "--threads", "--no-progress"):
        assert common in ran.out


@pytest.mark.parametrize("command", [*COMMANDS, *LASTING])
def test_the_example_of_the_help_uses_flags_that_exist(command):
    text = skerry(command, "--help").out
    shown = re.search(r"^Example:\s+skerry (.*)$", text, re.M).group(1).split()
    for word in shown:
        if word.startswith("-"):
            assert re.search(rf"(^|[ ,]){re.escape(word)}[ ,\n]", text.split("Example:")[0]), word
    if command not in LASTING:
        ran = skerry(*shown, expect=None)
        assert ran.code != USAGE, ran.err


def test_the_version_is_printed():
    assert re.fullmatch(r"skerry \d+\.\d+\.\d+\n", skerry("--version").out)


# Wrong uses.

WRONG_USES = {
    "no command": ([], "subcommand"),
    "an unknown command": (["frobnicate"], "frobnicate"),
    "diff without output": (["diff", "a", "b"], "--output"),
    "diff without NEW": (["diff", "a", "-o", "p"], "NEW"),
    "diff of three": (["diff", "a", "b", "c", "-o", "p"], "c"),
    "an unknown flag": (["verify", "a", "--fast"], "--fast"),
    "apply without a place": (["apply", "a", "p"], "--in-place"),
    "apply with two places": (["apply", "a", "p", "-o", "x", "--in-place"], "--in-place"),
    "init without run": (["init", "b", "--base", "c"], "--run"),
    "init without base": (["init", "b", "--run", "r"], "--base"),
    "init with an unknown hold": (["init", "b", "--run", "r", "--base", "c", "--hold", "glue"], "--hold"),
    "publish without a checkpoint": (["publish", "b", "--run", "r"], "CKPT"),
    "publish as version x": (["publish", "b", "c", "--run", "r", "--version", "x"], "--version"),
    "publish as version -1": (["publish", "b", "c", "--run", "r", "--version", "-1"], "--version"),
    "publish with step 1.5": (["publish", "b", "c", "--run", "r", "--step", "1.5"], "--step"),
    "publish with step -1": (["publish", "b", "c", "--run", "r", "--step", "-1"], "--step"),
    "fork without origin": (["fork", "b", "--run", "r"], "--from"),
    "fork at version x": (["fork", "b", "--run", "r", "--from", "q", "--version", "x"], "--version"),
    "gc that keeps nothing": (["gc", "b", "--keep", "0"], "--keep"),
    "gc with a grace of minus one": (["gc", "b", "--grace", "-1"], "--grace"),
    "pull without output": (["pull", "b", "--run", "r"], "--output"),
    "pull with a wait of minus one": (["pull", "b", "--run", "r", "-o", "x", "--wait", "-1"], "--wait"),
    "pull with an undo of x": (["pull", "b", "--run", "r", "-o", "x", "--undo", "x"], "--undo"),
    "rollback to nowhere": (["rollback", "x"], "--to"),
    "keygen without output": (["keygen"], "--output"),
    "no threads": (["verify", "a", "--threads", "0"], "--threads"),
    "threads without a number": (["verify", "a", "--threads", "many"], "--threads"),
    "log of minus one": (["log", "b", "--run", "r", "-n", "-1"], "--limit"),
    "log of a limit that is none": (["log", "b", "--run", "r", "-n", "all"], "--limit"),
}


@pytest.mark.parametrize("use", WRONG_USES)
def test_a_wrong_use_exits_with_2_and_names_what_is_wrong(use, tmp_path):
    arguments, named = WRONG_USES[use]
    ran = skerry(*arguments, expect=USAGE, cwd=tmp_path)
    assert ran.out == ""
    first, hint = ran.err.splitlines()
    assert first.startswith("skerry: ") and named in first
    assert re.fullmatch(r"Try 'skerry ([a-z]+ )?--help'\.", hint)
    assert list(tmp_path.iterdir()) == []


# JSON.

PATCH_MADE = (
    "patch level base_model target_model elements changed density tensors_changed side_files_changed patch_bytes "
    "checkpoint_bytes seconds bytes_per_changed"
)
DOCUMENTED = {
    "diff": PATCH_MADE,
    "squash": PATCH_MADE,
    "invert": PATCH_MADE,
    "apply": "checkpoint patch changed model_digest in_place seconds",
    "show": "patch format patch_bytes base_model target_model base_layout target_layout structural elements changed "
    "density blocks tensors_named methods side_files tensors",
    "verify": "checkpoint model_digest layout_digest tensors files bytes verified tensor_digests",
    "init": "board run version created writes model_digest layout_digest bytes views seconds",
    "publish": "run version published step model_digest elements changed tensors_changed density patch_bytes "
    "bytes_per_changed parts skips skip_bytes anchor_bytes checkpoint_bytes views times_smaller seconds",
    "pull": "run version from patches bytes_fetched changed model_digest healed seconds",
    "rollback": "run version from changed model_digest seconds",
    "log": "run signatures_checked versions",
    "keygen": "private_key_file public_key_file public_key key_id",
    "head": "run version model_digest epoch sequence publisher manifest manifest_sha256 time",
    "fork": "board run from_run from_version from_manifest_sha256 created model_digest layout_digest",
    "gc": "board dry_run keep grace runs leftovers_removed",
    "status": "board id runs",
    "absorb": "checkpoint settings weights zeros passed_over views measured",
    "probe": "board writers verdict follows reason can_swap checks races tokens leftover seconds",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_json_is_one_document_with_the_documented_fields(command, stage, tmp_path):
    ran = skerry(*example(command, stage, tmp_path), "--json")
    document = json.loads(ran.out)
    assert document.keys() == set(DOCUMENTED[command].split())
    assert ran.err == ""
    for key, value in document.items():
        if key.endswith(("_digest", "_model", "_layout", "_sha256")):
            assert HEX.fullmatch(value), key


@pytest.mark.parametrize("command", COMMANDS)
def test_without_json_there_is_plain_text_for_people(command, stage, tmp_path):
    ran = skerry(*example(command, stage, tmp_path))
    assert ran.err == "" and ran.out.endswith("\n")
    assert not ran.out.startswith("{") and "\x1b" not in ran.out and "\r" not in ran.out


def test_a_rollback_beyond_what_is_kept_says_how_far_it_goes(stage, tmp_path):
    shutil.copytree(stage / "back", tmp_path / "back")
    skerry("rollback", tmp_path / "back", "--to", 1)  # wherever another test has left it
    ran = skerry("rollback", tmp_path / "back", "--to", 7, expect=FAILED)
    assert "does not lead from r version 1 to r version 7" in ran.err
    assert "the oldest that it reaches is r version 0" in ran.err
    ran = skerry("rollback", tmp_path / "back", "--to", 0, "--json").json
    assert (ran["from"], ran["version"]) == (1, 0) and ran["changed"] > 0
    assert "is not a checkpoint that skerry pull made" in skerry("rollback", stage / "v0", "--to", 0, expect=FAILED).err


def test_json_of_log_and_status_describes_each_version_and_run(stage):
    newest, base = skerry("log", stage / "b", "--run", "r", "--json").json["versions"]
    fields = {
        "version",
        "time",
        "step",
        "model_digest",
        "signed_by",
        "anchor",
        "changed",
        "density",
        "patch_bytes",
        "checkpoint_bytes",
    }
    assert newest.keys() == base.keys() == fields
    assert (newest["version"], newest["step"], newest["anchor"]) == (1, 7, False)
    assert (base["version"], base["step"], base["anchor"], base["changed"]) == (0, None, True, 0)
    (run,) = skerry("status", stage / "b", "--json").json["runs"]
    fields = {
        "run",
        "version",
        "epoch",
        "time",
        "model_digest",
        "step",
        "nearest_anchor",
        "checkpoint_bytes",
        "patch_bytes",
    }
    assert run.keys() == fields
    assert (run["run"], run["version"], run["step"]) == ("r", 1, 7)


def test_json_of_show_adds_up(stage):
    shown = skerry("show", stage / "p", "--tensors", "--json").json
    assert sum(tensor["changed"] for tensor in shown["tensors"]) == shown["changed"]
    assert sum(method["blocks"] for method in shown["methods"].values()) == shown["blocks"]
    assert sum(method["changed"] for method in shown["methods"].values()) == shown["changed"]
    assert shown["methods"].keys() <= {"dense", "sparse-flat", "sparse-magnitude"}
    assert shown["patch_bytes"] == (stage / "p").stat().st_size
    sides = {file["path"]: file["removed"] for file in shown["side_files"]}
    assert sides == {"chat/template.jinja": True, "generation_config.json": False}


def test_json_survives_names_with_quotes_and_other_scripts(tmp_path):
    name = 'weiß "q" \\ 層.重み'
    tensors = {name: bf16(np.arange(8, dtype=np.uint16))}
    write_checkpoint(tmp_path / "a", tensors)
    write_checkpoint(tmp_path / "b", {name: bf16(np.arange(1, 9, dtype=np.uint16))})
    skerry("diff", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "p", "--json")
    (tensor,) = skerry("show", tmp_path / "p", "--tensors", "--json").json["tensors"]
    assert tensor["name"] == name
    assert skerry("verify", tmp_path / "a", "--tensors", "--json").json["tensor_digests"].keys() == {name}


# Failures.


def failures(stage, tmp_path):
    """name: (command, exit status, code in JSON, part of the message)."""
    damaged = tmp_path / "damaged.skerry"
    shutil.copy(stage / "p", damaged)
    flip_bit(damaged, damaged.stat().st_size - 40)
    island = tmp_path / "island"
    shutil.copytree(stage / "island", island)
    shard = island / "model-00001-of-00002.safetensors"
    flip_bit(shard, tensor_bytes(shard, "norm.weight")[0])
    late = tmp_path / "late"
    shutil.copytree(stage / "b", late)
    next(board_files.version_dir(late, "r", 1).glob("delta-*")).unlink()
    return {
        "not found": (["verify", tmp_path / "nowhere"], FAILED, "not_found", "nowhere"),
        "a file for a checkpoint": (["verify", stage / "p"], FAILED, "invalid", "directory"),
        "mismatch": (["apply", stage / "v1", stage / "p", "-o", tmp_path / "x"], FAILED, "mismatch", "base digest"),
        "wrong digest": (["verify", stage / "v0", "--digest", "0" * 64], CORRUPT, "corrupt", "0" * 64),
        "no digest": (["verify", stage / "v0", "--digest", "xyz"], FAILED, "invalid", "--digest"),
        "unsupported": (["status", "ftp://bucket"], FAILED, "unsupported", "ftp://"),
        "conflict": (["publish", stage / "b", stage / "v2", "--run", "r", "--version", 1, "--state", stage / "s"],
                     CONFLICT, "conflict", "version 1"),
        "corrupt patch": (["show", damaged], CORRUPT, "corrupt", "damaged.skerry"),
        "corrupt island": (["verify", island], CORRUPT, "corrupt", "norm.weight"),
        "unavailable": (["pull", late, "--run", "r", "-o", tmp_path / "y", "--wait", 0],
                        UNAVAILABLE, "unavailable", "delta"),
    }  # fmt: skip


FAILURES = ["not found", "a file for a checkpoint", "mismatch", "wrong digest", "no digest", "unsupported", "conflict",
            "corrupt patch", "corrupt island", "unavailable"]  # fmt: skip


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_is_one_line_on_standard_error_and_an_exit_status_that_says_what_to_do(failure, stage, tmp_path):
    command, status, _, part = failures(stage, tmp_path)[failure]
    ran = skerry(*command, expect=status)
    assert ran.out == ""
    assert ran.err.startswith("skerry: ") and ran.err.count("\n") == 1 and ran.err.endswith("\n")
    assert part in ran.err


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_with_json_is_a_document_with_code_and_message(failure, stage, tmp_path):
    command, status, code, part = failures(stage, tmp_path)[failure]
    ran = skerry(*command, "--json", expect=status)
    assert ran.json.keys() == {"error"} and ran.json["error"].keys() == {"code", "message"}
    assert ran.json["error"]["code"] == code
    assert part in ran.json["error"]["message"]
    assert ran.err == f"skerry: {ran.json['error']['message']}\n"


def test_status_of_a_board_with_a_damaged_run_shows_the_others_and_fails(stage, tmp_path):
    board = tmp_path / "b"
    shutil.copytree(stage / "b", board)
    skerry("init", board, "--run", "second", "--base", stage / "v0")
    board_files.head_path(board, "r").write_bytes(b"")
    ran = skerry("status", board, expect=CORRUPT)
    assert "second" in ran.out and "head" in ran.err
    document = json.JSONDecoder().raw_decode(skerry("status", board, "--json", expect=CORRUPT).out)[0]
    assert [run["run"] for run in document["runs"]] == ["r", "second"]


def test_status_with_json_and_a_damaged_run_is_one_document(stage, tmp_path):
    board = tmp_path / "b"
    shutil.copytree(stage / "b", board)
    board_files.head_path(board, "r").write_bytes(b"")
    document = skerry("status", board, "--json", expect=CORRUPT).json
    assert "problem" in document["runs"][0]


def test_output_to_a_full_device_or_a_closed_pipe_is_not_a_crash(stage):
    with open("/dev/full", "w") as full:
        done = subprocess.run([BINARY, "log", stage / "b", "--run", "r"], stdout=full, stderr=subprocess.PIPE,
                              env=environment())  # fmt: skip
    assert done.returncode in (OK, FAILED)
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([BINARY, "log", stage / "b", "--run", "r"], stdout=write, stderr=subprocess.PIPE,
                          env=environment())  # fmt: skip
    os.close(write)
    assert done.returncode in (OK, FAILED, -13)


def test_SKERRY_SIMD_scalar_gives_the_same_patch(stage, tmp_path):
    skerry("diff", stage / "v0", stage / "v1", "-o", tmp_path / "p", env={"SKERRY_SIMD": "scalar"})
    assert (tmp_path / "p").read_bytes() == (stage / "p").read_bytes()


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
def test_the_number_of_threads_does_not_change_the_patch(threads, stage, tmp_path):
    skerry("diff", stage / "v0", stage / "v1", "-o", tmp_path / "p", "--threads", threads)
    assert (tmp_path / "p").read_bytes() == (stage / "p").read_bytes()


# Progress.


def on_a_terminal(command, expect=OK):
    """Runs a command whose standard error is a terminal; returns what came there."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen([BINARY, *map(str, command)], stdout=subprocess.PIPE, stderr=terminal, env=environment())
    os.close(terminal)
    shown = b""
    while True:
        try:
            part = os.read(controller, 4096)
        except OSError:  # the last one that had the terminal open is gone
            break
        if not part:
            break
        shown += part
    os.close(controller)
    process.communicate(timeout=60)
    assert process.returncode == expect
    return shown.decode()


def test_work_under_a_second_shows_no_progress_even_on_a_terminal(stage, tmp_path):
    assert on_a_terminal(example("diff", stage, tmp_path)) == ""


def test_work_over_a_second_shows_a_progress_line_on_a_terminal_and_wipes_it(stage, tmp_path):
    """A sparse file of zeros is cheap however long; its length is doubled until reading it takes over a second."""
    header = '{"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}'
    checkpoint = tmp_path / "long"
    checkpoint.mkdir()
    for gigabytes in (2, 4, 8, 16, 32, 64):
        size = gigabytes << 30
        text = (header % (size, size)).encode()
        with open(checkpoint / "model.safetensors", "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.truncate(8 + len(text) + size)
        shown = on_a_terminal(["verify", checkpoint, "--threads", 1])
        if shown:
            break
    assert re.search(r"\r\x1b\[K\w+ +[\d.]+ [kMG]B of [\d.]+ GB +\d+ %  [\d.]+ [kMG]B/s  \d+ s left", shown), shown
    assert shown.endswith("\r\x1b[K")
    assert on_a_terminal(["verify", checkpoint, "--threads", 1, "--no-progress"]) == ""
    assert on_a_terminal(["verify", checkpoint, "--threads", 1, "--json"]) == ""
    assert skerry("verify", checkpoint, "--threads", 1).err == ""
