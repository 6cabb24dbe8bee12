"""A board behind a plain web server that counts what it sends, and can be slow, away or wrong."""

import contextlib
import re
import socket
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

PIECE = 16 << 10


class Origin:
    """Use as a context manager. Everything may be changed while it runs:

    wrong       {part of a key: function of the bytes that gives those to be sent instead}
    broken      status for all requests; 0: none
    bandwidth   bytes a second that it sends, over all connections; 0: no limit
    """

    def __init__(self, board, port=0):
        self.board, self.port = Path(board), port
        self.wrong, self.broken, self.bandwidth = {}, 0, 0
        self.sent = Counter()  # bytes of bodies, by key
        self.asked = Counter()  # requests, by key
        self.authorizations = set()
        self.lock = threading.Lock()
        self._free_at = 0.0

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def start(self):
        handler = type("OriginHandler", (Handler,), {"origin": self})
        self._server = Server(("127.0.0.1", self.port), handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def stop(self):
        """Nobody listens there any more; start() brings it back at the same port."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server.cut_off()
            self._server = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def body_of(self, key):
        path = self.board / key
        if not path.is_file():
            return None
        body = path.read_bytes()
        for part, change in self.wrong.items():
            if part in key:
                body = change(body)
        return body

    def transmit(self, size):
        if not self.bandwidth:
            return
        with self.lock:
            self._free_at = max(self._free_at, time.monotonic()) + size / self.bandwidth
            due = self._free_at
        time.sleep(max(0.0, due - time.monotonic()))

    def forget(self):
        with self.lock:
            self.sent.clear()
            self.asked.clear()

    def copies(self):
        """{key: how many times its bytes were sent}, of all but heads."""
        with self.lock:
            sent = dict(self.sent)
        return {
            key: count / (self.board / key).stat().st_size
            for key, count in sent.items()
            if not key.endswith("/head") and (self.board / key).is_file()
        }


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.connections = set()

    def get_request(self):
        connection, address = super().get_request()
        self.connections.add(connection)
        return connection, address

    def shutdown_request(self, request):
        self.connections.discard(request)
        super().shutdown_request(request)

    def cut_off(self):
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request, client_address):
        """A client that went away is part of many tests."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    origin = None

    def log_message(self, *_):
        pass

    def do_GET(self):
        origin, key = self.origin, unquote(self.path.partition("?")[0]).lstrip("/")
        with origin.lock:
            origin.asked[key] += 1
            origin.authorizations.add(self.headers.get("Authorization"))
        if origin.broken:
            return self._answer(origin.broken, b"broken on purpose")
        body = origin.body_of(key)
        if body is None:
            return self._answer(404, b"no such file")
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not asked or self.command == "HEAD":
            return self._answer(200, body, key=key)
        first, last = int(asked[1]), min(int(asked[2]), len(body) - 1)
        if first >= len(body):
            return self._answer(416, b"", {"Content-Range": f"bytes */{len(body)}"})
        self._answer(206, body[first : last + 1], {"Content-Range": f"bytes {first}-{last}/{len(body)}"}, key)

    do_HEAD = do_GET

    def _answer(self, status, body, headers=None, key=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        for at in range(0, len(body), PIECE):
            piece = body[at : at + PIECE]
            self.origin.transmit(len(piece))
            self.wfile.write(piece)
            if key is not None:
                with self.origin.lock:
                    self.origin.sent[key] += len(piece)
