"""Server-sent events (WHATWG HTML, 9.2.6) out of pieces of any size, with the agent's stamps. Needs no HTTP library."""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skerry.client.errors import ProtocolError
from skerry.client.stamps import body_stamps

LARGEST_EVENT = 64 << 20  # characters
_SUMMARY = "skerry.summary"
_DONE = "[DONE]"


@dataclass(frozen=True)
class Event:
    """`data`: parsed JSON, or text where it is none. `version`: live when the engine sent it; None where not known.

    `event`: its type, "message" where the stream names none. `id`: the last one that the stream gave.
    """

    data: Any
    version: int | None = None
    event: str = "message"
    id: str = ""

    @property
    def text(self) -> str:
        """What this event adds to the first choice, of completions and chat; empty in all other events."""
        choices = self.data.get("choices") if isinstance(self.data, dict) else None
        for choice in choices if isinstance(choices, list) else []:
            if isinstance(choice, dict) and choice.get("index", 0) == 0:
                delta = choice.get("delta")
                added = delta.get("content") if isinstance(delta, dict) else choice.get("text")
                return added if isinstance(added, str) else ""
        return ""


@dataclass(frozen=True)
class Summary:
    """The agent's account at the end of a stream. `events`: how many each version sent; None: not known which."""

    run: str | None
    version_start: int | None
    version_end: int | None
    events: Mapping[int | None, int]

    @property
    def one_version(self) -> int | None:
        """The version that made all of the answer; None where there were several, or where it isn't known."""
        return self.version_start if self.version_start == self.version_end else None


class EventReader:
    """Turns a stream's bytes into events. Not thread-safe; for one stream.

    `done`: [DONE] came. `summary`: the agent's, once it came. `count` and `last_version`: of the events so far.
    """

    def __init__(self) -> None:
        self.done = False
        self.summary: Summary | None = None
        self.count = 0
        self.last_version: int | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = False
        self._line: list[str] = []  # pieces of a line that has not ended
        self._after_cr = False  # a LF that comes next belongs to the ending before
        self._data: list[str] = []
        self._event = ""
        self._id = ""
        self._line_size = self._data_size = 0

    def feed(self, piece: bytes) -> list[Event]:
        """The events that this piece completes. An event that the stream's end leaves unfinished is none."""
        text = self._decoder.decode(piece)
        if text and not self._begun:
            self._begun = True
            text = text.removeprefix("\ufeff")
        if text and self._after_cr:
            self._after_cr = False
            text = text.removeprefix("\n")
        events: list[Event] = []
        self._after_cr = text.endswith("\r") or (self._after_cr and not text)
        *lines, rest = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for line in lines:
            line = "".join([*self._line, line])
            self._line, self._line_size = [], 0
            self._take_line(line, events)
        if rest:
            self._line.append(rest)
            self._line_size += len(rest)
            self._check_size()
        return events

    def _check_size(self) -> None:
        if self._line_size + self._data_size > LARGEST_EVENT:
            raise ProtocolError(f"an event of the stream is larger than {LARGEST_EVENT} characters")

    def _take_line(self, line: str, events: list[Event]) -> None:
        if not line:
            self._dispatch(events)
            return
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
            self._data_size += len(value)
            self._check_size()
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value

    def _dispatch(self, events: list[Event]) -> None:
        data, self._data, self._data_size = self._data, [], 0
        kind, self._event = self._event, ""
        if not data:
            return
        text = "\n".join(data)
        if text == _DONE:
            self.done = True
        elif kind == _SUMMARY:
            self.summary = _parse_summary(text)
        else:
            parsed = _parse(text)
            version = body_stamps(parsed).event_version
            self.count += 1
            self.last_version = version
            events.append(Event(parsed, version, kind or "message", self._id))


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _parse_summary(text: str) -> Summary:
    body = _parse(text)
    if not isinstance(body, dict):
        raise ProtocolError(f"{_SUMMARY} is {text[:60]!r}: an object is expected")
    found = body_stamps(body)
    counts = body.get("events")
    events = {
        int(version) if version.isascii() and version.isdigit() else None: count
        for version, count in (counts.items() if isinstance(counts, dict) else ())
    }
    return Summary(found.run, found.version_start, found.version_end, events)
