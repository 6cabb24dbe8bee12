"""Thousands of streams at once through one agent: none is broken, and what memory they take.

SKERRY_STREAMS: how many (1000; with -m slow 8000).
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agent_process import wait_for
from leak_test import gauges, open_files, resident
from many_streams import raise_the_limit

PROGRAM = [sys.executable, str(Path(__file__).parent / "many_streams.py")]
STREAMS = int(os.environ.get("SKERRY_STREAMS", 1000))
SECONDS = 10
MEMORY = 120 << 20  # wanted for 8000


class Engine:
    def __init__(self):
        self.process = subprocess.Popen([*PROGRAM, "serve", str(SECONDS)], stdout=subprocess.PIPE, text=True)
        self.upstream = ("--upstream", f"http://127.0.0.1:{int(self.process.stdout.readline())}")


@contextlib.contextmanager
def engine_of_streams():
    engine = Engine()
    try:
        yield engine
    finally:
        engine.process.kill()
        engine.process.wait()
        engine.process.stdout.close()


class Peak:
    """Samples the memory of a process until it is stopped."""

    def __init__(self, process):
        self.process, self.bytes, self.stop = process, 0, threading.Event()
        self.thread = threading.Thread(target=self._sample, daemon=True)
        self.thread.start()

    def _sample(self):
        while not self.stop.wait(0.1):
            self.bytes = max(self.bytes, resident(self.process))

    def end(self):
        self.stop.set()
        self.thread.join()
        return self.bytes


def streams_through(before, count, summary):
    raise_the_limit()  # the agent has it from here
    with engine_of_streams() as engine:
        a = before(engine)
        idle, files, peak = resident(a.process), open_files(a.process), Peak(a.process)
        address = a.url.removeprefix("http://")
        begin = time.monotonic()
        asked = subprocess.run(
            [*PROGRAM, "ask", address, str(count), str(SECONDS)], capture_output=True, text=True, timeout=300
        )
        seconds, most = time.monotonic() - begin, peak.end()
        assert asked.returncode == 0, asked.stderr
        told = json.loads(asked.stdout)
        late = ", ".join(f"{name} {ms:.0f} ms" for name, ms in told["late_ms"].items())
        summary.append(
            f"proxy: {count} streams of {SECONDS} events at once in {seconds:.0f} s: {told['broken']} broken; resident {idle >> 20} "
            f"MiB idle, {most >> 20} MiB at most (<= {MEMORY >> 20} wanted for 8000); latest event of a stream {late}"
        )
        assert told["broken"] == 0, told
        wait_for(lambda: gauges(a) == [0, 0], "the end of all requests")
        wait_for(lambda: open_files(a.process) < files + count + 50, "the clients' sockets' end")
        return most


def test_many_streams_at_once_are_all_whole(before, summary):
    streams_through(before, STREAMS, summary)


@pytest.mark.slow
def test_8000_streams_at_once_are_all_whole_within_120_MiB(before, summary):
    assert streams_through(before, 8000, summary) <= MEMORY
