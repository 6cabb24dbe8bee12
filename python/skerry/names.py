"""Which tensor of the served checkpoint an array of the trainer is."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skerry.errors import Invalid

# What wrappers put before the names of what they wrap: DistributedDataParallel, DeepSpeed and DataParallel; PEFT.
_LEADING = ("module.", "base_model.model.")
# What they put anywhere: torch.compile, FSDP1, activation checkpointing.
_ANYWHERE = re.compile(r"(?:^|(?<=\.))(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
_MOST_LISTED = 20

# Masters of F32 are rounded where one of these is served; everything else is published bit for bit.
ROUNDED_FROM_F32 = ("BF16", "F16")


class NamesDiffer(Invalid):
    """The trainer's arrays are not the checkpoint's tensors. Nothing was published.

    `missing`: tensors of the checkpoint that were not given. `unmapped`: given names that the checkpoint has not.
    `unlike`: sentences, one for each array of another shape or dtype than the checkpoint's, or given twice.
    """

    missing: list[str]
    unmapped: list[str]
    unlike: list[str]


def stripped_names(given: str) -> list[str]:
    """The name as it is, then with fewer and fewer of the wrappers' prefixes; the last has none left."""
    names = [given]

    def add(name: str) -> None:
        if name != names[-1]:
            names.append(name)

    add(_ANYWHERE.sub("", given))
    while any(names[-1].startswith(prefix) for prefix in _LEADING):
        for prefix in _LEADING:
            add(names[-1].removeprefix(prefix))
    return names


def _patterns(field_name: str, patterns: str | Iterable[str]) -> tuple[str, ...]:
    made = (patterns,) if isinstance(patterns, str) else tuple(patterns)
    for pattern in made:
        if not isinstance(pattern, str) or not pattern:
            raise Invalid(f"{field_name}: {pattern!r} is not a pattern of names")
    return made


