"""Which weights made an answer: what the agent wrote into its headers and body. Needs no HTTP library."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skerry.client.errors import ProtocolError

_SPAN = re.compile(r"(\?|\d{1,9}):(\d{1,18})-(\d{1,18})")


@dataclass(frozen=True)
class Span:
    """Tokens `begin` to `end` (exclusive) of a choice were made by `version`; None: the engine said no version of this
    run."""

    version: int | None
    begin: int
    end: int


@dataclass(frozen=True)
class Stamps:
    """What is known of an answer, or of one event of a stream. What was not stamped is None.

    `version_start`: live when the request was admitted; no token is older. `version_end`: live when the last byte came.
    `spans`: the engine's own account, `spans[choice]` in the order of the text. `event_version`: of an event, the
    version that was live when the engine sent it.
    """

    run: str | None = None
    version_start: int | None = None
    version_end: int | None = None
    spans: tuple[tuple[Span, ...], ...] | None = None
    event_version: int | None = None

    @property
    def one_version(self) -> int | None:
        """The version that made all of the answer; None where there were several, or where it isn't known."""
        return self.version_start if self.version_start == self.version_end else None


def parse_spans(text: str) -> tuple[tuple[Span, ...], ...]:
    """The value of a `Skerry-Spans` header: `7:0-12,8:12-40;8:0-5`. Raises ProtocolError for anything else."""
    choices = []
    for choice in text.split(";"):
        spans = []
        for part in choice.split(",") if choice.strip() else []:
            found = _SPAN.fullmatch(part.strip())
            if not found or int(found[2]) > int(found[3]):
                raise ProtocolError(f"Skerry-Spans has {part.strip()[:60]!r}: VERSION:BEGIN-END is expected")
            spans.append(Span(None if found[1] == "?" else int(found[1]), int(found[2]), int(found[3])))
        choices.append(tuple(spans))
    return tuple(choices)


def header_stamps(headers: Mapping[str, str]) -> Stamps:
    """Of headers in any case. Raises ProtocolError for a stamp that can't be read."""
    low = {str(name).lower(): str(value) for name, value in headers.items() if str(name).lower().startswith("skerry-")}
    spans = low.get("skerry-spans")
    return Stamps(
        run=low.get("skerry-run"),
        version_start=_header_version(low, "skerry-version-start"),
        version_end=_header_version(low, "skerry-version-end"),
        spans=None if spans is None else parse_spans(spans),
    )


def body_stamps(body: Any) -> Stamps:
    """Of a parsed JSON answer or event; none where it is no object."""
    if not isinstance(body, Mapping):
        return Stamps()
    return Stamps(
        run=body["run"] if isinstance(body.get("run"), str) and "weight_version_start" in body else None,
        version_start=_member(body, "weight_version_start"),
        version_end=_member(body, "weight_version_end"),
        event_version=_member(body, "weight_version"),
    )


def stamps(response: Any) -> Stamps:
    """The stamps of an answer that another client received.

    Takes an `httpx.Response`, a `requests.Response` or anything else that has `headers`; an object of the `openai`
    package (a completion, a chunk, or what `with_raw_response` gives); an `Answer` or a
    stream; a dict of a JSON body or of headers.
    Members of the body fill in what the headers don't have, where the body has been read: nothing is read here.
    Raises ProtocolError for a stamp that can't be read, TypeError for an object of another kind.
    """
    if isinstance(response, Mapping):
        if any(str(name).lower().startswith("skerry-") for name in response):
            return header_stamps(response)
        return body_stamps(response)
    if isinstance(own := getattr(response, "stamps", None), Stamps):
        return own
    if isinstance(extra := getattr(response, "model_extra", None), Mapping):
        return body_stamps(extra)
    headers = getattr(response, "headers", None)
    if headers is None or not hasattr(headers, "items"):
        raise TypeError(f"{type(response).__name__} has neither headers nor model_extra: no stamps can be in it")
    # httpx and requests keep a body that has been read here.
    return merged(header_stamps(headers), _read_body(getattr(response, "_content", None)))


def merged(headers: Stamps, body: Stamps) -> Stamps:
    """What the headers say, and what the body says beyond it."""

    def either(name: str) -> Any:
        return getattr(body, name) if getattr(headers, name) is None else getattr(headers, name)

    return Stamps(*(either(name) for name in ("run", "version_start", "version_end", "spans", "event_version")))


def _read_body(content: Any) -> Stamps:
    if not isinstance(content, bytes) or b'"weight_version' not in content:
        return Stamps()
    try:
        return body_stamps(json.loads(content))
    except ValueError:
        return Stamps()


def _header_version(headers: Mapping[str, str], name: str) -> int | None:
    text = headers.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,9}", text.strip()):
        raise ProtocolError(f"{name} is {text[:60]!r}: a version is expected")
    return int(text)


def _member(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
