"""The simple demo: a trainer publishes versions, an island follows, both are compared.

    python examples/demo.py --skerry BINARY --base DIR --steps 12 [--keep DIR]

`./demo --simple` sets everything up and runs this. The trainer (train_grpo.py) and the island (island.py)
are processes of their own that share nothing but the board; this one starts them, shows their
events as they come, and judges the result: exit code 0 where every version's files on the island
are byte for byte what the trainer served, 1 where not or where something failed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import report
from event_log import EventReader
from processes import DemoError, Process, Stopped, ignore_signals, stop_on_signals
from skerry_cli import Skerry, SkerryError
from work_folder import folder_bytes, open_memory_folder, open_work_folder

EXAMPLES = Path(__file__).resolve().parent
RUN = "grpo-1"
LEARNING_RATE = 1e-6
POLL_SECONDS = 0.1
ISLAND_PATIENCE_SECONDS = (
    120.0  # how long the island may take for its next version once the trainer is done
)

PARTS = {
    "sample": "sampling answers",
    "learn": "computing gradients",
    "serve": "rounding to bf16",
    "hash": "hashing",
    "publish": "publishing",
}


class Screen:
    """Lines that stay, and on a terminal one status line below them that does not."""

    def __init__(self) -> None:
        self._live = sys.stdout.isatty()

    def say(self, line: str = "") -> None:
        """Print a line that stays."""
        print(("\r\x1b[K" if self._live else "") + line, flush=True)

    def status(self, text: str) -> None:
        """Show what is going on right now, in place of the last status."""
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            print("\r\x1b[K" + text[:width], end="", flush=True)


class Program:
    """An example program as a process, and the events that it tells."""

    def __init__(self, name: str, arguments: list[str], logs: Path, nice: int) -> None:
        events = logs / f"{name}.jsonl"
        command = [sys.executable, *arguments, "--events", str(events)]
        self.process = Process(name, command, logs / f"{name}.log", nice=nice)
        self.events = EventReader(events)


class Demo:
    """One run of the demo in the folder `work`; the trainer keeps its view in `served`."""

    def __init__(self, options: argparse.Namespace, work: Path, served: Path, stack: ExitStack):
        self._screen = Screen()
        self._options = options
        self._work = work
        self._served = served
        self._stack = stack
        self._logs = work / "logs"
        self._skerry = Skerry(options.skerry, str(work / "board"), RUN)
        self._base_files: dict[str, str] = {}
        self._steps: list[dict[str, Any]] = []
        self._versions: dict[int, dict[str, Any]] = {}

    def run(self) -> bool:
        """The whole demo; returns whether the island's versions are those of the trainer."""
        options = self._options
        say = self._screen.say
        self._logs.mkdir()
        rate = f"{LEARNING_RATE:g}".replace("e-0", "e-")
        say(f"{options.base.name}: {options.steps} GRPO steps, AdamW at {rate}, one island")
        say()
        made = self._skerry.init(options.base)
        say(f"board run {RUN}, v0 is the base, {report.size(made['bytes'])}")

        island = self._start("island", ["--state", str(self._work / "island")], nice=5)
        trainer = self._start(
            "trainer",
            ["--base", str(options.base), "--served", str(self._served)]
            + ["--state", str(self._work / "trainer")]
            + ["--steps", str(options.steps), "--lr", str(LEARNING_RATE)],
        )
        self._follow(trainer, island)
        return self._judge()

    def _start(self, name: str, arguments: list[str], nice: int = 0) -> Program:
        program = {"trainer": "train_grpo.py", "island": "island.py"}[name]
        where = ["--skerry", str(self._options.skerry), "--board", self._skerry.board, "--run", RUN]
        child = Program(name, [str(EXAMPLES / program), *where, *arguments], self._logs, nice)
        self._stack.callback(child.process.stop)
        return child

    def _follow(self, trainer: Program, island: Program) -> None:
        """Show events until the trainer is done and the island holds its last version."""
        doing, since = "starting up", time.monotonic()
        heard = since  # from the island, or from the trainer for the last time
        training = True
        while True:
            if training:
                heard = time.monotonic()
                training = trainer.process.running()
            for event in trainer.events.read():
                if event["event"] == "part":
                    doing = f"step {event['step']}: {PARTS[event['part']]}"
                    since = time.monotonic()
                elif event["event"] == "step":
                    self._steps.append(event)
                    self._show_step(event)
                else:
                    self._base_files = event["files"]
            if not island.process.running():
                raise DemoError("the island ended before the trainer")
            for event in island.events.read():
                self._versions[event["version"]] = event
                self._show_version(event)
                heard = time.monotonic()

            if not training:
                doing, since = "waiting for the island", heard
                if all(step["receipt"]["version"] in self._versions for step in self._steps):
                    return
                if time.monotonic() - heard > ISLAND_PATIENCE_SECONDS:
                    raise DemoError("the island does not get the last version")
            self._screen.status(f"{doing} … {time.monotonic() - since:.0f} s")
            time.sleep(POLL_SECONDS)

    def _show_step(self, event: dict[str, Any]) -> None:
        receipt = event["receipt"]
        self._screen.say(
            f"step {event['step']:>2}/{self._options.steps}"
            f"  reward {event['reward']:+.3f}  loss {event['loss']:+.3f}"
            f"  changed {100 * receipt['density']:.3f} %"
            f"  patch {report.size(receipt['patch_bytes']):>8}"
            f"  {sum(event['seconds'].values()):5.1f} s"
        )

    def _show_version(self, event: dict[str, Any]) -> None:
        self._screen.say(
            f"island v{event['version']:<3}"
            f"  fetched {report.size(event['receipt']['bytes_fetched']):>8}"
            f"  answers {printable(event['answer'])}"
            f"  log p(sum) {event['sum_log_probability']:.3f}"
        )

    def _judge(self) -> bool:
        """Print the table and compare the digests that both sides wrote down."""
        say = self._screen.say
        published = [step for step in self._steps if step["receipt"]["published"]]
        say()
        say(report.table(published, self._versions))
        say()
        if published:
            patches = sum(step["receipt"]["patch_bytes"] for step in published)
            whole = sum(step["receipt"]["checkpoint_bytes"] for step in published)
            say(
                f"{len(published)} versions: {report.size(patches)} of patches instead of "
                f"{report.size(whole)} of checkpoints, {whole / patches:,.0f} times smaller."
            )

        served = {0: self._base_files}
        served |= {step["receipt"]["version"]: step["files"] for step in self._steps}
        wrong = [
            f"version {version}: {difference}"
            for version, files in served.items()
            for difference in report.differences(files, self._versions[version]["files"])
        ]
        if wrong:
            say("NOT IDENTICAL: what the island rebuilt is not what the trainer served.")
            for line in wrong:
                say(f"  {line}")
            return False
        say(
            f"Identical: all {len(self._base_files)} files of each of versions 0 to {max(served)} "
            "have the SHA-256 on the island that they had at the trainer."
        )
        return True


