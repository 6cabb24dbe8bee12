#!/usr/bin/env python3
"""How long requests stand still at a weight switch: vLLM's own reload against Skerry's plugin, on one server, in turns.

usage: VLLM_PYTHON=PYTHON vllm_pause.py MODEL [--changed 0.001] [--rounds 9] [--host unpacked|packed]... [--work DIR]

MODEL is a Hugging Face directory with one bf16 model.safetensors; examples/make_smollm2.py makes one. A copy of it gets
`changed` of the elements of every tensor moved, and the server goes to and fro between the two. Hosts:
  unpacked   matrices as in the checkpoint (any machine: oneDNN is held to AVX2), elements are scattered in place
  packed     the matrices that this machine's vLLM packs in bf16 (AVX-512), or in float32 where it packs none
One round: stock = pause, reload_weights, reset_prefix_cache, update_weight_version, resume; plugin = pause, commit,
update_weight_version, reset_prefix_cache, verify, resume. What is prepared before the pause is timed apart. Prints the
medians and the ratio of plugin to stock; other work on the machine disturbs both, so only ratios count.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "vllm"))

import checkpoints  # noqa: E402
from server import UNPACKED, Server  # noqa: E402


def timed(times, name, call):
    started = time.perf_counter()
    result = call()
    times.setdefault(name, []).append(1000 * (time.perf_counter() - started))
    return result


def stock(server, directory):
    server.call("/pause?mode=keep")
    server.rpc("reload_weights", weights_path=directory)
    server.call("/reset_prefix_cache")
    server.call("/update_weight_version", {"new_version": directory})
    server.call("/resume")


def plugin(server, label, times):
    server.call("/pause?mode=keep")
    commit = timed(times, "plugin: commit call", lambda: server.rpc("skerry_commit", label=label))
    server.call("/update_weight_version", {"new_version": label})
    server.call("/reset_prefix_cache")
    verify = timed(times, "plugin: verify call", lambda: server.rpc("skerry_verify", label=label))
    server.call("/resume")
    if not (commit["ok"] and verify["ok"]):
        raise SystemExit(f"vllm_pause: {commit} {verify}")
    times.setdefault("plugin: commit in the worker", []).append(1000 * commit["seconds"])


def measure(server, versions, positions, rounds):
    times = {}
    label = "start"
    server.move(label, versions[0])
    for r in range(rounds + 1):
        here, there = versions[r % 2], versions[(r + 1) % 2]
        timed(times, "stock pause", lambda: stock(server, here))
        base, label = label, f"round-{r}"
        answer = timed(times, "plugin: prepared while serving", lambda: server.prepare(label, base, there, positions))
        if not answer["ok"]:
            raise SystemExit(f"vllm_pause: {answer}")
        timed(times, "plugin pause", lambda: plugin(server, label, times))
    return {name: values[1:] for name, values in times.items()}, server.rpc("skerry_status")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--changed", type=float, default=0.001)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--host", action="append", choices=["unpacked", "packed"])
    parser.add_argument("--work")
    a = parser.parse_args()
    python = os.environ.get("VLLM_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory(dir=a.work) as work:
        base = os.path.join(work, "model")
        os.symlink(os.path.abspath(a.model), base)
        versions = checkpoints.make_versions(base, 2, a.changed)
        flags = open("/proc/cpuinfo").read()
        for host in a.host or ["unpacked", "packed"]:
            dtype = "float32" if host == "packed" and "avx512f" not in flags else "bfloat16"
            environment = UNPACKED if host == "unpacked" else {}
            with Server(python, versions[0], os.path.join(work, "log"), dtype=dtype, environment=environment) as server:
                times, status = measure(server, versions, base + "-v1.positions", a.rounds)
            plan, stats = status["plan"], status["stats"]
            print(f"{host} ({dtype}): {len(plan['scatter'])} parameters scattered, {len(plan['repack'])} packed, "
                  f"{stats['scattered']} elements stored, {stats['repacked']} repacked, peak {status['rss_mb']} MB")
            for name, values in times.items():
                print(f"  {name:32} {statistics.median(values):8.1f} ms  ({min(values):.1f} .. {max(values):.1f})")
            ratio = statistics.median(times["plugin pause"]) / statistics.median(times["stock pause"])
            limit = 1.0 if host == "packed" else 0.35
            print(f"  plugin / stock = {ratio:.3f} (median of {a.rounds}; wanted <= {limit}): "
                  f"{'met' if ratio <= limit else 'MISSED'}", flush=True)


if __name__ == "__main__":
    main()
