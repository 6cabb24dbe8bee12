"""Boards: the versions of runs, in a directory, a bucket, or behind a web server."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from skerry import _core
from skerry._sources import path_of, text_of
from skerry.checkpoint import Checkpoint, Report, native
from skerry.errors import Invalid

_A_BOARD = "a directory, s3://bucket/prefix?…, or http(s)://…"
_A_RUN = "the name of a run"


@dataclass(frozen=True)
class Head:
    """Where a run is. `model`: digest, in hexadecimal; `time`: UTC, ISO 8601, for people; `epoch`: rises when another
    publisher takes over; `sequence` counts the head's moves; `signed_by`: public key, None where none is trusted;
    `views`: names of the run's further views, which are at this version too."""

    run: str
    version: int
    model: str
    time: str
    epoch: int
    sequence: int
    publisher: str
    signed_by: str | None
    views: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class VersionInfo:
    """A version. `step`: the trainer's count, where it told one; `model`: digest, in hexadecimal; `elements` and
    `changed` count stored elements; `anchor`: whether there is a full copy; `patch_bytes`: 0 for version 0."""

    version: int
    step: int | None
    time: str
    model: str
    elements: int
    changed: int
    tensors_changed: int
    patch_bytes: int
    checkpoint_bytes: int
    anchor: bool
    signed_by: str | None

    @property
    def density(self) -> float:
        """The share of the elements that changed."""
        return self.changed / self.elements if self.elements else 0.0


@dataclass(frozen=True)
class InitReceipt:
    """`created`: False where the run was there already, with the same base. `writes`: how far the store's conditional
    writes can be trusted, "full" at best, None where nobody probed."""

    run: str
    created: bool
    model: str
    layout: str
    nbytes: int
    writes: str | None


@dataclass(frozen=True)
class PullReceipt:
    """`from_version`: None where it was built from a full version. `healed`: why a damaged local checkpoint was
    rebuilt, empty where none was. `seconds`: "plan", "fetch", "apply"."""

    run: str
    version: int
    from_version: int | None
    model: str
    patches: int
    bytes_fetched: int
    elements: int
    changed: int
    healed: str
    seconds: dict[str, float]


@dataclass(frozen=True)
class ForkReceipt:
    """`created`: False where the run was there already, from the same version."""

    run: str
    from_run: str
    from_version: int
    created: bool
    model: str
    layout: str


@dataclass(frozen=True)
class CollectedRun:
    """What gc did to a run. `kept`: versions that stay, and for whom; counts are of objects; `problem`: why nothing
    of this run may go, mostly empty."""

    run: str
    kept: dict[int, str]
    kept_bytes: int
    removed: int
    removed_bytes: int
    condemned: int
    condemned_bytes: int
    problem: str


class Board:
    """A board by its name: a directory, `file:///…`, `s3://bucket/prefix?endpoint=…&region=…`, or, to read,
    `http(s)://…`. Credentials come from the usual AWS variables and profiles.

    Nothing is asked of a server before the first call; what is wrong with the arguments is found at once (Invalid,
    naming the argument). `sign_key`: file of the private key that signs what is written. `trust_keys`: public keys, as
    files or as text (`ed25519:…`), one of which must have signed each version that is read; without any, those in
    SKERRY_TRUST_KEYS.

    Calls may be made from several threads, and Ctrl-C ends each of them. They raise NotFound (no board, no such run),
    Invalid (a version that the run has not reached), Unavailable (a store that can't be reached just now), Conflict,
    Mismatch (not signed by whom is trusted), Corrupt. Used as a context manager, it is closed at the end.
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        sign_key: str | os.PathLike[str] | None = None,
        trust_keys: Iterable[str | os.PathLike[str]] = (),
    ) -> None:
        name = os.fspath(url) if isinstance(url, os.PathLike) else url
        self.url = text_of(name, "board", _A_BOARD)
        if isinstance(trust_keys, (str, os.PathLike)):
            raise Invalid(f"trust_keys: {trust_keys!r}, but a sequence of keys is wanted")
        signing = "" if sign_key is None else path_of(sign_key, "sign_key")
        trusted = [path_of(key, "trust_keys") for key in trust_keys]
        self._native: _core.Board | None = _core.Board.make(self.url, signing, trusted)

    def runs(self) -> list[str]:
        """Names of the runs that have a version, sorted."""
        return self._board().runs()

    def head(self, run: str) -> Head | None:
        """Where the run is; None where there is no such run. NotFound where there is no board."""
        found = self._board().head(_run(run))
        return None if found is None else Head(**found)

    def versions(self, run: str, *, limit: int = 50) -> list[VersionInfo]:
        """The newest so many versions, newest first; one small request for each. Ends where gc has removed the rest."""
        if limit < 1:
            raise Invalid(f"limit: {limit}, but at least 1 is wanted")
        return [VersionInfo(**version) for version in self._board().versions(_run(run), limit)]

    def init(
        self,
        run: str,
        base: Checkpoint | str | os.PathLike[str],
        *,
        views: Mapping[str, Checkpoint | str | os.PathLike[str]] | None = None,
        mode: str = "copy",
        threads: int = 0,
        progress: Report | None = None,
    ) -> InitReceipt:
        """Starts a run: version 0 is the checkpoint `base`, and in the run's further views, which it has from then on,
        those of `views`, by their names. Makes the board where there is none.

        `mode`: "copy"; "link" (hard links: the base's files must never be written again); "reference" (only path and
        SHA-256: readers must see the same path). The same call again is a no-op; Conflict where the run has another
        base.
        """
        opened = native(base, "base")
        of_views = {name: native(checkpoint, f"views[{name!r}]") for name, checkpoint in (views or {}).items()}
        return InitReceipt(**self._board().init(_run(run), opened, of_views, mode, threads, progress))

    def pull(
        self,
        run: str,
        out: str | os.PathLike[str],
        *,
        version: int | None = None,
        wait: float = 60.0,
        undo: int = 0,
        threads: int = 0,
        progress: Report | None = None,
    ) -> PullReceipt:
        """Makes `out` the checkpoint of a version (None: the head), by the cheapest way from what is there.

        `wait`: seconds for which a store that can't be reached, or lags, is tried again. `undo`: so many moves can be
        taken back later without the board. A kill or Ctrl-C leaves the old or the new version, or a started download
        that the next call goes on with. Mismatch where `out` is a checkpoint of another run.
        """
        path = path_of(out, "out")
        return PullReceipt(**self._board().pull(_run(run), path, version, wait, undo, threads, progress))

    def fork(self, run: str, from_run: str, *, version: int | None = None) -> ForkReceipt:
        """Starts `run` at a version (None: the newest) of another, which stays as it is. No weights are copied."""
        return ForkReceipt(**self._board().fork(_run(run), _run(from_run, "from_run"), version))

    def gc(
        self, run: str | None = None, *, keep: int = 100, grace: float = 3600.0, dry_run: bool = False
    ) -> list[CollectedRun]:
        """Removes what nobody can ask for any more, in two phases: what one call condemns, a call `grace` seconds later
        removes. `run`: only this one; `keep`: so many of the newest versions stay, with all that they need."""
        name = None if run is None else _run(run)
        return [CollectedRun(**collected) for collected in self._board().gc(name, keep, grace, dry_run)]

    def close(self) -> None:
        """Ends connections. A second call does nothing."""
        self._native = None

    def __enter__(self) -> Board:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _board(self) -> _core.Board:
        if self._native is None:
            raise Invalid(f"board {self.url}: it is closed")
        return self._native


def _run(value: Any, argument: str = "run") -> str:
    return text_of(value, argument, _A_RUN)
