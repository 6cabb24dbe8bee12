"""Publishing a model that is sharded over ranks, without gathering it: each rank compares, encodes and stores its own
part of every version, and the first rank releases it. `Publisher(group=…)` is the way to use it; docs/sharded.md has
the whole story.

All ranks call the same methods in the same order. What one rank fails by, all are told: nobody waits for a rank that has
given up, and nothing is published.
"""

from __future__ import annotations

import atexit
import pickle
import shutil
import socket
import weakref
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
import torch.distributed as dist

from skerry import _core
from skerry.errors import Corrupt, Invalid, SkerryError
from skerry.names import Matching, Names
from skerry.torch.boxes import Box, box_of
from skerry.torch.reading import TensorReader, dtype_name
from skerry.weights import Weights

T = TypeVar("T")

# By the group that it has the ranks of.
_own_groups: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
# A thread of gloo drops the last message's tensors when it gets round to it. If the interpreter is ending by then, that
# aborts the process; so the groups, and with them their threads, end before.
atexit.register(_own_groups.clear)


class RankFailed(SkerryError):
    """What another rank failed by, where it is none of Skerry's errors. `rank`: in the group."""

    rank: int = -1


class Ranks:
    """What the ranks of a group tell each other. Every method is called by all of them."""

    def __init__(self, group: Any) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise Invalid("group: torch.distributed is not initialised")
        members = dist.get_process_group_ranks(group)
        # A group of our own: a publish that goes on beside the training must not meet its collectives. Gloo, since all
        # that is sent are Python objects. It is kept for the next publisher and goes with the group that it is made from:
        # taking it down would need all ranks once more, also after an error.
        if group not in _own_groups:
            _own_groups[group] = dist.new_group(members, backend="gloo", use_local_synchronization=True)
        self._group = _own_groups[group]
        self._first = members[0]
        self.index, self.count = dist.get_rank(self._group), len(members)

    @property
    def is_first(self) -> bool:
        return self.index == 0

    def all(self, work: Callable[[], T]) -> list[T]:
        """Each rank's result, by rank, told to all. Raises on all ranks what one failed by."""
        outcomes: list[Any] = [None] * self.count
        dist.all_gather_object(outcomes, _Outcome.of(work), group=self._group)
        return self._results(outcomes)

    def to_first(self, work: Callable[[], T]) -> list[T]:
        """Each rank's result, told to the first; the others get an empty list. Raises on all ranks what one failed by."""
        outcomes: list[Any] | None = [None] * self.count if self.is_first else None
        mine = _Outcome.of(work)
        dist.gather_object(mine, outcomes, dst=self._first, group=self._group)
        failed = [_Outcome(None, one.error) if one.error else None for one in outcomes or ()]
        told = [failed if self.is_first and any(failed) else None]
        dist.broadcast_object_list(told, src=self._first, group=self._group)
        if told[0] is not None:
            told[0][self.index] = mine
            self._results([one or _Outcome(None, None) for one in told[0]])
        return self._results(outcomes) if outcomes is not None else []

    def from_first(self, work: Callable[[], T]) -> T:
        """What `work` gives on the first rank; the others do not call it. Raises on all ranks what it failed by."""
        told = [_Outcome.of(work) if self.is_first else None]
        mine = told[0]
        dist.broadcast_object_list(told, src=self._first, group=self._group)
        outcome = mine if self.is_first else told[0]
        return self._results([outcome])[0]

    def _results(self, outcomes: list[Any]) -> list[Any]:
        own = outcomes[self.index] if len(outcomes) > 1 else outcomes[0] if self.is_first else None
        if own is not None and own.error is not None:
            raise own.error
        for rank, outcome in enumerate(outcomes):
            if outcome.error is None:
                continue
            if isinstance(outcome.error, SkerryError) and not isinstance(outcome.error, RankFailed):
                told = type(outcome.error)(f"rank {rank}: {outcome.error}")
                told.__dict__.update({**outcome.error.__dict__, **told.__dict__})
                raise told from outcome.error
            failed = RankFailed(f"rank {rank}: {type(outcome.error).__name__}: {outcome.error}")
            failed.rank = rank
            raise failed from outcome.error
        return [outcome.value for outcome in outcomes]


class _Outcome(NamedTuple):
    value: Any
    error: Exception | None

    @staticmethod
    def of(work: Callable[[], Any]) -> _Outcome:
        try:
            return _Outcome(work(), None)
        except Exception as error:
            return _Outcome(None, error)

    def __reduce__(self) -> tuple[Any, ...]:
        """Any error can be sent: those that can't be pickled as what they say."""
        error = self.error
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            error = RankFailed(f"{type(error).__name__}: {error}")
        return _Outcome, (self.value, error)


def on_first_rank(group: Any, work: Callable[[], T]) -> T:
    """What `work` gives on the group's first rank, on all of them."""
    return Ranks(group).from_first(work)


class _Head(NamedTuple):
    version: int
    manifest: str
    model: str
    layout: bytes | None  # where it is another one than last time


