"""`python -m skerry.views CHECKPOINT --view NAME -o OUT`: makes a served checkpoint."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Sequence

from skerry.errors import Conflict, Corrupt, Invalid, SkerryError, Unavailable
from skerry.views import NAMES, SCALES, SKIP, View, Written

_STATUS = ((Conflict, 3), (Corrupt, 4), (Unavailable, 5))


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 ok, 1 failed, 2 usage, 3 the output is there already, 4 corrupt data, 5 unavailable."""
    options = _parser().parse_args(arguments)
    try:
        view = View(options.view, scales=options.scales, skip=options.skip or SKIP, dtype=options.dtype)
    except Invalid as error:
        print(f"skerry.views: {error}", file=sys.stderr)
        return 2
    shown = sys.stderr.isatty() and not options.no_progress
    try:
        written = view.write(
            options.checkpoint, options.output, previous=options.previous, progress=_progress() if shown else None
        )
    except SkerryError as error:
        if options.json:
            print(json.dumps({"error": {"code": error.code, "message": error.message}}, indent=2))
        print(f"skerry.views: {error}", file=sys.stderr)
        return next((status for kind, status in _STATUS if isinstance(error, kind)), 1)
    print(json.dumps(dataclasses.asdict(written), indent=2) if options.json else _said(written, options.view))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m skerry.views",
        description="Makes a served checkpoint of a directory of bf16, fp16 or fp32 weights: docs/views.md.",
        epilog="Example:\n  python -m skerry.views ckpt/base --view fp8-block -o ckpt/base-fp8",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="Directory of the weights")
    parser.add_argument("--view", required=True, choices=NAMES, help="How they are served")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="Where to; must not be there")
    parser.add_argument("--scales", default="frozen", choices=SCALES, help="Default: frozen")
    parser.add_argument("--previous", metavar="DIR", help="Served checkpoint of this view whose scales stay, if frozen")
    parser.add_argument(
        "--skip",
        action="append",
        metavar="PATTERN",
        help=f"Modules that are not quantised; may be given several times. Default: {' '.join(SKIP)}",
    )
    parser.add_argument("--dtype", choices=("bf16", "fp16", "fp32"), help="Of what is not quantised. Default: as it is")
    parser.add_argument("--json", action="store_true", help="Print one JSON document on standard output")
    parser.add_argument("--no-progress", action="store_true", help="No progress line on a terminal")
    return parser


def _said(written: Written, view: str) -> str:
    share = written.nbytes / max(1, written.source_nbytes)
    scales = f"; {written.rescaled:,} of {written.blocks:,} scales are others than before" if written.rescaled else ""
    return (
        f"{written.path}: {view}, {written.converted} weights quantised, {written.nbytes:,} bytes in {written.files} "
        f"files, {share:.3f} of the source's{scales}"
    )


def _progress() -> Callable[[str, int, int], None]:
    """A line that is written over some times a second: share, rate, time left."""
    began, told = time.monotonic(), 0.0

    def report(stage: str, done: int, total: int) -> None:
        nonlocal told
        now = time.monotonic()
        ended = done >= total
        if now - began < 1 or (now - told < 0.2 and not ended):
            return
        told, rate = now, done / (now - began)
        left = (total - done) / rate if rate else 0
        line = f"{stage} {done / max(1, total):4.0%}  {rate / 2**20:,.0f} MiB/s  {left:,.0f} s left"
        print(f"\r{line:<60}", end="\n" if ended else "", file=sys.stderr, flush=True)

    return report


if __name__ == "__main__":
    sys.exit(main())
