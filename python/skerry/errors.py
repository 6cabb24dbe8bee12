"""What can go wrong, as exceptions whose class says what the caller can do. All can be pickled and copied.

skerry.client has further ones, for what agents and engines answer.
"""

from __future__ import annotations

from typing import Any


class SkerryError(Exception):
    """Base of all. `code`: what kind it is, empty for those of skerry.client. `message`: the thing, and both sides."""

    code: str = ""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[SkerryError], args: tuple[Any, ...], fields: dict[str, Any]) -> SkerryError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class Invalid(SkerryError, ValueError):
    """The request or the input makes no sense as given: change it."""

    code = "invalid"


class NotFound(SkerryError, LookupError):
    """The named thing does not exist."""

    code = "not_found"


class Conflict(SkerryError):
    """Somebody else changed or created it first: read again, decide again."""

    code = "conflict"


class Mismatch(SkerryError):
    """Both sides are well formed but do not belong together: a wrong base, a wrong run."""

    code = "mismatch"


class Corrupt(SkerryError):
    """Bytes are damaged or malformed: fetch or make them again."""

    code = "corrupt"


class Unsupported(SkerryError):
    """Written by a newer version, or the platform lacks what is needed."""

    code = "unsupported"


class NoSpace(SkerryError):
    """A disk or a quota is full: nothing was changed."""

    code = "no_space"


class Unavailable(SkerryError):
    """May work later: try again."""

    code = "unavailable"


class Refused(SkerryError):
    """The operating system refused; the message says what."""

    code = "io"


class Interrupted(SkerryError):
    """The caller itself ended the work: nothing is wrong. Ctrl-C raises KeyboardInterrupt and not this."""

    code = "interrupted"


_BY_CODE: dict[str, type[SkerryError]] = {
    kind.code: kind
    for kind in (
        Invalid,
        NotFound,
        Conflict,
        Mismatch,
        Corrupt,
        Unsupported,
        NoSpace,
        Unavailable,
        Refused,
        Interrupted,
    )
}


def of_code(code: str, message: str) -> SkerryError:
    """The error of the C++ libraries that has this code."""
    return _BY_CODE[code](message)
