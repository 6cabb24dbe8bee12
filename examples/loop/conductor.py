"""The story of the whole loop: what is started when, who is killed, who joins, what is compared when all is still."""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from event_log import EventReader
from processes import DemoError, Process
from report import size
from skerry_cli import Skerry

from . import panel
from .claims import claims
from .final_checks import FinalChecks, check_all
from .history import History
from .island import RUN, Island, Place
from .link import LinkLoop
from .measures import Way, measure
from .namespaces import Namespace, why_there_are_none
from .report import Account
from .seaweedfs import CLIENT_ENVIRONMENT, SeaweedFS, board_url
from .view import View, duration

RATE = 20e6  # bits a second, of each island's link
DELAY = 0.020  # seconds each way
KILL_IN_STEP = 3
STEPS_WITH_THE_NEW_ONE = 3
TICK = 0.02  # seconds between looks at what has happened
START_PATIENCE = 900.0  # seconds for islands to be ready; they fetch a model and start an engine on a busy machine
# Its threads must not spin while they wait for one another: engines want the cores.
TRAINER_ENVIRONMENT = {"OMP_WAIT_POLICY": "passive", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
SETTLE_PATIENCE = 180.0  # seconds for islands to reach the last version


class Conductor:
    """One run in the folder `work`, with what is rewritten often in `memory`."""

    def __init__(self, options: argparse.Namespace, work: Path, memory: Path, stack: ExitStack) -> None:
        self.history = History()
        self.islands: list[Island] = []
        self.way = Way(RATE, 2 * DELAY)
        self.why_no_namespaces: str | None = None
        self._options = options
        self._work = work
        self._memory = memory
        self._stack = stack
        self._view = View()
        self._logs = options.report / "logs"
        self._told: dict[str, int] = {}  # updates of each island that have been shown
        self._began = time.monotonic()
        self._began_at = time.time()

    def run(self) -> Account:
        """From nothing to the account of it all. Raises DemoError where it can't go on."""
        self._prepare()
        self._add_island("north", 0)
        self._add_island("south", 1)
        trainer, events = self._start_trainer()
        self._wait(self._all_ready, "the islands", START_PATIENCE, trainer, events)
        self._say(f"both islands serve {RUN}@0: the trainer begins")
        self._name_islands(trainer)
        self._train(trainer, events)
        self._settle()
        return self._account(self._compare())

    # Beginning

    def _prepare(self) -> None:
        shutil.rmtree(self._logs, ignore_errors=True)
        self._logs.mkdir(parents=True)
        self.why_no_namespaces = why_there_are_none(RATE, self._logs)
        options = self._options
        self._say(f"{options.base.name}, GRPO by TRL, {options.steps} steps or more; all output in {self._logs}")
        self._say(self._network_in_words())
        seaweed = SeaweedFS(self._work / "seaweedfs", self._logs)
        self._stack.callback(seaweed.stop)
        seaweed.wait_until_up()
        self._board = board_url(seaweed.endpoint)
        self._skerry = Skerry(options.skerry, self._board, RUN, CLIENT_ENVIRONMENT)
        made = self._skerry.init(options.base)
        self._say(f"board in SeaweedFS, run {RUN}: version 0 is the base, {size(made['bytes'])}")
        loop = self._stack.enter_context(LinkLoop())
        self._place = Place(
            skerry=options.skerry,
            engine_python=options.engine_python,
            base=options.base,
            folder=self._memory,
            logs=self._logs,
            board_port=seaweed.port,
            loop=loop,
            delay=DELAY,
            rate=RATE,
        )

    def _network_in_words(self) -> str:
        rate, trip = f"{RATE / 1e6:.0f} Mbit/s", f"{2000 * DELAY:.0f} ms of round trip"
        if self.why_no_namespaces is None:
            return f"Each island has a network namespace of its own, behind {rate} (tbf) and {trip} (a proxy)."
        why = self.why_no_namespaces
        return f"NO NETWORK NAMESPACES ({why}): all is on loopback, and a proxy alone makes {rate} and {trip}."

    def _add_island(self, name: str, half: int) -> Island:
        """`half` of the machine's cores is for its engine."""
        namespace = Namespace(name, RATE, self._logs) if self.why_no_namespaces is None else None
        if namespace:
            self._stack.callback(namespace.close)
        island = Island(name, self._place, namespace, cores_of_half(half))
        self._stack.callback(island.close)
        self.islands.append(island)
        self._say(f"{name} starts: an engine without weights, and an agent that fetches the model")
        return island

    def _start_trainer(self) -> tuple[Process, EventReader]:
        events, options = self._logs / "trainer.jsonl", self._options
        command = [
            options.engine_python, "-m", "loop.trainer", "--board", self._board, "--run", RUN, "--base", options.base,
            "--served", self._memory / "served", "--state", self._memory / "trainer", "--events", events,
            "--steps", str(options.steps),
        ]  # fmt: skip
        environment = CLIENT_ENVIRONMENT | TRAINER_ENVIRONMENT
        trainer = Process("trainer", command, self._logs / "trainer.log", more_environment=environment, commanded=True)
        self._stack.callback(trainer.stop)
        return trainer, EventReader(events)

    # Training

    def _train(self, trainer: Process, events: EventReader) -> None:
        """Until the trainer has ended: an island dies in mid-step, another one joins."""
        new: Island | None = None
        told = False  # that the trainer may end
        while self._tick(trainer, events):
            if len(self.history.steps) >= KILL_IN_STEP and new is None and self._in_flight(self.islands[1]):
                self._kill(self.islands[1])
                new = self._add_island("west", 1)
                self._name_islands(trainer)
            elif new and new.ready and new.name not in self._named:
                self._say(f"{new.name} serves {new.updates[0].told['to']}: it has joined")
                self._name_islands(trainer)
            elif new and new.ready and not told and self._steps_with(new) >= STEPS_WITH_THE_NEW_ONE:
                trainer.tell("enough")
                told = True
            time.sleep(TICK)

    def _kill(self, island: Island) -> None:
        running = self._in_flight(island)
        island.kill()
        step = len(self.history.steps)
        self._say(f"KILLED {island.name} (kill -9 of agent and engine) in step {step}, with {running} requests on it")

    @staticmethod
    def _in_flight(island: Island) -> int:
        """Requests of the trainer that it has and has not answered."""
        return sum(e.status is None and e.min_version is not None for e in island.record().answers())

    def _steps_with(self, island: Island) -> int:
        """Finished steps for which it has given the trainer answers."""
        given = [e.began for e in island.record().given() if e.min_version is not None]
        return sum(any(step.began <= g <= (step.rewarded or 0.0) for g in given) for step in self.history.steps)

    def _name_islands(self, trainer: Process) -> None:
        """Tell the trainer which islands there are to sample from."""
        self._named = {island.name for island in self.islands if island.alive and island.ready}
        trainer.tell("islands " + " ".join(island.url for island in self.islands if island.name in self._named))

    # Watching

    def _all_ready(self) -> bool:
        return self.history.ready and all(island.ready for island in self.islands)

    def _wait(
        self, condition: Callable[[], bool], what: str, patience: float, trainer: Process, events: EventReader
    ) -> None:
        end = time.monotonic() + patience
        while not condition():
            if not self._tick(trainer, events):
                raise DemoError(f"the trainer ended while {what} were waited for")
            if time.monotonic() > end:
                raise DemoError(f"waited {patience:.0f} s for {what}")
            time.sleep(TICK)

    def _tick(self, trainer: Process | None = None, events: EventReader | None = None) -> bool:
        """Take what has happened and show it. Returns whether the trainer runs."""
        running = trainer.running() if trainer else False
        for event in events.read() if events else ():
            self.history.add(event)
            if event["event"] == "published":
                for island in self.islands:
                    if island.alive:
                        island.wake()
                self._say(panel.step_line(self.history.step_of(event["step"])))
        for island in self.islands:
            island.check()
            for update in island.updates[self._told.get(island.name, 0) :]:
                self._told[island.name] = self._told.get(island.name, 0) + 1
                self._say(panel.update_line(island.name, update, self.history))
        self._view.panel(lambda: panel.lines(self.history, self.islands, self._options.steps, self._elapsed))
        return running

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _say(self, line: str) -> None:
        self._view.say(f"{duration(self._elapsed):>7}  {line}")

    # The end

    def _settle(self) -> None:
        """Until all living islands serve the last version."""
        end, head = time.monotonic() + SETTLE_PATIENCE, self.history.head
        while any(island.alive and not island.is_settled_at(head) for island in self.islands):
            self._tick()
            if time.monotonic() > end:
                raise DemoError(f"not all islands have reached version {head} after {SETTLE_PATIENCE:.0f} s")
            time.sleep(TICK)

    def _compare(self) -> FinalChecks:
        living = [island for island in self.islands if island.alive]
        self._view.close_panel()
        self._say(f"comparing all there is at version {self.history.head}; a fresh engine starts on a fresh checkpoint")
        return check_all(self.history, living, self._skerry, self._place, cores_of_half(0))

    def _account(self, final: FinalChecks) -> Account:
        records = [island.record() for island in self.islands]
        for record in records:
            record.write_trace(self._logs / f"{record.name}-exchanges.jsonl")
        figures = measure(self.history, records, self.way)
        return Account(
            model=self._options.base.name,
            began=self._began_at,
            seconds=self._elapsed,
            network=self._network_in_words(),
            way=self.way,
            figures=figures,
            claims=claims(figures, len(self.history.steps), final),
        )


def cores_of_half(half: int) -> list[int]:
    """The first or second half of the cores that we may use; the only one where there is one."""
    cores = sorted(os.sched_getaffinity(0))
    middle = max(1, len(cores) // 2)
    return [cores[:middle], cores[middle:] or cores][half]