class _Piece(NamedTuple):
    """A box that this rank holds the values of."""

    dtype: str
    box: Box


class ShardedCapture:
    """What `_core.Capture` is to a whole model: `tensors` are the whole model's."""

    def __init__(self, core: Core, head: _Head) -> None:
        self.core, self.head = core, head
        self.tensors = core.tensors
        self.native: Any = None


class Core:
    """What `_core.Publisher` is to a whole model."""

    def __init__(
        self,
        group: Any,
        board: str,
        run: str,
        state: str | None,
        sign_key: str | None,
        keys: list[str],
        *,
        base: str | None = None,
        level: str = "compact",
    ) -> None:
        self.ranks = Ranks(group)
        self._board, self._run, self._keys, self._level = board, run, keys, level
        self._state = Path(self.ranks.from_first(lambda: state or _core.default_publisher_state(board, run)))
        self._release = None
        if self.ranks.is_first:
            self._release = _core.ShardRelease(board, run, str(self._state / "release"), sign_key, keys)
        self._base = base
        self._layout = b""
        self._sent_layout = b""
        self.tensors: list[tuple[str, str, tuple[int, ...]]] = []
        self._plan: _Plan | None = None
        self._given: Any = None
        self._writer: Any = None
        self._threads = 0

    def capture(self, threads: int = 0, take_over: bool = False) -> ShardedCapture:
        self._threads = threads
        head = self.ranks.from_first(lambda: self._begin(take_over))
        if head.layout is not None:
            self._layout = head.layout
            self.tensors = [(name, dtype, tuple(shape)) for name, dtype, shape in _core.layout_tensors(head.layout)]
            self._plan = None
        return ShardedCapture(self, head)

    def _begin(self, take_over: bool) -> _Head:
        version, manifest, model = self._release.begin(take_over)
        layout = self._release.layout()
        if layout == self._sent_layout:
            return _Head(version, manifest, model, None)
        self._sent_layout = layout
        return _Head(version, manifest, model, layout)

    def prepare(self, capture: ShardedCapture, given: dict[int, Box]) -> _Plan:
        """Decides, once for a distribution of the model, which rank answers for which boxes; brings every rank's
        snapshot to the head's version.
        """
        mine = sorted((ordinal, box.start, box.size) for ordinal, box in given.items())
        same = self.ranks.all(lambda: self._plan is not None and mine == self._given)
        if not all(same):
            offers = self.ranks.all(lambda: mine)
            self._plan, self._given = _Plan.of(self.tensors, offers, self.ranks.index), mine
            self.ranks.from_first(lambda: _core.check_boxes(self._layout, self._plan.everything))
            self._open_writer()
        self._bring_to(capture.head)
        capture.native = self._writer.capture()
        return self._plan

    def _open_writer(self) -> None:
        def make() -> Any:
            if self._writer is not None:
                self._writer.close()
            self._writer = None
            directory = self._state / f"rank-{self.ranks.index:05}-of-{self.ranks.count:05}"
            return _core.ShardWriter(
                self._board, self._run, self._layout, str(directory), self._plan.mine, self.ranks.index,
                self.ranks.count, self._level, self._threads,
            )  # fmt: skip

        def keep() -> None:
            self._writer = make()

        self.ranks.all(keep)

    def _bring_to(self, head: _Head) -> None:
        there = self.ranks.all(lambda: self._writer.is_at(head.version))
        if all(there):
            return
        if self._base is not None and head.version == 0:
            self.ranks.all(lambda: there[self.ranks.index] or self._writer.build(self._base, 0))
            return
        # One rank of each host fetches the version; the others of the host read their boxes from what it wrote.
        hosts = self.ranks.all(socket.gethostname)
        here = hosts[self.ranks.index]
        leads = hosts.index(here) == self.ranks.index
        whole = self._state / f"whole-{here}"
        try:
            self.ranks.all(lambda: self._fetch(whole, head.version) if leads else None)
            self.ranks.all(lambda: there[self.ranks.index] or self._writer.build(str(whole), head.version))
        finally:
            if leads:
                shutil.rmtree(whole, ignore_errors=True)

    def _fetch(self, place: Path, version: int) -> None:
        from skerry.board import Board

        shutil.rmtree(place, ignore_errors=True)
        with Board(self._board, trust_keys=self._keys) as board:
            board.pull(self._run, place, version=version)

    def publish(
        self,
        capture: Any,
        *,
        step: int | None = None,
        allow_empty: bool = False,
        **_: Any,
    ) -> dict[str, Any]:
        if not isinstance(capture, ShardedCapture):
            raise Invalid("weights: the path of a checkpoint can't be published by several ranks: give the weights")
        head, writer = capture.head, self._writer
        try:
            receipts = self.ranks.to_first(lambda: writer.encode(capture.native, head.version, head.manifest))
            made = self.ranks.from_first(lambda: self._release.finish(receipts, step, allow_empty))
        except Corrupt:
            # Whose snapshot is the wrong one is not known: all are built again, from the board.
            self._base = None
            writer.drop()
            raise
        if made["published"]:
            try:
                writer.follow(capture.native)
            except SkerryError as error:  # the snapshot is built again for the next version
                made["warning"] = f"rank {self.ranks.index} could not follow: {error}"
        return made

    def close(self) -> None:
        for one in (self._writer, self._release):
            if one is not None:
                one.close()


