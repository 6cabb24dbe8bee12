"""Runs the skerry program. SKERRY_BINARY names it; without it, it is the dev preset's."""

import json
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

BINARY = Path(
    os.environ.get("SKERRY_BINARY", Path(__file__).parents[2] / "build" / "dev" / "apps" / "skerry" / "skerry")
).resolve()

OK, FAILED, USAGE, CONFLICT, CORRUPT, UNAVAILABLE = range(6)
KILLED = -signal.SIGKILL


@dataclass
class Ran:
    command: list
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def killed(self):
        return self.code == KILLED


def environment(failpoints=None, **more):
    env = dict(os.environ, **more)
    env.pop("SKERRY_FAILPOINTS", None)
    if failpoints:
        env["SKERRY_FAILPOINTS"] = failpoints
    return env


def skerry(*arguments, failpoints=None, expect=OK, wrapper=(), env=None, timeout=120, cwd=None):
    """Runs one command. `expect`: exit statuses that are right, or None for any."""
    command = [*map(str, wrapper), str(BINARY), *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, cwd=cwd, env=environment(failpoints, **(env or {}))
    )
    ran = Ran(command, done.returncode, done.stdout, done.stderr)
    if expect is not None:
        right = (expect,) if isinstance(expect, int) else tuple(expect)
        assert ran.code in right, f"{' '.join(command)}\nexit status {ran.code}, not {right}\n{ran.out}{ran.err}"
    return ran


def start(*arguments, wrapper=(), failpoints=None, env=None, **popen):
    """Starts one command and leaves it to the caller."""
    popen = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | popen
    return subprocess.Popen(
        [*map(str, wrapper), str(BINARY), *map(str, arguments)], env=environment(failpoints, **(env or {})), **popen
    )


def finish(process, timeout=120):
    out, err = process.communicate(timeout=timeout)
    return Ran(process.args, process.returncode, out, err)
