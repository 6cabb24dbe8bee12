"""The `skerry` commands that the examples use, as Python methods."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

UNAVAILABLE = 5  # the exit code for "try again"


class SkerryError(Exception):
    """A `skerry` command that failed: its exit code and what it printed on stderr."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def may_pass(self) -> bool:
        """Whether the same command may work a moment later."""
        return self.code == UNAVAILABLE


@dataclass(frozen=True)
class Skerry:
    """One run on one board, seen through the `skerry` binary.

    Every method returns the command's JSON answer, and raises SkerryError where it failed.
    """

    binary: Path
    board: str
    run: str
    more_environment: Mapping[str, str] = field(default_factory=dict)

    def init(self, base: Path) -> dict[str, Any]:
        """Create the run; version 0 is the checkpoint directory `base`."""
        return self._call("init", "--base", str(base))

    def publish(self, checkpoint: Path, step: int, state: Path) -> dict[str, Any]:
        """Publish the checkpoint as the next version. `state` is the publisher's own folder."""
        return self._call("publish", str(checkpoint), "--step", str(step), "--state", str(state))

    def head(self) -> dict[str, Any]:
        """The newest version, and who moved the head there."""
        return self._call("head")

    def log(self) -> list[dict[str, Any]]:
        """All versions, newest first."""
        return self._call("log", "--limit", "1000000")["versions"]

    def pull(self, directory: Path, version: int) -> dict[str, Any]:
        """Make `directory` hold the given version, by patches from the one that it holds."""
        return self._call("pull", "-o", str(directory), "--version", str(version))

    def _call(self, command: str, *arguments: str) -> dict[str, Any]:
        line = [str(self.binary), command, self.board, "--run", self.run, *arguments, "--json"]
        environment = {**os.environ, **self.more_environment}
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment)
        if done.returncode != 0:
            message = done.stderr.strip() or f"skerry {command}: exit code {done.returncode}"
            raise SkerryError(done.returncode, message)
        return json.loads(done.stdout)
