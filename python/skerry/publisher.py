"""The trainer's side: weights of a training process as the versions of a run. docs/trainer.md has examples."""

from __future__ import annotations

import functools
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from skerry import _core
from skerry._sources import path_of, text_of
from skerry.board import Board
from skerry.checkpoint import Checkpoint
from skerry.errors import Invalid, NotFound
from skerry.names import Names
from skerry.receipt import Handle, Receipt, ViewReceipt
from skerry.view_weights import ViewCapture, named_views
from skerry.weights import Weights, check, take

if TYPE_CHECKING:
    from typing_extensions import Self

    from skerry.views import View

_log = logging.getLogger("skerry")

LEVELS = ("compact", "fast")
ON_CONFLICT = ("raise", "take-over")
BASE_MODES = ("copy", "link", "reference")
VIEWS_OF = ("served", "masters")

Path = str | os.PathLike[str]


class Publisher:
    """Publishes the versions of one run, one after another.

    - `board`: directory or URL (`s3://bucket/prefix?endpoint=…`). `run`: its name on the board.
    - `base`: the checkpoint that training begins from: version 0 of a run that is still to be made. A run that is there
      is gone on with from its head, and `base` is not looked at.
    - `state`: the directory of this publisher: the snapshot of the last version in the served dtypes, and who it is.
      Default: one for each board and run below the user's cache directory. One publisher at a time.
    - `level`: "compact" or "fast" (to decode). `threads`: 0 for all cores.
    - `on_conflict`: "raise" where another publisher has taken the run over since; "take-over": take it back, once, with
      the first version that is published here.
    - `frozen`, `ignore`, `rename`, `tied`: how the trainer's names become the checkpoint's (skerry/names.py).
    - `views`: further views of the weights in which each version is published, by name ("fp8-block") or as
      `skerry.views.View`: all those that the run began with. Engines follow "RUN/VIEW" (docs/views.md). `views_of`:
      "served": they are made of what the run's own view serves, masters rounded to its dtype; "masters": of the arrays.
    - `group`: a torch.distributed process group whose ranks each publish their own part of sharded weights. Every rank
      makes a Publisher and calls the same methods.
    - `sign_key`, `trust_keys`: files of keys, docs/signing.md. `base_mode`: how the board holds the base: "copy",
      "link", "reference". `anchor_tail`: a new full version is written when the patches since the last are more than
      this share of it; 0: never.

    `weights` of the methods: a torch module (best: it knows its tied tensors); a mapping of names to arrays; (name,
    array) pairs, which may be made one by one; or the path of a checkpoint. Arrays are torch tensors of any device
    and any strides, or arrays of numpy, in the checkpoint's dtype, or F32 where it is BF16 or F16: then they are
    rounded to the nearest, ties to even.

    Raises errors of skerry.errors: Invalid with the field's name for arguments, NotFound for a run that is not there
    and no base to make it from, Conflict, Unavailable, … Methods may be called from one thread at a time.
    """

    def __init__(
        self,
        board: Path,
        run: str,
        *,
        base: Checkpoint | Path | None = None,
        state: Path | None = None,
        level: str = "compact",
        threads: int = 0,
        on_conflict: str = "raise",
        frozen: str | Iterable[str] = (),
        ignore: str | Iterable[str] = (),
        rename: Callable[[str], str] | Mapping[str, str] | None = None,
        tied: Mapping[str, str] | None = None,
        views: Iterable[str | View] = (),
        views_of: str = "served",
        group: Any = None,
        sign_key: Path | None = None,
        trust_keys: Iterable[Path] = (),
        base_mode: str = "copy",
        anchor_tail: float = 1 / 16,
    ) -> None:
        self._board = text_of(os.fspath(board) if isinstance(board, os.PathLike) else board, "board", "its name")
        self._run = text_of(run, "run", "the name of a run")
        self._level = _one_of("level", level, LEVELS)
        self._threads = _count("threads", threads)
        self._take_over = _one_of("on_conflict", on_conflict, ON_CONFLICT) == "take-over"
        self._names = Names(frozen=frozen, ignore=ignore, rename=rename, tied=tied)
        self._anchor_tail = _share("anchor_tail", anchor_tail)
        _one_of("base_mode", base_mode, BASE_MODES)
        if base is not None and not isinstance(base, Checkpoint):
            base = path_of(base, "base")
        state = None if state is None else path_of(state, "state")
        if isinstance(trust_keys, (str, os.PathLike)) or not isinstance(trust_keys, Iterable):
            raise Invalid(f"trust_keys: {trust_keys!r}, but a sequence of keys is wanted")
        keys = [path_of(key, "trust_keys") for key in trust_keys]
        sign_key = None if sign_key is None else path_of(sign_key, "sign_key")
        opened = (self._board, self._run, state, sign_key, keys)
        self._views, self._of_masters = named_views(views), _one_of("views_of", views_of, VIEWS_OF) == "masters"
        if self._views and (group is not None or base_mode == "reference"):
            other = "group" if group is not None else "base_mode='reference'"
            raise Invalid(f"views: {', '.join(self._views)} can't be published with {other}")
        self._group = group
        self._handle: Handle | None = None
        self._closed = False

        with Board(self._board, sign_key=sign_key, trust_keys=keys) as made:
            begin = functools.partial(_head_or_base, made, self._run, base, base_mode, self._views)
            if group is None:
                self._version = begin()
                self._core, self._take, self._check = _core.Publisher(*opened, list(self._views)), take, check
            else:
                from skerry import sharded

                self._version = sharded.on_first_rank(group, begin)
                self._core = sharded.Core(group, *opened, base=_directory_of(base), level=self._level)
                self._take, self._check = sharded.take, sharded.check

    @property
    def board(self) -> str:
        return self._board

    @property
    def run(self) -> str:
        return self._run

    @property
    def group(self) -> Any:
        return self._group

    @property
    def version(self) -> int:
        """The run's head, as last seen here: what was last published, or what was there before."""
        return self._version

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def in_flight(self) -> bool:
        """A publish that was begun with `publish_async` is still under way."""
        return self._handle is not None and not self._handle.done()

    def check(self, weights: Any) -> None:
        """Raises NamesDiffer (names.py), with all that is missing or left over, where these weights could not be
        published; publishes nothing. Brings the snapshot to the head, so the first publish is as quick as the next.

        `weights` is read to its end: not for an iterator that is still to be published.
        """
        self._begin()
        if not _is_path(weights):
            self._check(self._snapshot(), Weights(weights), self._names)

    def publish(self, weights: Any, *, step: int | None = None, allow_empty: bool = False) -> Receipt:
        """Publishes what differs from the last version, and returns when the new head is on the board.

        `step`: the trainer's count, kept with the version. Where nothing differs nothing is published, unless
        `allow_empty`. After an error the board is as before, or holds the whole version; the next publish is again
        against what is on the board.
        """
        return self._publish(self._capture(weights, step), step, allow_empty)

    def publish_async(self, weights: Any, *, step: int | None = None, allow_empty: bool = False) -> Handle:
        """As `publish`, but returns as soon as the weights have been read and may be overwritten; the rest is done by a
        thread.

        One is in flight at a time: a second call waits for the first. What it failed by is raised by its
        `result`, or else by the next call of this publisher.
        """
        capture = self._capture(weights, step)
        self._handle = Handle(lambda: self._publish(capture, step, allow_empty))
        return self._handle

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the publish in flight, if there is one. Returns the version. Raises what it failed by."""
        handle = self._handle
        if handle is not None:
            if not handle.wait(timeout):
                raise TimeoutError(f"the publish is not done after {timeout:g} s")
            self._handle = None
            if not handle.error_was_told:
                handle.result()
        return self._version

    def close(self) -> None:
        """Waits for the publish in flight, and raises what it failed by where nobody was told. May be called twice."""
        if self._closed:
            return
        self._closed = True
        try:
            self.wait()
        finally:
            self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self) -> None:
        if self._closed:
            raise Invalid(f"the publisher of run {self._run} is closed")
        self.wait()

    def _capture(self, weights: Any, step: int | None) -> _Captured:
        if step is not None:
            _count("step", step)
        self._begin()
        began = time.monotonic()
        if _is_path(weights):
            if self._views:
                raise Invalid(
                    f"weights: a path, but views {', '.join(self._views)} are made of arrays (`skerry publish --view "
                    "NAME=CKPT` takes checkpoints of all views)"
                )
            return _Captured(os.fspath(weights), {}, 0.0)
        capture = self._snapshot()
        if not self._views:
            self._take(capture, Weights(weights), self._names)
            return _Captured(capture, {}, time.monotonic() - began)
        views = {name: ViewCapture(view, self._snapshot(name), self._of_masters) for name, view in self._views.items()}
        take(capture, Weights(weights), self._names, list(views.values()))
        return _Captured(capture, views, time.monotonic() - began)

    def _snapshot(self, view: str | None = None) -> Any:
        of_view = {} if view is None else {"view": view}
        return self._core.capture(threads=self._threads, take_over=self._take_over, **of_view)

    def _publish(self, captured: _Captured, step: int | None, allow_empty: bool) -> Receipt:
        began = time.monotonic()
        of_views = {"views": {name: one.native for name, one in captured.views.items()}} if captured.views else {}
        made = self._core.publish(
            captured.source,
            **of_views,
            step=step,
            allow_empty=allow_empty,
            take_over=self._take_over,
            level=self._level,
            threads=self._threads,
            anchor_tail=self._anchor_tail,
        )
        made["seconds"] = {
            "capture": captured.seconds,
            **made.get("seconds", {}),
            "total": captured.seconds + time.monotonic() - began,
        }
        made["views"] = {name: _of_view(name, one, captured.views) for name, one in made.get("views", {}).items()}
        receipt = Receipt(**{name: made[name] for name in Receipt.__dataclass_fields__ if name in made})
        self._version = receipt.version
        self._take_over = False
        if receipt.warning:
            _log.warning("run %s version %d: %s", self._run, receipt.version, receipt.warning)
        return receipt


class _Captured(NamedTuple):
    """What is to be published, and the seconds that it took to read it. `source`: a capture, or a path."""

    source: Any
    views: dict[str, ViewCapture]
    seconds: float


def _of_view(name: str, made: Mapping[str, Any], captures: Mapping[str, ViewCapture]) -> ViewReceipt:
    fields = {key: made[key] for key in ViewReceipt.__dataclass_fields__ if key in made}
    if name in captures:
        fields.update(blocks=captures[name].blocks, rescaled=captures[name].rescaled)
    return ViewReceipt(**fields)


def _is_path(weights: Any) -> bool:
    return isinstance(weights, (str, os.PathLike))


def _directory_of(base: Any) -> str | None:
    """Where a base can be read in part, if it is a directory."""
    return str(base) if isinstance(base, (str, os.PathLike)) and os.path.isdir(base) else None


def _head_or_base(board: Board, run: str, base: Any, mode: str, views: Mapping[str, View]) -> int:
    """The version at which the run is, made from the base where there is none."""
    try:
        head = board.head(run)
    except NotFound:  # not even a board
        head = None
    if head is None:
        if base is None:
            raise NotFound(f"run {run} is not on {board.url}: base= makes it, as its version 0")
        with tempfile.TemporaryDirectory(prefix="skerry-views-") as folder:
            of_views = {name: os.path.join(folder, name) for name in views}
            for name, view in views.items():
                view.write(base, of_views[name])
            board.init(run, base, views=of_views, mode=mode)
        head = board.head(run)
    if head is None:
        return 0
    if head.views != list(views):
        raise Invalid(f"views: {list(views)}, but run {run} has {head.views}: a version must come in all of them")
    return head.version


def _one_of(field: str, value: Any, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise Invalid(f"{field}: {value!r} is none of {', '.join(allowed)}")
    return value


def _count(field: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Invalid(f"{field}: {value!r} is not a whole number of 0 or more")
    return value


def _share(field: str, value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < float("inf"):
        raise Invalid(f"{field}: {value!r} is not a number of 0 or more")
    return float(value)
