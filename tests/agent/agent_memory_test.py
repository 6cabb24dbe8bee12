"""An agent's own memory stays bounded whatever the size of the checkpoint.

SKERRY_AGENT_GIB=8 makes the checkpoint so large. On disk: 4 to 5 times that.
"""

import json
import os
import threading
import time

import numpy as np
import pytest

from agent_process import Agent, wait_for
from checkpoint_files import files_of
from program import skerry

GIB = float(os.environ.get("SKERRY_AGENT_GIB", "1"))
BOUND = 200 << 20
TENSOR = 64 << 20
SHARDS = 2
CHANGED = 256  # one element in so many changes with a version
PATIENCE = 3600


def write_base(directory):
    """bf16 bits of random weights."""
    directory.mkdir()
    (directory / "config.json").write_text("{}")
    noise = np.random.default_rng(1).integers(0x3800, 0x3FF0, TENSOR // 2, dtype=np.uint16)
    count, index = max(1, int(GIB * (1 << 30)) // SHARDS // TENSOR), {}
    for shard in range(SHARDS):
        file = f"model-{shard + 1:05d}-of-{SHARDS:05d}.safetensors"
        names = [f"layers.{i}.{shard}" for i in range(count)]
        header = {
            name: {"dtype": "BF16", "shape": [TENSOR // 2], "data_offsets": [i * TENSOR, (i + 1) * TENSOR]}
            for i, name in enumerate(names)
        }
        index |= dict.fromkeys(names, file)
        text = json.dumps(header).encode()
        with open(directory / file, "wb") as out:
            out.write(len(text).to_bytes(8, "little") + text)
            for i in range(count):
                out.write(np.roll(noise, i + 17 * shard))
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))


def train(directory, version):
    """In place: some elements of all tensors grow by one."""
    random = np.random.default_rng(version)
    for path in sorted(directory.glob("*.safetensors")):
        begin = 8 + int.from_bytes(path.open("rb").read(8), "little")
        weights = np.memmap(path, dtype=np.uint16, mode="r+", offset=begin)
        for start in range(0, weights.size, TENSOR // 2):
            part = weights[start : start + TENSOR // 2]
            part[random.integers(0, part.size, part.size // CHANGED)] += 1
        weights.flush()


class Peak:
    """Samples the anonymous memory of a process until it ends."""

    def __init__(self, pid):
        self.pid, self.bytes, self.samples = pid, 0, 0
        self.thread = threading.Thread(target=self._sample, daemon=True)
        self.thread.start()

    def _sample(self):
        while True:
            try:
                with open(f"/proc/{self.pid}/status") as status:
                    line = next(line for line in status if line.startswith("RssAnon:"))
            except (OSError, StopIteration):
                return
            self.bytes, self.samples = max(self.bytes, int(line.split()[1]) << 10), self.samples + 1
            time.sleep(0.002)


def without_weights(engine):
    """It says that it has taken what it was told, and the agent has the work of collecting the changes."""

    def stage(worker, label, checkpoint, positions):
        with engine.contract.lock:
            worker.staged, worker.state = {}, "prepared"

    engine.contract.stage = stage
    return engine


@pytest.mark.slow
def test_L2_memory_of_an_agent_is_bounded_over_an_anchor_and_three_versions(disk_dir, summary, engine):
    checkpoint, board = disk_dir / "trainer", disk_dir / "b"
    write_base(checkpoint)
    skerry("init", board, "--run", "r", "--base", checkpoint, timeout=PATIENCE)
    weightless = without_weights(engine("vllm plugin"))
    agent = Agent(disk_dir / "state", board, weightless, options=("--threads", 2, "--scrub-rate", 20))
    peak = Peak(agent.process.pid)
    try:
        peaks = []
        for version in range(4):
            if version:
                train(checkpoint, version)
                skerry("publish", board, checkpoint, "--run", "r", "--state", disk_dir / "s", timeout=PATIENCE)
            label = f"r@{version}"
            wait_for(lambda label=label: agent.status()["serves"] == label, label, PATIENCE)
            assert files_of(agent.state / "checkpoint") == files_of(checkpoint), f"version {version}"
            assert agent.status()["last_update"]["engines_by_changes"] == (1 if version else 0)
            peaks.append(peak.bytes)
    finally:
        agent.kill()
        agent.process.stdout.close()
    size = sum(path.stat().st_size for path in checkpoint.glob("*.safetensors")) / (1 << 30)
    shown = ", ".join(f"{bytes >> 20}" for bytes in peaks)
    summary.append(f"agent with {size:.1f} GiB: at most {shown} MiB of anonymous memory by versions 0 to 3")
    assert peak.samples > 100 and peaks[-1] <= BOUND, shown
