"""What the fake S3 keeps: objects, and uploads in parts, in memory. Each method is one step under one lock."""

import hashlib
import secrets
import threading
from dataclasses import dataclass, field
from datetime import datetime, timezone


@dataclass
class Stored:
    body: bytes
    etag: str  # opaque, without quotes
    headers: dict = field(default_factory=dict)


def md5(body):
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


class Objects:
    def __init__(self):
        self._lock = threading.Lock()
        self._objects = {}
        self._uploads = {}

    def get(self, key):
        with self._lock:
            return self._objects.get(key)

    def keys(self, prefix=""):
        with self._lock:
            return sorted(key for key in self._objects if key.startswith(prefix))

    def put(self, key, stored, condition=lambda current: None):
        """`condition` sees the current object (or None) and returns an error to refuse with, or None."""
        with self._lock:
            error = condition(self._objects.get(key))
            if error is None:
                self._objects[key] = stored
            return error

    def delete(self, key):
        with self._lock:
            self._objects.pop(key, None)

    # Uploads in parts.

    def begin(self, key):
        with self._lock:
            upload = secrets.token_hex(16)
            self._uploads[upload] = (key, {}, datetime.now(timezone.utc))
            return upload

    def part(self, upload, number, body):
        with self._lock:
            if upload not in self._uploads:
                return None
            self._uploads[upload][1][number] = body
            return md5(body)

    def complete(self, upload, numbers):
        """The whole object of the named parts and its etag, or None when the upload or a part is not there."""
        with self._lock:
            _, parts, _ = self._uploads.get(upload, (None, {}, None))
            if not numbers or any(number not in parts for number in numbers):
                return None
            bodies = [parts[number] for number in numbers]
            digests = b"".join(hashlib.md5(body, usedforsecurity=False).digest() for body in bodies)
            return Stored(b"".join(bodies), f"{md5(digests)}-{len(bodies)}")

    def end(self, upload):
        with self._lock:
            return self._uploads.pop(upload, None) is not None

    def uploads(self, prefix=""):
        """[(key, upload id, when it began)], sorted."""
        with self._lock:
            return sorted(
                (key, upload, begun) for upload, (key, _, begun) in self._uploads.items() if key.startswith(prefix)
            )