class _Plan(NamedTuple):
    """Who answers for what. Boxes are (ordinal, start, size)."""

    everything: list[tuple[int, list[int], list[int]]]
    mine: list[tuple[int, list[int], list[int]]]
    gathered: dict[int, int]  # ordinal -> rank, of tensors whose pieces are no boxes: that one answers for the whole

    @staticmethod
    def of(tensors: list[tuple[str, str, tuple[int, ...]]], offers: list[list[Any]], index: int) -> _Plan:
        """The same on all ranks, from what each of them holds."""
        holders: dict[tuple[int, Any, Any], list[int]] = defaultdict(list)
        for rank, offered in enumerate(offers):
            for ordinal, start, size in offered:
                holders[ordinal, start, size].append(rank)
        uncut = {
            ordinal
            for ordinal, start, size in holders
            if _core.why_not_a_box(tensors[ordinal][1], tensors[ordinal][2], start, size)
        }
        plan = _Plan([], [], {})

        def add(rank: int, ordinal: int, start: Any, size: Any) -> None:
            box = (ordinal, list(start), list(size))
            plan.everything.append(box)
            if rank == index:
                plan.mine.append(box)

        # Of replicas one rank answers, in turn.
        for (ordinal, start, size), ranks in sorted(holders.items()):
            if ordinal not in uncut:
                add(ranks[ordinal % len(ranks)], ordinal, start, size)
        given = {ordinal for ordinal, _, _ in holders}
        for ordinal, (_, _, shape) in enumerate(tensors):
            if ordinal in given and ordinal not in uncut:
                continue
            if 0 in shape:
                continue
            rank = ordinal % len(offers)
            if ordinal in uncut:
                plan.gathered[ordinal] = rank
            add(rank, ordinal, [0] * len(shape), shape)
        return plan


def check(capture: ShardedCapture, weights: Weights, names: Names) -> None:
    """As `skerry.weights.check`, on all ranks."""
    _place(capture, weights, names)


def take(capture: ShardedCapture, weights: Weights, names: Names) -> None:
    """As `skerry.weights.take`, on all ranks, each of which gives what it holds."""
    core, ranks = capture.core, capture.core.ranks
    pieces = _place(capture, weights, names)
    plan = core.prepare(capture, {ordinal: piece.box for ordinal, piece in pieces.items() if not piece.box.is_empty})
    boxes = {(ordinal, tuple(start), tuple(size)): at for at, (ordinal, start, size) in enumerate(core._writer.boxes)}
    reader = TensorReader()

    def read(ordinal: int, tensor: torch.Tensor, dtype: str, at: int) -> None:
        reader.read(capture.tensors[ordinal][0], tensor, lambda first, array: capture.native.take(at, array, dtype, first))

    def own() -> None:
        for ordinal, piece in pieces.items():
            at = boxes.get((ordinal, piece.box.start, piece.box.size))
            if at is not None and ordinal not in plan.gathered:
                read(ordinal, piece.box.values(), piece.dtype, at)
        reader.finish()

    def gathered() -> None:
        for ordinal, rank in sorted(plan.gathered.items()):
            whole = pieces[ordinal].box.whole()  # a collective
            if rank == ranks.index:
                shape = capture.tensors[ordinal][2]
                read(ordinal, whole, pieces[ordinal].dtype, boxes[ordinal, (0,) * len(shape), tuple(shape)])
        reader.finish()

    try:
        ranks.all(own)
        if plan.gathered:
            ranks.all(gathered)
    finally:
        reader.close()


def _place(capture: ShardedCapture, weights: Weights, names: Names) -> dict[int, _Piece]:
    """What this rank holds, by ordinal. Raises NamesDiffer on all ranks where, together, they do not have the model."""
    ranks = capture.core.ranks
    matching = Matching(names, capture.tensors, weights.hint)
    pieces: dict[int, _Piece] = {}

    def match() -> set[int]:
        for given in weights:
            if not isinstance(given.array, torch.Tensor):
                raise Invalid(f"{given.name}: {type(given.array).__name__} is not a tensor of torch")
            if given.values is not None:
                raise Invalid(f"{given.name}: what is computed from the module's tensors can't be published by shards")
            box = box_of(given.array, given.name)
            dtype = dtype_name(given.array)
            for ordinal in matching.place(given.name, dtype, given.array.shape, box.identity()):
                pieces[ordinal] = _Piece(dtype, box)
        return set(pieces)

    elsewhere = set().union(*ranks.all(match))
    ranks.all(lambda: matching.finish(elsewhere))
    return pieces
