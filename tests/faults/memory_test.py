"""Memory stays bounded whatever the size of the checkpoint, also where the host maps no large file; a file that shrinks
under the program is an error with its name and not a signal.

SKERRY_BIG_GIB=8 makes the checkpoint so large (it is then made on disk), to measure by hand.
"""

import json
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from checkpoint_files import assert_same_files, sha256_of
from program import CORRUPT, FAILED, finish, skerry, start

GIB = float(os.environ.get("SKERRY_BIG_GIB", "0.4"))
BYTES = int(GIB * (1 << 30))
# Anonymous memory of any command with two threads: at most 64 MiB of journal kept at hand, and the blocks in work.
# Mapped files belong to the page cache and are not counted.
BOUND = 100 << 20
THREADS = ("--threads", 2)
SHARDS = 2
TENSOR = 64 << 20


def write_pair(old, new):
    """Two checkpoints: bf16 bits of random weights, of which 1 in 256 grew by one."""
    random = np.random.default_rng(1)
    for directory in (old, new):
        directory.mkdir()
        (directory / "config.json").write_text("{}")
    count = max(1, BYTES // SHARDS // TENSOR)
    noise = random.integers(0x3800, 0x3FFE, TENSOR // 2, dtype=np.uint16)
    index = {}
    for shard in range(SHARDS):
        file = f"model-{shard + 1:05d}-of-{SHARDS:05d}.safetensors"
        header, offset = {}, 0
        for i in range(count):
            header[f"layers.{i}.{shard}"] = {
                "dtype": "BF16",
                "shape": [TENSOR // 2],
                "data_offsets": [offset, offset + TENSOR],
            }
            index[f"layers.{i}.{shard}"], offset = file, offset + TENSOR
        text = json.dumps(header).encode()
        with open(old / file, "wb") as before, open(new / file, "wb") as after:
            for out in (before, after):
                out.write(len(text).to_bytes(8, "little") + text)
            for i in range(count):
                weights = np.roll(noise, i + 17 * shard)
                before.write(weights)
                weights[random.integers(0, weights.size, weights.size // 256)] += 1
                after.write(weights)
    for directory in (old, new):
        (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    """A folder with checkpoints old and new, and room for more; it goes when the tests are done."""
    if "SKERRY_BIG_GIB" in os.environ:
        directory = Path(tempfile.mkdtemp(prefix="skerry-tests-big-"))
    else:
        directory = tmp_path_factory.mktemp("big")
    write_pair(directory / "old", directory / "new")
    skerry("diff", directory / "old", directory / "new", "-o", directory / "patch")
    yield directory
    shutil.rmtree(directory)


def anonymous_bytes(pid):
    try:
        with open(f"/proc/{pid}/status") as status:
            return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon:"))
    except (OSError, StopIteration):
        return 0


def peak_of(*command):
    """Runs a command and samples its anonymous memory all the while."""
    process = start(*command, *THREADS)
    peak = samples = 0
    while process.poll() is None:
        peak, samples = max(peak, anonymous_bytes(process.pid)), samples + 1
        time.sleep(0.001)
    ran = finish(process)
    assert ran.code == 0, ran.err
    assert samples > 3, "the command was too quick to be measured"
    return peak


def check_bound(summary, name, peak):
    summary.append(f"{name} of {BYTES / (1 << 30):.1f} GiB: at most {peak / (1 << 20):.0f} MiB of anonymous memory")
    assert peak <= BOUND, f"{name}: {peak / (1 << 20):.0f} MiB of anonymous memory, the bound is {BOUND >> 20}"


def test_L2_memory_of_diff_is_bounded(big, summary):
    check_bound(summary, "diff", peak_of("diff", big / "old", big / "new", "-o", big / "again"))
    assert sha256_of(big / "again") == sha256_of(big / "patch")


def test_L2_memory_of_apply_to_a_new_directory_is_bounded(big, summary):
    check_bound(summary, "apply -o", peak_of("apply", big / "old", big / "patch", "-o", big / "made"))
    assert_same_files(big / "made", big / "new")
    shutil.rmtree(big / "made")


def test_L2_memory_of_apply_in_place_is_bounded(big, summary):
    shutil.copytree(big / "old", big / "here")
    check_bound(summary, "apply --in-place", peak_of("apply", big / "here", big / "patch", "--in-place"))
    assert_same_files(big / "here", big / "new")
    shutil.rmtree(big / "here")


def test_L2_memory_of_publish_and_pull_is_bounded(big, summary):
    board = ["--run", "r"]
    check_bound(summary, "init", peak_of("init", big / "b", *board, "--base", big / "old", "--hold", "link"))
    publish = ["publish", big / "b", big / "new", *board, "--state", big / "s"]
    check_bound(summary, "publish", peak_of(*publish))
    shutil.rmtree(big / "s")
    check_bound(summary, "pull", peak_of("pull", big / "b", *board, "-o", big / "island"))
    assert_same_files(big / "island", big / "new")
    shutil.rmtree(big / "island")
    pull = ["pull", big / "b", *board, "-o", big / "island", "--undo", 2]
    skerry(*pull, "--version", 0)
    check_bound(summary, "pull --undo", peak_of(*pull))
    check_bound(summary, "rollback", peak_of("rollback", big / "island", "--to", 0))
    assert_same_files(big / "island", big / "old")
    shutil.rmtree(big / "island")
    shutil.rmtree(big / "b")


def test_B18_diff_and_apply_work_in_a_quarter_of_the_files_size_of_address_space(big):
    quarter = ["prlimit", f"--as={BYTES // 4}"]
    skerry("diff", big / "old", big / "new", "-o", big / "again", *THREADS, wrapper=quarter)
    assert sha256_of(big / "again") == sha256_of(big / "patch")
    skerry("apply", big / "old", big / "patch", "-o", big / "made", *THREADS, wrapper=quarter)
    assert_same_files(big / "made", big / "new")
    skerry("apply", big / "made", big / "patch", "--in-place", *THREADS, wrapper=quarter)
    shutil.rmtree(big / "made")


def cut_in_half_while(process, shard):
    """Cuts the file as soon as the program has it mapped; the program stands still meanwhile."""
    while process.poll() is None:
        with open(f"/proc/{process.pid}/maps") as maps:
            if any(line.rstrip().endswith(str(shard)) for line in maps):
                break
    os.kill(process.pid, signal.SIGSTOP)
    os.truncate(shard, shard.stat().st_size // 2)
    os.kill(process.pid, signal.SIGCONT)


@pytest.mark.parametrize("command", ["diff", "apply", "publish", "apply in place"])
def test_B15_a_base_that_is_cut_while_it_is_read_is_an_error_that_names_it(command, big):
    victim = big / "victim"
    shutil.copytree(big / ("new" if command == "publish" else "old"), victim)
    commands = {
        "diff": ["diff", victim, big / "new", "-o", big / "p"],
        "apply": ["apply", victim, big / "patch", "-o", big / "made"],
        "publish": ["publish", big / "b", victim, "--run", "r", "--state", big / "s"],
        "apply in place": ["apply", victim, big / "patch", "--in-place"],
    }
    if command == "publish":
        skerry("init", big / "b", "--run", "r", "--base", big / "old", "--hold", "link")
    shard = victim / "model-00002-of-00002.safetensors"
    process = start(*commands[command], "--threads", 1)
    cut_in_half_while(process, shard)
    ran = finish(process)
    assert ran.code in (FAILED, CORRUPT), f"exit status {ran.code}: {ran.err}"
    assert str(shard) in ran.err and ran.err.count("\n") == 1
    assert not (big / "p").exists() and not (big / "made").exists()
    for made in ("victim", "b", "s"):
        shutil.rmtree(big / made, ignore_errors=True)
    assert {path.name for path in big.iterdir()} <= {"new", "old", "patch", "again", ".island.lock"}
