"""What the stand-ins for engines share: weights read as an engine's loader does it, generation that shows which weights
made each token, scripted faults, and a record of all control calls.

Admin routes, which no real engine has:
  POST /fault {"route": "/pause", "kind": "500", "times": 1}   the next calls of this route fail; a remote call's is
       "/collective_rpc skerry_commit". Kinds: 500, hang, reset, empty, not_json, success_false, partial (half of the
       tensors are loaded, then 500), late (the work is done, then the connection breaks). times -1: for ever, 0: never.
  POST /restart     as a new process: boot weights, no label, not paused
  POST /release     calls that hang go on
  GET  /trace       [{"route", "query", "body", "begin", "end", "status"}]; times of time.monotonic()
"""

import argparse
import hashlib
import json
import socket
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

# Tokens of a prompt that stand in one block of the prefix cache; a shorter prompt is not kept.
BLOCK = 128
LONGEST_SENDING = 2  # seconds
GENERATION = ("/v1/completions", "/generate")


def read_safetensors(path):
    """name -> (dtype, bytes)."""
    data = Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    start = 8 + size
    return {
        name: (entry["dtype"], data[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]])
        for name, entry in header.items()
    }


def read_typed(directory):
    """name -> (dtype, bytes), as engines read it: by the index where there is one, else *every* .safetensors file, in
    the order of their names, so that a stray one wins over what it repeats."""
    directory = Path(directory)
    indexes = sorted(directory.glob("*.safetensors.index.json"))
    if indexes:
        names = sorted(set(json.loads(indexes[0].read_text())["weight_map"].values()))
    else:
        names = sorted(path.name for path in directory.glob("*.safetensors"))
    if not names:
        raise FileNotFoundError(f"no .safetensors in {directory}")
    tensors = {}
    for name in names:
        tensors.update(read_safetensors(directory / name))
    return tensors


def read_checkpoint(directory):
    """name -> bytes"""
    return {name: raw for name, (_, raw) in read_typed(directory).items()}


def digest_of(tensors):
    total = hashlib.sha256()
    for name in sorted(tensors):
        total.update(name.encode() + b"\0" + hashlib.sha256(tensors[name]).digest())
    return total.hexdigest()


def digest_of_checkpoint(directory):
    """What a fresh server on this directory serves: its tokens name the first 8 digits."""
    return digest_of(read_checkpoint(directory))


class Refused(Exception):
    """A control call that fails: status and body."""

    def __init__(self, status, body):
        super().__init__(str(body))
        self.status, self.body = status, body