def _one_of(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


class Names:
    """The rules of one publisher. Immutable.

    `frozen`: patterns (fnmatch) of checkpoint names that stay as they are, given or not; they are not read.
    `ignore`: patterns of given names, whole or stripped, that may be left out where the checkpoint has none such.
    `rename`: from the stripped name to the checkpoint's, as a function or a mapping; a name that a mapping has not
    stays. `tied`: checkpoint name -> checkpoint name of the array that it shares, for arrays whose storage does not
    tell.
    """

    def __init__(
        self,
        *,
        frozen: str | Iterable[str] = (),
        ignore: str | Iterable[str] = (),
        rename: Callable[[str], str] | Mapping[str, str] | None = None,
        tied: Mapping[str, str] | None = None,
    ) -> None:
        self.frozen = _patterns("frozen", frozen)
        self.ignore = _patterns("ignore", ignore)
        if rename is not None and not callable(rename) and not isinstance(rename, Mapping):
            raise Invalid(f"rename: {type(rename).__name__} is neither a function nor a mapping")
        self._rename = rename
        self.tied = dict(tied or {})

    def candidates(self, given: str) -> list[str]:
        """Checkpoint names that `given` may stand for, the likeliest first."""
        names = stripped_names(given)
        if self._rename is None:
            return names
        if isinstance(self._rename, Mapping):
            renamed = [self._rename[name] for name in names if name in self._rename]
            return renamed[:1] or names
        renamed_name = self._rename(names[-1])
        if not isinstance(renamed_name, str):
            raise Invalid(f"rename: made {renamed_name!r} of {names[-1]!r}, not a name")
        return [renamed_name]

    def is_frozen(self, name: str) -> bool:
        return _one_of(name, self.frozen)

    def is_ignored(self, given: str) -> bool:
        return any(_one_of(name, self.ignore) for name in {*stripped_names(given), *self.candidates(given)})


@dataclass
class Matching:
    """Names of one publish, as they come. `tensors`: name, dtype and shape of each tensor of the checkpoint, by
    ordinal.
    """

    names: Names
    tensors: Sequence[tuple[str, str, tuple[int, ...]]]
    hint: str = ""  # what the kind of `weights` lets one guess about missing names

    _ordinals: dict[str, int] = field(init=False)
    _placed: dict[int, tuple[str, Hashable | None]] = field(init=False, default_factory=dict)
    _identities: set[Hashable] = field(init=False, default_factory=set)
    _unmapped: dict[str, Hashable | None] = field(init=False, default_factory=dict)
    _unlike: list[str] = field(init=False, default_factory=list)
    _partners: dict[str, list[str]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._ordinals = {name: ordinal for ordinal, (name, _, _) in enumerate(self.tensors)}
        for name, source in self.names.tied.items():
            self._partners.setdefault(source, []).append(name)
            for one in (name, source):
                if name in self._ordinals and one not in self._ordinals:
                    raise Invalid(f"tied: the checkpoint has no tensor {one!r}")

    def place(self, given: str, dtype: str, shape: Sequence[int], identity: Hashable | None = None) -> list[int]:
        """The ordinals for which the array is to be taken; none where it is not needed, or not wanted as it is.

        `identity`: equal for two arrays that are the same memory; None: not known.
        """
        candidates = self.names.candidates(given)
        name = next((name for name in candidates if name in self._ordinals), None)
        if name is None:
            if not self.names.is_ignored(given) and not any(name in self.names.tied for name in candidates):
                self._unmapped[given] = identity
            return []
        if identity is not None:
            self._identities.add(identity)
        if self.names.is_frozen(name):
            return []
        return [
            self._ordinals[one]
            for one in (name, *self._partners.get(name, ()))
            if one in self._ordinals and self._accept(one, given, dtype, tuple(shape), identity)
        ]

    def _accept(self, name: str, given: str, dtype: str, shape: tuple[int, ...], identity: Hashable | None) -> bool:
        ordinal = self._ordinals[name]
        before = self._placed.get(ordinal)
        if before is not None:
            tied = self.names.tied.get(name) is not None
            if not tied and (identity is None or identity != before[1]):
                self._unlike.append(f"{name} was given twice, as {before[0]!r} and as {given!r}")
            return False
        self._placed[ordinal] = (given, identity)
        _, served, wanted = self.tensors[ordinal]
        if shape != tuple(wanted):
            self._unlike.append(f"{name}: given with shape {list(shape)}, the checkpoint has {list(wanted)}")
        elif dtype != served and not (dtype == "F32" and served in ROUNDED_FROM_F32):
            self._unlike.append(f"{name}: given as {dtype}, the checkpoint has {served}")
        else:
            return True
        return False

    def finish(self, elsewhere: Collection[int] = ()) -> None:
        """Raises NamesDiffer where something is missing or left over. `elsewhere`: ordinals that others give."""
        unmapped = [given for given, identity in self._unmapped.items() if not self._is_tied(identity)]
        missing = [
            name
            for name, ordinal in self._ordinals.items()
            if ordinal not in self._placed and ordinal not in elsewhere and not self.names.is_frozen(name)
        ]
        if not missing and not unmapped and not self._unlike:
            return
        error = NamesDiffer(self._message(missing, unmapped))
        error.missing, error.unmapped, error.unlike = missing, unmapped, list(self._unlike)
        raise error

    def _is_tied(self, identity: Hashable | None) -> bool:
        return identity is not None and identity in self._identities

    def _message(self, missing: list[str], unmapped: list[str]) -> str:
        parts = []
        if missing:
            hints = [self.hint] if self.hint else []
            hints.append("frozen=[…] names tensors that stay as they are")
            parts.append(f"{_listed(missing, 'not given')} ({'; '.join(hints)})")
        if unmapped:
            renames = self._likely_rename(missing, unmapped)
            hint = renames or "rename=… gives them the checkpoint's names, ignore=[…] leaves them out"
            parts.append(f"{_listed(unmapped, 'not in the checkpoint')} ({hint})")
        if self._unlike:
            parts.append("; ".join(_shortened(self._unlike)))
        return "the trainer's weights are not those of the checkpoint: " + "; ".join(parts)

    @staticmethod
    def _likely_rename(missing: list[str], unmapped: list[str]) -> str:
        """A hint where the first given name would fit with a prefix put on or taken off."""
        left, wanted = [stripped_names(given)[-1] for given in unmapped], set(missing)
        for name in missing:
            if name.endswith("." + left[0]):
                prefix = name[: -len(left[0])]
                fitting = sum(prefix + other in wanted for other in left)
                return f"rename=lambda name: {prefix!r} + name would fit {fitting} of them"
            if left[0].endswith("." + name):
                prefix = left[0][: -len(name)]
                fitting = sum(other.removeprefix(prefix) in wanted for other in left)
                return f"rename=lambda name: name.removeprefix({prefix!r}) would fit {fitting} of them"
        return ""


def _shortened(items: list[Any]) -> list[str]:
    shown = [str(item) for item in items[:_MOST_LISTED]]
    return shown if len(items) <= _MOST_LISTED else [*shown, f"and {len(items) - _MOST_LISTED} more"]


def _listed(names: list[str], what: str) -> str:
    return f"{len(names)} {what}: {', '.join(_shortened(names))}"
