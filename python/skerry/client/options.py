"""What a caller may choose for a client and, call by call, otherwise."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from skerry.client.constraint import Constraint, checked_seconds

if TYPE_CHECKING:

    class CallOptions(TypedDict, total=False):
        """Keyword arguments of every call; one that is left out is taken from the client."""

        min_version: int | None
        exact_version: int | None
        wait: float | None
        deadline: float | None
        timeout: float
        retry_transport: bool
        headers: Mapping[str, str]


@dataclass(frozen=True)
class Options:
    """Checked when made: ValueError or TypeError for what can't be."""

    min_version: int | None = None
    exact_version: int | None = None
    wait: float | None = None
    deadline: float | None = None
    timeout: float = 600.0
    retry_transport: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.constraint  # checks the versions and the wait
        if self.deadline is not None:
            checked_seconds("deadline", self.deadline)
        if self.timeout is None or not checked_seconds("timeout", self.timeout) > 0:
            raise ValueError(f"timeout={self.timeout!r}: must be more than 0 seconds")

    @property
    def constraint(self) -> Constraint:
        return Constraint(self.min_version, self.exact_version, self.wait)

    @property
    def patience(self) -> float | None:
        """Seconds from the first try in which refusals are tried again; None: not at all."""
        return self.wait if self.deadline is None else self.deadline

    def replaced(self, changes: Mapping[str, Any]) -> Options:
        """With a call's own choices. One of the two versions takes the place of both; headers are added."""
        unknown = changes.keys() - OPTION_NAMES
        if unknown:
            raise TypeError(f"unknown argument {min(unknown)!r}; there are {', '.join(sorted(OPTION_NAMES))}")
        made = dict(changes)
        if "min_version" in made or "exact_version" in made:
            made = {"min_version": None, "exact_version": None, **made}
        if "headers" in made:
            made["headers"] = {**self.headers, **made["headers"]}
        return dataclasses.replace(self, **made)


OPTION_NAMES = frozenset(f.name for f in dataclasses.fields(Options))


def split_options(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keyword arguments of a convenience: those of the call, and the members of its body."""
    options = {name: value for name, value in arguments.items() if name in OPTION_NAMES}
    return options, {name: value for name, value in arguments.items() if name not in OPTION_NAMES}
