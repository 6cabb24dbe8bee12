"""Faults that the fake S3 can be told to have. Each is a rule for some requests; the first rule that matches acts.

server.fault("PUT", "*/head", times=1, status=409)           the next one is refused so, then it works
server.fault("PUT", "*/head", after_write="reset")           the write takes effect, the reply is lost
server.fault("GET", "*.skerry", truncate=1000)               the body ends early
"""

import fnmatch
import threading
from dataclasses import dataclass, field

ERRORS = {
    404: "NoSuchKey",
    409: "ConditionalRequestConflict",
    412: "PreconditionFailed",
    500: "InternalError",
    501: "NotImplemented",
    503: "SlowDown",
}


@dataclass
class Fault:
    method: str  # "PUT", or "*"
    key: str  # pattern of fnmatch on the object's key
    when: object = None  # a function of the request, for what method and key do not tell
    skip: int = 0  # lets this many matching requests pass
    times: int = 1_000_000_000  # then acts on this many

    status: int = 0  # an error reply instead of the request's effect
    code: str = ""  # its S3 code; by default that of the status
    headers: dict = field(default_factory=dict)
    before_write: str = ""  # "reset": the connection ends before anything takes effect
    after_write: str = ""  # "reset": it ends after the effect, before the reply
    ignore_condition: bool = False  # the write is made whatever the condition says
    truncate: int = -1  # only this many bytes of the body are sent, under the full Content-Length
    delay: float = 0.0  # seconds before the reply
    bandwidth: float = 0.0  # bytes a second of the body
    action: object = None  # called with (server, request) before anything else

    hits: int = 0

    @property
    def error_code(self):
        return self.code or ERRORS[self.status]


class Faults:
    def __init__(self):
        self._lock = threading.Lock()
        self._faults = []

    def add(self, fault):
        with self._lock:
            self._faults.append(fault)
        return fault

    def clear(self):
        with self._lock:
            self._faults.clear()

    def of(self, request):
        """The fault that acts on this request, or one that does nothing."""
        with self._lock:
            for fault in self._faults:
                if fault.method not in ("*", request.method) or not fnmatch.fnmatchcase(request.key, fault.key):
                    continue
                if fault.when is not None and not fault.when(request):
                    continue
                fault.hits += 1
                if fault.skip < fault.hits <= fault.skip + fault.times:
                    return fault
        return Fault("*", "*")
