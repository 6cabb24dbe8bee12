"""Which version a request asks for, as headers. Needs no HTTP library."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass

LARGEST_VERSION = 999_999_999
LONGEST_WAIT = 3600.0  # seconds


@dataclass(frozen=True)
class Constraint:
    """At most one of `min_version` and `exact_version`. `wait`: seconds that the agent may hold the request.

    Raises ValueError for what an agent would refuse with 400, TypeError for what is no number.
    """

    min_version: int | None = None
    exact_version: int | None = None
    wait: float | None = None

    def __post_init__(self) -> None:
        if self.min_version is not None and self.exact_version is not None:
            raise ValueError(f"min_version={self.min_version} and exact_version={self.exact_version}: give one of them")
        for name in ("min_version", "exact_version"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _version(name, value))
        if self.wait is not None:
            object.__setattr__(self, "wait", checked_seconds("wait", self.wait, LONGEST_WAIT))

    @property
    def pinned(self) -> bool:
        return self.min_version is not None or self.exact_version is not None

    def headers(self) -> dict[str, str]:
        made = {}
        if self.min_version is not None:
            made["Skerry-Min-Version"] = str(self.min_version)
        if self.exact_version is not None:
            made["Skerry-Exact-Version"] = str(self.exact_version)
        if self.wait is not None:
            made["Skerry-Wait"] = f"{self.wait:.3f}".rstrip("0").rstrip(".")
        return made


def constraint_headers(
    *, min_version: int | None = None, exact_version: int | None = None, wait: float | None = None
) -> dict[str, str]:
    """Headers that ask for a version, for any HTTP client.

    `min_version`: the answer begins on this version or a newer one. `exact_version`: this version makes all of it.
    `wait`: seconds (at most 3600) that the agent may hold the request until that version is live. Raises ValueError
    for both versions together or a number out of range.

    Send `Accept-Encoding: identity` beside them where your client asks for compression: an agent puts no version into
    a compressed body.
    """
    return Constraint(min_version, exact_version, wait).headers()


def _version(name: str, value: object) -> int:
    if isinstance(value, bool):
        raise TypeError(f"{name}={value!r}: a whole number is needed")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name}={value!r}: a whole number is needed") from None
    if not 0 <= number <= LARGEST_VERSION:
        raise ValueError(f"{name}={number}: must be from 0 to {LARGEST_VERSION}")
    return number


def checked_seconds(name: str, value: object, largest: float = math.inf) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TypeError(f"{name}={value!r}: seconds are needed") from None
    if isinstance(value, str) or not 0 <= number <= largest or not math.isfinite(number):
        limit = f"at most {largest:g} seconds" if math.isfinite(largest) else "seconds"
        raise ValueError(f"{name}={value!r}: must be {limit}, and not negative")
    return number
