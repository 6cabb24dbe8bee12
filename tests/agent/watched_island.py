"""An island that lives through many agents, each of which some fault befalls, and is watched all the while."""

import json
import shutil

from agent_process import Agent, wait_for
from checkpoint_files import files_of
from operations import only_recover
from stand_in import StandIn

KEEP = ("--keep-undo", 4)


class Island:
    """State and engine that live through many agents."""

    def __init__(self, directory, trainer, kind, foreign_patch):
        self.directory, self.trainer, self.foreign_patch = directory, trainer, foreign_patch
        self.engine = StandIn(kind, trainer.path(0))
        self.version = None
        self.running = None

    def begin(self, version, failpoints=None, options=()):
        options = ("--follow", version, *KEEP, *options)
        self.running = Agent(self.directory / "state", self.trainer.board, self.engine, options=options,
                             failpoints=failpoints)  # fmt: skip
        return self.running

    def end(self):
        if self.running:
            self.running.kill()
            self.running.process.stdout.close()

    def close(self):
        self.end()
        self.engine.close()

    def forget_state(self):
        """Nothing is there, as on a new machine."""
        shutil.rmtree(self.directory / "state", ignore_errors=True)
        self.version = None

    def look(self):
        """The running agent's status, after it has been compared with what is so; None where there is no agent."""
        wait_for(lambda: self.running.ended or self.running.is_listening, lambda: f"an agent\n{self.running.log}")
        if self.running.ended:
            return None
        before = self.engine.serves()
        try:
            status = self.running.status()
        except OSError:
            self.running.wait_until_dead()
            return None
        self.assert_honest(status, before)
        return status

    def wait(self, condition, what):
        """The first status that meets the condition, watched all the while; None where the agent ended before."""
        found = None

        def there():
            nonlocal found
            found = self.look()
            return found is None or condition(found)

        wait_for(there, lambda: f"{what}\n{json.dumps(found, indent=1)}\n{self.running.log}")
        return found

    def wait_for_version(self, version):
        def there(status):
            return status["serves"] == f"r@{version}" and status["phase"] == "waiting" and status["ready"]

        status = self.wait(there, f"version {version}")
        if status:
            self.assert_exactly(version)
            self.version = version
        return status

    def go_to(self, version, options=()):
        """Without an accident."""
        self.begin(version, options=options)
        assert self.wait_for_version(version), self.running.log
        self.end()

    def assert_honest(self, status, before):
        """Who is said to be in rotation serves what is said. `before`: what it served before the status was asked for;
        in the middle of a switch the status is that of before the switch."""
        (engine,) = status["engines"] or [{"in_rotation": False}]
        if engine["in_rotation"] and status["phase"] != "switching":
            claimed = self.trainer.digest(int(engine["serves"].split("@")[1]))
            assert claimed in (before, self.engine.serves()), f"{engine['serves']} is claimed, but not served"

    def assert_exactly(self, version):
        assert files_of(self.directory / "state" / "checkpoint") == self.trainer.files(version)
        assert self.engine.serves() == self.trainer.digest(version)
        assert not self.engine.paused

    def assert_old_or_new(self, old, new):
        """Of a copy, whose recovery ends by a patch that does not fit. Each version on the way is a move of its own."""
        checkpoint = self.directory / "state" / "checkpoint"
        if not checkpoint.exists():
            assert old is None, "the old version has vanished"
            return
        copy = self.directory / "copy"
        shutil.copytree(checkpoint, copy)
        only_recover(copy, self)
        passed = range(0, new + 1) if old is None else range(min(old, new), max(old, new) + 1)
        there = files_of(copy)
        assert any(there == self.trainer.files(version) for version in passed), there
        shutil.rmtree(copy)

    @property
    def patch(self):
        return {"foreign": self.foreign_patch}
