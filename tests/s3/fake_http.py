"""The HTTP side of the fake S3: turns what comes over a connection into Requests and Replies, and makes those faults
that are about the connection. What a request does is in fake_s3.py."""

import socket
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote
from xml.sax.saxutils import escape

import sigv4

XML = '<?xml version="1.0" encoding="UTF-8"?>\n'


@dataclass
class Request:
    method: str
    key: str
    query: dict
    headers: dict  # lower-case names
    body: bytes = b""
    status: int = 0
    sent: int = 0  # bytes of the reply's body
    arrived: float = field(default_factory=time.monotonic)

    def has(self, name):
        return name in self.query

    @property
    def conditional(self):
        return "if-match" in self.headers or "if-none-match" in self.headers


@dataclass
class Reply:
    status: int
    body: bytes = b""
    headers: dict = field(default_factory=dict)


def error(status, code, message=""):
    text = f"{XML}<Error><Code>{code}</Code><Message>{escape(message or code)}</Message></Error>"
    return Reply(status, text.encode(), {"Content-Type": "application/xml"})


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        """A client that went away is part of many tests; what goes wrong in here is answered with 500."""


class Handler(BaseHTTPRequestHandler):
    """Turns HTTP into Requests and Replies, and makes those faults that are about the connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_of = None  # the FakeS3

    def log_message(self, *_):
        pass

    def _serve(self):
        fake = self.server_of
        path, _, query = self.path.partition("?")
        headers = {name.lower(): value for name, value in self.headers.items()}
        bucket, _, key = unquote(path).lstrip("/").partition("/")
        request = Request(self.command, key, parse_qs(query, keep_blank_values=True), headers)
        if headers.get("expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        request.body = self.rfile.read(int(headers.get("content-length", 0)))
        fault = fake.fault_of(request)
        fake.record(request)
        if fault.action is not None:
            fault.action(fake, request)
        if fault.before_write == "reset":
            return self._reset()
        reply = self._reply(request, fault, bucket, path, query)
        request.status = reply.status
        if fault.after_write == "reset":
            return self._reset()
        time.sleep(fault.delay)
        self._send(request, reply, fault)

    def _reply(self, request, fault, bucket, path, query):
        fake = self.server_of
        try:
            fake.admit(request, self.command, path, query)
            if bucket != fake.bucket:
                return error(404, "NoSuchBucket", f"there is no bucket {bucket}")
            if fault.status:
                return error(fault.status, fault.error_code)
            return fake.answer(request, fault)
        except sigv4.Refused as refused:
            return error(refused.status, refused.code, refused.message)
        except Exception as problem:  # a mistake in here must not look like a lost connection
            return error(500, "FakeS3Broke", repr(problem))

    def _send(self, request, reply, fault):
        self.send_response(reply.status)
        for name, value in (reply.headers | fault.headers).items():
            self.send_header(name, value)
        self.send_header("x-amz-request-id", "FAKE0000")
        if reply.status != 304:
            self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        if self.command == "HEAD" or reply.status in (204, 304):
            return
        body = reply.body if fault.truncate < 0 else reply.body[: fault.truncate]
        step = max(1, int(fault.bandwidth / 50)) if fault.bandwidth else max(1, len(body))
        for at in range(0, len(body), step):
            self.wfile.write(body[at : at + step])
            request.sent += len(body[at : at + step])
            if fault.bandwidth:
                time.sleep(step / fault.bandwidth)
        if len(body) < len(reply.body):
            self.close_connection = True

    def _reset(self):
        """The connection ends with a reset, not with an orderly end."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.close_connection = True
        self.connection.close()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve
