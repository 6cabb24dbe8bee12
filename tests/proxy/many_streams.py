"""Both ends of thousands of streams, each in one frugal process.

  python many_streams.py serve SECONDS                  an engine: answers each POST with an event a second; prints its port
  python many_streams.py ask HOST:PORT COUNT SECONDS     COUNT clients at once; prints {"whole", "broken", "why", "late_ms"}

A stream is whole if it had SECONDS events, [DONE], the agent's summary, and the end of its body.
"""

import asyncio
import json
import re
import resource
import sys
import time

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
DONE = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
BODY = json.dumps({"model": "m", "prompt": "a", "max_tokens": 10, "stream": True}).encode()
REQUEST = (
    b"POST /v1/completions HTTP/1.1\r\nHost: engines\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
    % (
        len(BODY),
        BODY,
    )
)
BATCH = 100  # connections that are opened at once
SENT = re.compile(rb'"sent": ?([0-9.]+)(?=[,}])')


def raise_the_limit():
    """As many open files as this user may have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def event():
    choices = [{"index": 0, "text": " token", "logprobs": None, "finish_reason": None}]
    document = {"id": "cmpl-1", "object": "text_completion", "model": "m", "choices": choices, "sent": time.time()}
    data = f"data: {json.dumps(document)}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


class Engine(asyncio.Protocol):
    seconds = 10

    def connection_made(self, transport):
        self.transport, self.left, self.request = transport, 0, b""

    def data_received(self, data):
        self.request += data
        head, found, body = self.request.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: *(\d+)", head, re.I)
        if not found or (length and len(body) < int(length.group(1))):
            return
        self.request, self.left = b"", self.seconds
        self.transport.write(ANSWER)
        self.tick()

    def tick(self):
        if self.transport.is_closing():
            return
        if not self.left:
            self.transport.write(DONE)
            return
        self.left -= 1
        self.transport.write(event())
        asyncio.get_running_loop().call_later(1, self.tick)


async def serve(seconds):
    Engine.seconds = seconds
    server = await asyncio.get_running_loop().create_server(Engine, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Asker(asyncio.Protocol):
    """Keeps no more of its stream than its last bytes."""

    seconds = 10

    def __init__(self):
        self.ended, self.events, self.tail, self.why, self.late = asyncio.Event(), 0, b"", "", 0.0

    def connection_made(self, transport):
        self.transport = transport
        transport.write(REQUEST)

    def data_received(self, data):
        now, text = time.time(), self.tail + data
        if not self.events and not text.startswith(b"HTTP/1.1 200") and b"data:" not in text:
            self.why = text[:200].decode(errors="replace")
        sent = SENT.findall(text)
        # The tail that is kept ends behind the last event that was counted.
        if sent:
            self.events += len(sent)
            self.late = max(self.late, now - float(sent[-1]))
            text = text[list(SENT.finditer(text))[-1].end() :]
        self.tail = text[-400:]
        if self.tail.endswith(b"\r\n0\r\n\r\n"):
            self.transport.close()

    def connection_lost(self, _error):
        self.ended.set()

    @property
    def whole(self):
        end = self.tail.endswith(b"\r\n0\r\n\r\n") and b"skerry.summary" in self.tail
        return end and self.events == self.seconds


async def ask(address, count, seconds):
    host, port = address.rsplit(":", 1)
    loop, askers = asyncio.get_running_loop(), []
    Asker.seconds = seconds
    while len(askers) < count:
        more = min(BATCH, count - len(askers))
        made = await asyncio.gather(*(loop.create_connection(Asker, host, int(port)) for _ in range(more)))
        askers += [asker for _, asker in made]
    print("all are there", file=sys.stderr, flush=True)
    await asyncio.gather(*(asker.ended.wait() for asker in askers))
    broken = [asker for asker in askers if not asker.whole]
    late = sorted(1000 * asker.late for asker in askers)
    why = [asker.why or f"{asker.events} events, then {asker.tail[-100:]!r}" for asker in broken[:3]]
    answer = {"whole": count - len(broken), "broken": len(broken), "why": why}
    print(json.dumps(answer | {"late_ms": {"p50": late[len(late) // 2], "p99": late[len(late) * 99 // 100]}}))


def main():
    raise_the_limit()
    if sys.argv[1] == "serve":
        asyncio.run(serve(int(sys.argv[2])))
    else:
        asyncio.run(ask(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))


if __name__ == "__main__":
    main()
