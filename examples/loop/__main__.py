"""The demo: the whole loop, on this machine.

    PYTHONPATH=examples python -m loop --skerry BINARY --engine-python PYTHON --base DIR --report DIR [--steps N]

`./demo` sets everything up and runs this. Exit code 0 where every claim that must be kept was kept, 1 where not or
where something failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path

from processes import DemoError, Stopped, ignore_signals, stop_on_signals
from report import size
from skerry_cli import SkerryError
from work_folder import folder_bytes, open_memory_folder, open_work_folder

from .conductor import Conductor
from .report import write_report

ISLANDS = 3
NEEDED = 5  # times the base for each island: its checkpoint, what it fetched, room to build in


def run_demo(options: argparse.Namespace, stack: ExitStack) -> int:
    """Make the folders, run the story in them, write the report, and return the exit code."""
    needed = NEEDED * ISLANDS * folder_bytes(options.base)
    work = open_work_folder(options.keep, stack)
    if shutil.disk_usage(work).free < needed:
        raise DemoError(f"{work} has no room: the demo needs {size(needed)}")
    memory = work if options.keep else open_memory_folder(needed, stack) or work
    account = Conductor(options, work, memory, stack).run()
    page = write_report(account, options.report)
    print()
    for claim in account.claims:
        print(f"{'ok' if claim.kept else 'MISSED' if claim.must else 'missed':<7} {claim.name}: {claim.found}")
    print(f"\nThe report: {page}, and report.json beside it")
    return 0 if account.kept else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="loop", description=__doc__.splitlines()[0])
    parser.add_argument("--skerry", type=Path, required=True, help="the skerry binary")
    parser.add_argument("--engine-python", type=Path, required=True, help="the python that has vLLM, TRL and skerry")
    parser.add_argument("--base", type=Path, required=True, help="checkpoint to train")
    parser.add_argument("--report", type=Path, required=True, help="folder for report.html and report.json")
    parser.add_argument(
        "--steps", type=int, default=12, help="at least so many; more until the island that joins has taken part"
    )
    parser.add_argument("--keep", type=Path, help="work here, and leave everything here")
    options = parser.parse_args()
    for name in [name for name in os.environ if name.lower() in ("http_proxy", "https_proxy", "all_proxy")]:
        del os.environ[name]  # everything is on this machine
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
