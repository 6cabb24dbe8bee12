#!/usr/bin/env python3
"""Publishes recorded masters of a real run in several views at once, and compares what islands of each view get with
what the view's own library makes of the same masters. Prints the bytes of every version.

usage: published_views.py MODEL KEPT [--views fp8-block,mxfp4,nf4] [--views-of served|masters] [--scales frozen]
                          [--steps 10] [--first 1]

MODEL is a bf16 checkpoint directory, KEPT what `absorption.py train` has written. The run's own view is MODEL's dtype.
Version n of the run is step FIRST + n - 1. An island of each view pulls version after version; each of its tensors must
be, bit for bit, what `View.quantize` makes of the masters with the scales of the version before. `x bf16` is the share of
the own view's patch. What all views have alike travels in one object, which counts once in "all views together": that is
what the trainer sends. The last line is the memory that the publisher's process took at most.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from absorption import KeptMasters
from safetensors.torch import load_file
from skerry import Board, Publisher
from skerry.views import View


class Island:
    """Pulls one view, and knows what it must get."""

    def __init__(self, board: str, run: str, view: View, folder: Path, dtype: torch.dtype) -> None:
        self.view, self._board, self._run, self._folder, self._dtype = view, board, run, folder, dtype
        self._served = self._pull()
        self.compared = 0

    def check(self, masters: dict[str, torch.Tensor]) -> None:
        wanted = {}
        for name, weight in masters.items():
            wanted |= self.view.quantize(name, weight.to(self._dtype), self._served.__getitem__).tensors
        found = self._pull()
        if found.keys() != wanted.keys():
            raise SystemExit(f"{self._run}: tensors {sorted(found.keys() ^ wanted.keys())} are not in both")
        for name, tensor in wanted.items():
            if tensor.dtype != found[name].dtype or not torch.equal(_bits(tensor), _bits(found[name])):
                raise SystemExit(f"{self._run}: {name} is not what the view makes of the masters")
            self.compared += 1
        self._served = found

    def _pull(self) -> dict[str, torch.Tensor]:
        with Board(self._board) as board:
            board.pull(self._run, self._folder)
        return {
            name: tensor.clone()
            for file in sorted(self._folder.glob("*.safetensors"))
            for name, tensor in load_file(file).items()
        }


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8)


def peak_mib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) // 1024
    raise RuntimeError("/proc/self/status has no VmHWM")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("kept", type=Path)
    parser.add_argument("--views", default="fp8-block,mxfp4,nf4")
    parser.add_argument("--views-of", choices=["served", "masters"], default="served")
    parser.add_argument("--scales", default="frozen")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--no-check", action="store_true", help="only the bytes")
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    views = [View(name, scales=arguments.scales, dtype="bf16") for name in arguments.views.split(",")]
    masters = KeptMasters(arguments.kept).read(load_file(arguments.model / "model.safetensors"))
    for _ in range(1, arguments.first):
        dict(next(masters))  # each is to be gone through, in order
    of = torch.float32 if arguments.views_of == "masters" else torch.bfloat16
    with tempfile.TemporaryDirectory(dir=arguments.folder) as made:
        folder = Path(made)
        board = str(folder / "board")
        with Publisher(board, "r", base=arguments.model, views=views, views_of=arguments.views_of, state=folder / "state", anchor_tail=0) as publisher:
            islands = [] if arguments.no_check else [
                Island(board, run, view, folder / view.name, of)
                for run, view in [("r", View("bf16")), *((f"r/{view.name}", view) for view in views)]
            ]  # fmt: skip
            rows = [publish(publisher, masters, islands, arguments.first + n) for n in range(arguments.steps)]
    total = {name: sum(row["bytes"][name] for row in rows) for name in rows[0]["bytes"]}
    own, sent = total["own"], sum(row["sent"] for row in rows)
    print("sum     " + "  ".join(f"{name} {size:,} B ({size / own:.3f} x bf16)" for name, size in total.items()))
    print(f"all views together: {sent:,} B sent, {sent / own:.3f} x the run's own view alone")
    if islands:
        print(f"{sum(island.compared for island in islands):,} tensors of {len(islands)} islands compared: equal")
    print(f"peak memory: {peak_mib()} MiB (this program holds the masters and what islands serve, too)")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))


def publish(publisher: Publisher, masters: Iterator[Iterable[tuple[str, torch.Tensor]]], islands: list[Island], step: int) -> dict[str, object]:
    weights = dict(next(masters))
    began = time.monotonic()
    receipt = publisher.publish(weights, step=step)
    seconds = time.monotonic() - began
    for island in islands:
        island.check(weights)
    made = {"own": receipt, **receipt.views}
    rescaled = {name: f"{view.rescaled} of {view.blocks}" for name, view in receipt.views.items()}
    cells = "  ".join(f"{name} {one.density:.4%} {one.patch_bytes:,} B" for name, one in made.items())
    print(f"step {step:3}  {cells}  re-scaled {rescaled}  {seconds:.1f} s", flush=True)
    sizes = {name: one.patch_bytes for name, one in made.items()}
    shared = sum(view.shared_bytes for view in receipt.views.values())
    return {"step": step, "bytes": sizes, "sent": sum(sizes.values()) - shared, "rescaled": rescaled}


if __name__ == "__main__":
    main()
