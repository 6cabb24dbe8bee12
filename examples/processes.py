"""Programs that the demos start, and the signals that stop the demos."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

LOG_TAIL = 15  # lines
STOP_PATIENCE = 5.0  # seconds between asking and forcing
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class DemoError(Exception):
    """The demo cannot go on; the message is for the person at the terminal."""


class Stopped(Exception):
    """A signal asks the demo to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@functools.cache
def _guard() -> subprocess.Popen[bytes]:
    """In a session of its own: what ends the demo does not end it."""
    command = [sys.executable, str(Path(__file__).with_name("guard.py"))]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)


def tell_guard(line: str) -> None:
    """Say what has to be ended or removed should this process be killed; guard.py has the words."""
    pipe = _guard().stdin
    assert pipe is not None
    pipe.write(line.encode() + b"\n")
    pipe.flush()


class Process:
    """A program in a session of its own, so that it can be ended with all that it starts. Its output goes to a log."""

    def __init__(
        self, name: str, command: Sequence[str | Path], log: Path, *, more_environment: Mapping[str, str] | None = None,
        nice: int = 0, commanded: bool = False,
    ) -> None:  # fmt: skip
        """`commanded`: it reads lines that `tell` sends; else it has nothing to read."""
        self.name = name
        self._log = log
        prefix = ["nice", "-n", str(nice)] if nice else []
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*prefix, *map(str, command)],
                stdin=subprocess.PIPE if commanded else subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(more_environment or {})},
                start_new_session=True,
            )
        tell_guard(f"group {self._process.pid}")

    @property
    def pid(self) -> int:
        return self._process.pid

    def running(self) -> bool:
        """Whether it still runs. Raises DemoError where it failed."""
        code = self._process.poll()
        if code:
            raise DemoError("\n  ".join([f"the {self.name} failed (exit code {code}):", *self.log_tail()]))
        return code is None

    def log_tail(self) -> list[str]:
        """The last lines of its output."""
        return self._log.read_text(errors="replace").splitlines()[-LOG_TAIL:]

    def tell(self, line: str) -> None:
        """Send it a line. Nothing happens where it has ended."""
        assert self._process.stdin is not None, f"the {self.name} reads nothing"
        with contextlib.suppress(BrokenPipeError):  # running() tells why
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def kill(self) -> None:
        """End it and all that it started at once, as a machine that loses its power."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        tell_guard(f"ended {self._process.pid}")

    def stop(self) -> None:
        """End it and all that it started: politely, then by force."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # what was told and not read
                self._process.stdin.close()
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=STOP_PATIENCE)
        self.kill()  # also what it started and left behind

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def stop_on_signals() -> None:
    """Turn Ctrl-C and friends into an exception, on whose way out all is ended and removed."""

    def stop(number: int, frame: FrameType | None) -> None:
        ignore_signals()
        raise Stopped(number)

    for number in STOP_SIGNALS:
        signal.signal(number, stop)


def ignore_signals() -> None:
    """Let nothing but SIGKILL interrupt this process from now on."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
