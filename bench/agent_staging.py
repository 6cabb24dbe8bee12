"""What staging costs a running stream: token latency of a vLLM server while its agent stages versions, beside idle.

    python bench/agent_staging.py SKERRY CHAIN --vllm-python V/bin/python [--rate MB/s] [--rounds 3] [--tokens 400]

CHAIN holds v000, v001, … of a model that vLLM can serve. They are published first; then the agent is told to go forward and
back over them without a pause, while one request streams tokens. Engine and agent share the machine's cores. Prints the
median and 90th percentile of the time between two tokens, idle and staging, alternating, and how much of the time the
agent was at work.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "vllm")]
from server import Server  # noqa: E402


def gaps_of_a_stream(server, tokens):
    """Seconds between two tokens of one request."""
    body = {"model": "m", "prompt": [5, 6, 7, 8], "max_tokens": tokens, "ignore_eos": True, "stream": True, "temperature": 0}
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    times = []
    with urllib.request.urlopen(request, timeout=600) as answer:
        for line in answer:
            if line.startswith(b"data: {"):
                times.append(time.monotonic())
    return [b - a for a, b in zip(times, times[1:])]


class Agent:
    def __init__(self, skerry, board, state, port, rate):
        self.skerry, self.state = skerry, state
        command = [skerry, "agent", "--board", board, "--run", "r", "--state", state, "--listen", "127.0.0.1:0", "--follow", "0"]
        command += ["--engine", f"vllm=http://127.0.0.1:{port}", "--poll", "100", "--stage-rate", str(rate), "--scrub-rate", "0"]
        self.process = subprocess.Popen(list(map(str, command)), stderr=subprocess.DEVNULL)
        self.wait_for(0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def wait_for(self, version):
        while self.status().get("version") != version:
            if self.process.poll() is not None:
                sys.exit("agent_staging: the agent has ended")
            time.sleep(0.02)

    def status(self):
        ran = subprocess.run([self.skerry, "status", "--state", self.state, "--json"], capture_output=True, text=True)
        return json.loads(ran.stdout) if ran.returncode == 0 else {}

    def go_to(self, version):
        subprocess.run([self.skerry, "agent", "follow", str(version), "--state", self.state], check=True, capture_output=True)
        self.wait_for(version)


def keep_staging(agent, last, stop, work):
    version = 0
    while not stop.is_set():
        version = version + 1 if version < last else 0
        began = time.monotonic()
        agent.go_to(version)
        work.append((time.monotonic() - began, agent.status()["last_update"]["seconds"]["paused"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("skerry")
    parser.add_argument("chain", type=Path)
    parser.add_argument("--vllm-python", required=True)
    parser.add_argument("--rate", type=int, default=0, help="--stage-rate of the agent")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=400)
    options = parser.parse_args()
    versions = sorted(options.chain.glob("v[0-9]*"))
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        run = lambda *command: subprocess.run([options.skerry, *map(str, command)], check=True, capture_output=True)  # noqa: E731
        run("init", work / "b", "--run", "r", "--base", versions[0])
        for version in versions[1:]:
            run("publish", work / "b", version, "--run", "r", "--state", work / "s")
        with (
            Server(options.vllm_python, str(versions[0]), work / "vllm.log") as server,
            Agent(options.skerry, work / "b", work / "state", server.port, options.rate) as agent,
        ):
            idle, staging, moves = [], [], []
            gaps_of_a_stream(server, 50)
            for _ in range(options.rounds):
                idle += gaps_of_a_stream(server, options.tokens)
                stop = threading.Event()
                thread = threading.Thread(target=keep_staging, args=(agent, len(versions) - 1, stop, moves))
                thread.start()
                staging += gaps_of_a_stream(server, options.tokens)
                stop.set()
                thread.join()
    for name, gaps in (("idle", idle), ("staging", staging)):
        cut = statistics.quantiles(gaps, n=10)
        print(f"{name:8} p50 {cut[4] * 1000:6.1f} ms  p90 {cut[8] * 1000:6.1f} ms  ({len(gaps)} tokens)")
    print(f"p50 ratio {statistics.median(staging) / statistics.median(idle):.3f}, {len(moves)} versions staged and committed, "
          f"{sum(m[0] for m in moves):.1f} s of {sum(staging):.1f} s, paused {sum(m[1] for m in moves):.2f} s")


if __name__ == "__main__":
    main()