class Contract:
    """One engine. Guarded by `lock`, whose waiters are told of every change. Subclasses have control(path, query, body)
    -> (status, body or None)."""

    def __init__(self, model, token_seconds=0.0):
        self.model, self.token_seconds = Path(model), token_seconds
        self.lock = threading.Condition()
        self.faults, self.trace, self.starts, self.released, self.running = {}, [], 0, 0, 0
        self.made = self.in_hand = 0  # tokens, and those of them that are not sent yet
        self.boot()

    def boot(self):
        self.tensors = read_checkpoint(self.model)
        self.label, self.paused, self.asleep = "default", False, False
        self.cache, self.resets, self.epoch = {}, 0, self.starts
        self.starts += 1
        self.started = time.time()

    def served(self):
        """Digest of the weights that make the next token."""
        return digest_of(self.tensors)

    def authorized(self, header):
        return True

    def reset_blocks(self):
        self.cache.clear()
        self.resets += 1

    # Weights

    def load(self, directory, partial=False):
        tensors = read_checkpoint(directory)
        if set(tensors) != set(self.tensors):
            odd = sorted(set(tensors) ^ set(self.tensors))[0]
            raise Refused(500, {"error": f"loaded {len(tensors)} of {len(self.tensors)} tensors: {odd}"})
        names = sorted(tensors)
        for name in names[: (len(names) + 1) // 2] if partial else names:
            self.tensors[name] = tensors[name]
        if partial:
            raise Refused(500, {"error": "the loader failed half way"})

    # Requests

    def generate(self, prompt, salt, count):
        """Yields a token at a time: "w:<weights>", and "w:<weights>/p:<weights>" where other weights have computed the
        cached prefix. Waits while paused. Ends early when all requests are ended."""
        with self.lock:
            while self.paused:
                self.lock.wait()
            if self.asleep:
                raise Refused(503, {"error": "asleep"})
            self.running += 1
            epoch = self.epoch
            key = (salt, json.dumps(prompt))
            prefix, resets = self.cache.get(key) or self.served(), self.resets
            if len(prompt) >= BLOCK:
                self.cache.setdefault(key, prefix)
        try:
            for _ in range(count):
                if self.token_seconds:
                    time.sleep(self.token_seconds)
                with self.lock:
                    while self.paused and epoch == self.epoch and not self.draining():
                        self.lock.wait()
                    if epoch != self.epoch:
                        return
                    digest = self.served()
                    if resets != self.resets:  # the request's own blocks went too and are computed again
                        prefix, resets = digest, self.resets
                    self.made += 1
                    self.in_hand += 1
                try:
                    yield f"w:{digest[:8]}" + (f"/p:{prefix[:8]}" if prefix != digest else "")
                finally:  # it was sent
                    with self.lock:
                        self.in_hand -= 1
                        self.lock.notify_all()
        finally:
            with self.lock:
                self.running -= 1
                self.lock.notify_all()

    def draining(self):
        return False

    def wait_for_tokens_in_hand(self):
        """A pause is answered when the tokens that were made before it are sent, unless their clients take nothing."""
        self.lock.wait_for(lambda: not self.in_hand, LONGEST_SENDING)

    def end_requests(self):
        self.epoch += 1
        self.lock.notify_all()

    def completion(self, body):
        prompt, salt = body.get("prompt", ""), body.get("cache_salt") or body.get("extra_key") or ""
        return self.generate(prompt, salt, int(body.get("max_tokens", 4)))

    # Faults and trace

    def take_fault(self, route, path):
        for key in (route, path):
            fault = self.faults.get(key)
            if fault and fault["times"] != 0:
                fault["times"] -= fault["times"] > 0
                return fault["kind"]
        return None

    def admin(self, method, path, body):
        """The reply to an admin route, or None."""
        with self.lock:
            if (method, path) == ("GET", "/trace"):
                return self.trace
            if (method, path) == ("POST", "/fault"):
                self.faults[body["route"]] = {"kind": str(body["kind"]), "times": int(body.get("times", 1))}
                return {}
            if (method, path) == ("POST", "/restart"):
                self.boot()
                self.end_requests()
                return {}
            if (method, path) == ("POST", "/release"):
                self.released += 1
                self.lock.notify_all()
                return {}
        return None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def reply(self, status, body):
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        return status

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()
        return 0

    def do_GET(self):
        self.serve("GET")

    def do_POST(self):
        self.serve("POST")

    def serve(self, method):
        contract, url = self.server.contract, urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(raw) if raw else {}
        except ValueError:
            return self.reply(400, {"error": "not JSON"})
        admin = contract.admin(method, url.path, body)
        if admin is not None:
            return self.reply(200, admin)
        if url.path in GENERATION and method == "POST":
            return self.complete(contract, url.path, body)
        self.control(contract, method, url, body)

    def control(self, contract, method, url, body):
        if not contract.authorized(self.headers.get("Authorization", "")):
            return self.reply(401, {"error": "Unauthorized"})
        route = url.path + (f" {body['method']}" if isinstance(body, dict) and "method" in body else "")
        entry = {"route": f"{method} {route}", "query": url.query, "body": body, "begin": time.monotonic()}
        with contract.lock:
            contract.trace.append(entry)
            kind = contract.take_fault(route, url.path)
        entry["status"] = self.answer(contract, method, url, body, kind)
        entry["end"] = time.monotonic()

    def answer(self, contract, method, url, body, kind):
        if kind == "hang":
            with contract.lock:
                released = contract.released
                while contract.released == released:
                    contract.lock.wait()
            return self.reset()
        scripted = {
            "500": (500, {"error": "a scripted failure"}),
            "empty": (200, None),
            "not_json": (200, b"<html>a proxy's page</html>"),
            "success_false": (200, {"success": False, "message": "a scripted failure"}),
        }
        if kind in scripted:
            return self.reply(*scripted[kind])
        if kind == "reset":
            return self.reset()
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        try:
            with contract.lock:
                status, answer = contract.control(method, url.path, query, body, kind == "partial")
                contract.lock.notify_all()
        except Refused as refused:
            status, answer = refused.status, refused.body
        except (OSError, KeyError, ValueError) as error:
            status, answer = 500, {"error": f"{type(error).__name__}: {error}"}
        return self.reset() if kind == "late" else self.reply(status, answer)

    def complete(self, contract, path, body):
        tokens = []
        try:
            stream = contract.completion(body)
            if body.get("stream"):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True
                for token in stream:
                    event = {"object": "text_completion", "choices": [{"index": 0, "text": token + " "}]}
                    self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
                    self.wfile.flush()
                self.wfile.write(b"data: [DONE]\n\n")
                return
            tokens = list(stream)
        except Refused as refused:
            return self.reply(refused.status, refused.body)
        except OSError:
            return
        text, ended = " ".join(tokens), len(tokens) < int(body.get("max_tokens", 4))
        choice = {"index": 0, "text": text, "finish_reason": "abort" if ended else "length"}
        answer = {"object": "text_completion", "choices": [choice]}
        if path == "/generate":
            answer = {"text": text, "meta_info": {"weight_version": contract.label}}
        self.reply(200, answer)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass  # clients that go away


def serve(contract, port):
    """A running server; its port is server_address[1]."""
    server = Server(("127.0.0.1", port), Handler)
    server.contract = contract
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--model", required=True, help="directory with the boot weights")
    parser.add_argument("--token-ms", type=float, default=0, help="time of a token")
    return parser


def run(contract, port):
    server = serve(contract, port)
    print(server.server_address[1], flush=True)
    threading.Event().wait()
