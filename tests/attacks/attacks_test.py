"""Hostile and broken files: each is refused with the right exit status and one line that names it; nothing is written.

SKERRY_BINARY names the product; without it, it is the dev preset's.
"""

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "golden")]

import golden_files  # noqa: E402  (puts tests/reference on the path)

import skerry_reference as reference  # noqa: E402
from reference_checkpoint import Refused, read_checkpoint  # noqa: E402

EXPECTED = json.loads((HERE / "expected.json").read_text())
CHECKPOINTS, PATCHES = EXPECTED["checkpoints"], EXPECTED["patches"]
ACCEPTABLE = sorted(path.name for path in (HERE / "acceptable").iterdir())
BINARY = Path(os.environ.get("SKERRY_BINARY", HERE.parents[1] / "build/dev/apps/skerry/skerry")).resolve()

CORRUPT = 4
SECONDS = 60
MEBIBYTES = 512  # peak memory of a refusal


def run(*arguments):
    """Exit status and standard error; also checks time and memory."""
    process = subprocess.Popen([BINARY, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    killer = threading.Timer(SECONDS, process.kill)
    killer.start()
    stderr = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    killer.cancel()
    assert process.returncode >= 0, f"died of signal {-process.returncode}: {stderr!r}"
    assert usage.ru_maxrss >> 10 < MEBIBYTES, f"{usage.ru_maxrss >> 10} MiB of memory"
    return process.returncode, stderr.decode("utf-8", "backslashreplace")


def check_refusal(status, stderr, expected_status, *must_contain):
    assert status == expected_status, stderr
    lines = stderr.splitlines(keepends=True)
    assert len(lines) == 1 and lines[0].startswith("skerry: ") and lines[0].endswith("\n"), stderr
    assert lines[0][:-1].isprintable(), repr(stderr)
    assert len(lines[0]) < 2000, f"a message of {len(lines[0])} characters"
    for part in must_contain:
        assert part in stderr, f"{part!r} is not in {stderr!r}"


def snapshot(directory):
    """Every path below it with its content and time of change."""
    paths = sorted(directory.rglob("*"))
    return [(path, path.is_file() and path.read_bytes(), path.stat().st_mtime_ns) for path in paths]


@pytest.fixture(scope="session")
def good_target(tmp_path_factory):
    """The files that the good patch leads to, by the reference reader."""
    directory = tmp_path_factory.mktemp("good")
    base = golden_files.unpack(HERE / "base", directory / "base")
    reference.apply_files(base, HERE / "good.skerry", directory / "out")
    return golden_files.read_files(directory / "out")


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_the_product_refuses_the_checkpoint(name, tmp_path):
    directory = golden_files.unpack(HERE / "checkpoints" / name, tmp_path / "checkpoint")
    before = snapshot(tmp_path)
    status, stderr = run("verify", directory)
    check_refusal(status, stderr, CORRUPT, str(directory), *CHECKPOINTS[name])
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_the_reference_reader_refuses_the_checkpoint(name, tmp_path):
    directory = golden_files.unpack(HERE / "checkpoints" / name, tmp_path / "checkpoint")
    with pytest.raises(Refused):
        read_checkpoint(directory)


@pytest.mark.parametrize("name", ACCEPTABLE)
def test_a_near_miss_is_accepted_by_both(name, tmp_path):
    directory = golden_files.unpack(HERE / "acceptable" / name, tmp_path / "checkpoint")
    done = subprocess.run([BINARY, "verify", directory], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    checkpoint = read_checkpoint(directory)
    digest = reference.model_digest(checkpoint.layout, checkpoint.tensors).hex()
    assert re.search(rf"\b{digest}\b", done.stdout) and checkpoint.layout.digest().hex() in done.stdout


@pytest.mark.parametrize("name", PATCHES)
def test_the_product_refuses_the_patch_and_writes_nothing(name, tmp_path):
    base = golden_files.unpack(HERE / "base", tmp_path / "base")
    patch = HERE / "patches" / f"{name}.skerry"
    before = snapshot(tmp_path)
    status, stderr = run("apply", base, patch, "-o", tmp_path / "out")
    check_refusal(status, stderr, PATCHES[name], patch.name)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("name", PATCHES)
def test_in_place_the_refused_patch_leaves_a_base_that_a_good_patch_can_change(name, tmp_path, good_target):
    base = golden_files.unpack(HERE / "base", tmp_path / "base")
    before = golden_files.read_files(base)
    in_place = ("--in-place", "--state", tmp_path / "state")
    status, stderr = run("apply", base, HERE / "patches" / f"{name}.skerry", *in_place)
    assert status in (PATCHES[name], 1), stderr  # 1: what changes the layout is refused in place anyway
    assert stderr.startswith("skerry: ")
    assert golden_files.read_files(base) == before
    assert run("apply", base, HERE / "good.skerry", *in_place) == (0, "")
    assert golden_files.read_files(base) == good_target


@pytest.mark.parametrize("name", PATCHES)
def test_the_reference_reader_refuses_the_patch(name, tmp_path):
    base = golden_files.unpack(HERE / "base", tmp_path / "base")
    with pytest.raises(Refused):
        reference.apply_files(base, HERE / "patches" / f"{name}.skerry", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_patch_that_all_were_made_from_is_good(tmp_path, good_target):
    base = golden_files.unpack(HERE / "base", tmp_path / "base")
    assert run("apply", base, HERE / "good.skerry", "-o", tmp_path / "out") == (0, "")
    assert golden_files.read_files(tmp_path / "out") == good_target


def test_all_attacks_are_what_the_generator_makes(tmp_path):
    import checkpoint_attacks
    import patch_attacks

    checkpoints, patches = checkpoint_attacks.all_attacks(), patch_attacks.all_attacks()
    assert sorted(checkpoints) == sorted(CHECKPOINTS) and sorted(patches) == sorted(PATCHES)
    for name, (patch, status) in patches.items():
        assert (HERE / "patches" / f"{name}.skerry").read_bytes() == patch and PATCHES[name] == status, name
    for name, (files, _) in checkpoints.items():
        assert golden_files.read_files(golden_files.unpack(HERE / "checkpoints" / name, tmp_path / name)) == files, name
