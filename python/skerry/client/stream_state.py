"""What both kinds of stream know of their answer."""

from __future__ import annotations

from collections.abc import Mapping

import httpx

from skerry.client.call import Call
from skerry.client.events import EventReader, Summary
from skerry.client.stamps import Stamps, header_stamps


class StreamState:
    """Before the answer's head has come, what it says is a RuntimeError."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._reader = EventReader()
        self._response: httpx.Response | None = None
        self.closed = False

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case."""
        return dict(self._head().headers)

    @property
    def stamps(self) -> Stamps:
        """Of the head; `version_end` of the summary, once it came."""
        head = header_stamps(self._head().headers)
        return Stamps(head.run, head.version_start, self.version_end, head.spans)

    @property
    def run(self) -> str | None:
        return self.stamps.run

    @property
    def version_start(self) -> int | None:
        """The version at which the request was admitted: no token is older. None: the answer has no stamp."""
        return header_stamps(self._head().headers).version_start

    @property
    def version_end(self) -> int | None:
        """The version that was live at the end; None before the end, and where it isn't known."""
        return self.summary.version_end if self.summary else None

    @property
    def summary(self) -> Summary | None:
        """The agent's, after the last event; None before that, and of a stream that it did not stamp."""
        return self._reader.summary

    @property
    def done(self) -> bool:
        """[DONE] has come."""
        return self._reader.done

    @property
    def count(self) -> int:
        """How many events have come."""
        return self._reader.count

    def _head(self) -> httpx.Response:
        if self._response is None:
            raise RuntimeError("the stream has not been opened: enter it with `with`, or iterate")
        return self._response
