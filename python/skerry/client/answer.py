"""A complete answer and its stamps. Needs no HTTP library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from skerry.client.stamps import Span, Stamps, body_stamps, header_stamps, merged


@dataclass(frozen=True)
class Answer:
    """An answer of status 2xx. Can be pickled; safe to share between threads.

    `headers`: names in lower case. `attempts`: how often the request was sent.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes
    attempts: int = 1

    @cached_property
    def json(self) -> Any:
        """The parsed body. Raises ValueError where it is no JSON."""
        return json.loads(self.content)

    @cached_property
    def stamps(self) -> Stamps:
        """All stamps, of headers and body. Raises ProtocolError for one that can't be read."""
        body = Stamps()
        if b'"weight_version' in self.content:
            try:
                body = body_stamps(self.json)
            except ValueError:
                pass
        return merged(header_stamps(self.headers), body)

    @property
    def run(self) -> str | None:
        return self.stamps.run

    @property
    def version_start(self) -> int | None:
        """The version at which the request was admitted: no token is older. None: the answer has no stamp."""
        return self.stamps.version_start

    @property
    def version_end(self) -> int | None:
        """The version that was live when the last byte came; None where it isn't known."""
        return self.stamps.version_end

    @property
    def one_version(self) -> int | None:
        """The version that made all of the answer; None where there were several, or where it isn't known."""
        return self.stamps.one_version

    @property
    def spans(self) -> tuple[tuple[Span, ...], ...] | None:
        """The engine's own account, `spans[choice]`; None where it gives none."""
        return self.stamps.spans

    @property
    def texts(self) -> list[str]:
        """The text of each choice, of completions, chat and SGLang's /generate. Raises ValueError for other answers."""
        found = _texts(self.json)
        if found is None:
            raise ValueError("the answer has no text where completions, chat or /generate have it: see .json")
        return found

    @property
    def text(self) -> str:
        """The text of the only choice. Raises ValueError where there are several (`texts`), or none."""
        found = self.texts
        if len(found) != 1:
            raise ValueError(f"the answer has {len(found)} choices: see .texts")
        return found[0]


def _texts(body: Any) -> list[str] | None:
    if isinstance(body, list):  # /generate with several prompts
        parts = [_texts(part) for part in body]
        return None if any(part is None for part in parts) else [text for part in parts for text in part or []]
    if not isinstance(body, dict):
        return None
    if isinstance(body.get("text"), str):
        return [body["text"]]
    choices = body.get("choices")
    if not isinstance(choices, list):
        return None
    found = []
    for choice in choices:
        choice = choice if isinstance(choice, dict) else {}
        message = choice.get("message")
        text = message.get("content") if isinstance(message, dict) else choice.get("text")
        if not isinstance(text, str):
            return None  # a call of a tool, or a form that is not known here
        found.append(text)
    return found