def printable(answer: str, longest: int = 24) -> str:
    """An answer in quotes, on one line, of at most `longest` characters."""
    clean = "".join(c if c.isprintable() and c != "\ufffd" else "·" for c in answer)
    return f'"{clean}"' if len(clean) <= longest else f'"{clean[: longest - 1]}…"'


def run_demo(options: argparse.Namespace, stack: ExitStack) -> int:
    """Make the folders, run the demo in them, and return the exit code."""
    needed = folder_bytes(options.base)
    work = open_work_folder(options.keep, stack)
    if shutil.disk_usage(work).free < 6 * needed:
        raise DemoError(f"{work} has no room: the demo needs {report.size(6 * needed)}")
    if options.keep is not None:
        kept_base = work / "base" / options.base.name
        shutil.copytree(options.base, kept_base)
        options.base = kept_base
    served = (open_memory_folder(needed, stack) or work) / "served"  # every step rewrites it
    identical = Demo(options, work, served, stack).run()
    if options.keep is not None:
        print(f"Kept in {work}: base, board, trainer, island and logs.")
    return 0 if identical else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--skerry", type=Path, required=True, help="the skerry binary")
    parser.add_argument("--base", type=Path, required=True, help="checkpoint to train")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--keep", type=Path, help="work here, and leave everything here")
    options = parser.parse_args()
    stop_on_signals()
    try:
        with ExitStack() as stack:
            try:
                return run_demo(options, stack)
            finally:
                ignore_signals()  # what follows is the cleaning up
    except Stopped as stopped:
        print("\nstopped", file=sys.stderr)
        return 128 + stopped.number
    except (DemoError, SkerryError) as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
