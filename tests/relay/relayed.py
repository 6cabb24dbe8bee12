"""Asks a relay for objects, as a reader does."""

import urllib.error
import urllib.request


def keys_of(board):
    """All objects of run r that readers ask for."""
    keys = sorted(str(path.relative_to(board)) for path in board.rglob("*") if path.is_file())
    return [key for key in keys if not key.rsplit("/", 1)[-1].startswith(".") and not key.endswith("/head")]


def get(relay, key, headers=None, method="GET"):
    """Status, body as bytes, headers."""
    asked = urllib.request.Request(f"{relay.url}/{key}", method=method, headers=headers or {})
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read(), error.headers
