"""Asking stand-ins for engines through an agent, and reading what the answers say of versions."""

import json
import re
from dataclasses import dataclass

from messages import events_of
from raw_client import Client, post

ROUTE = "/v1/completions"


def exact(version):
    return [("Skerry-Exact-Version", str(version))]


def at_least(version):
    return [("Skerry-Min-Version", str(version))]


def ask_for(agent, fields=(), tokens=1, prompt="hello", **more):
    return post(agent.url, ROUTE, {"prompt": prompt, "max_tokens": tokens, **more}, fields)


def refusal(message):
    """Of an answer that is an error: status and type."""
    return message.status, message.json["error"]["type"]


def tokens_of(text):
    """The weights that made each token: first digits of their digests."""
    return [re.match(r"w:([0-9a-f]+)", token).group(1) for token in text.split()]


@dataclass
class Stamped:
    """An answer of 200 with what it says of its versions: by header, by JSON or events."""

    start: int
    end: int
    tokens: list  # digests, 8 digits
    stamps: list  # of events; empty for JSON
    summary: dict | None


def read_json(message):
    assert message.status == 200, message
    document = message.json
    start, end = document["weight_version_start"], document["weight_version_end"]
    assert message.get("Skerry-Run") == "r" and message.get("Skerry-Version-Start") == str(start)
    ended = message.get("Skerry-Version-End")
    assert ended in (None, str(end)), (ended, end)
    text = document["text"] if "text" in document else document["choices"][0]["text"]
    return Stamped(start, end, tokens_of(text), [], None)


def read_events(message):
    assert message.status == 200, message
    found = events_of(message.body)
    assert found[-1][0] == "skerry.summary" and found[-2] == (None, "[DONE]"), found[-3:]
    summary, documents = json.loads(found[-1][1]), [json.loads(data) for _, data in found[:-2]]
    tokens = [token for d in documents for token in tokens_of(d["choices"][0]["text"])]
    stamps = [d["weight_version"] for d in documents]
    assert summary["run"] == message.get("Skerry-Run") == "r"
    assert str(summary["weight_version_start"]) == message.get("Skerry-Version-Start")
    counted = {json.dumps(stamp): stamps.count(stamp) for stamp in set(stamps)}
    assert {key: count for key, count in summary["events"].items() if count} == counted
    return Stamped(summary["weight_version_start"], summary["weight_version_end"], tokens, stamps, summary)


def assert_true(stamped, digests, may_be_unsure=False):
    """`digests`: version -> digest. Every token is from the weights that its stamp names; start and end bound them."""
    numbers = {digest[:8]: version for version, digest in digests.items()}
    made = [numbers[token] for token in stamped.tokens]
    if stamped.stamps:
        sure = [m if may_be_unsure and s is None else s for m, s in zip(made, stamped.stamps, strict=True)]
        assert made == sure, f"{changes(made)} made them, {changes(stamped.stamps)} is said"
    if made:
        assert stamped.start <= made[0] and made[-1] <= stamped.end, (stamped.start, changes(made), stamped.end)
    if stamped.start == stamped.end:
        assert set(made) <= {stamped.start}, (stamped.start, changes(made))


def changes(numbers):
    """[1, 1, 2] as "1 x 2, 2 x 1"."""
    runs = []
    for number in numbers:
        if runs and runs[-1][0] == number:
            runs[-1][1] += 1
        else:
            runs.append([number, 1])
    return ", ".join(f"{number} x {count}" for number, count in runs)


class Stream:
    """A streaming request on a connection of its own."""

    def __init__(self, agent, tokens, fields=(), prompt="hello", room=None, **more):
        self.client = Client(agent.url, room=room)
        document = {"prompt": prompt, "max_tokens": tokens, "stream": True, **more}
        self.message = self.client.begin(ROUTE, document, fields)

    def wait_for_events(self, count):
        while len(events_of(self.message.body)) < count:
            assert self.client.more(), self.message
        return self

    def rest(self):
        """The whole answer."""
        with self.client:
            return self.message if self.message.complete else self.client.answer()
