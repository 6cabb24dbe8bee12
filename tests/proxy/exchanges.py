"""Random exchanges: a request, the answer to it, and what each side must see of the other's. Same seed, same exchanges."""

import json
import random
import re
import string
from dataclasses import dataclass, field

from recording_engine import framed, head, whole

METHODS = ["GET", "GET", "HEAD", "POST", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PURGE", "M-SEARCH", "get",
           "X!#$%&'*+.^_`|~9"]  # fmt: skip
STATUSES = [200] * 8 + [201, 202, 203, 204, 204, 206, 299, 301, 302, 304, 304, 400, 401, 403, 404, 409, 418, 429, 451, 500,
                        502, 503, 504, 599]  # fmt: skip
REASONS = [b"OK", b"", b"Anything Else", b"caf\xe9", b"a  b"]
NAMES = ["X-Thing", "x-lower", "X-UPPER", "Accept", "ETag", "Cache-Control", "Authorization", "traceparent", "X_under",
         "Cookie", "Set-Cookie", "Content-Type", "Content-Encoding", "Date", "Server", "Via", "X-!#$%&'*+.^_`|~"]  # fmt: skip
# Generation routes whose answers get members where they are JSON objects.
ROUTES = ["/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/generate"]
LARGEST = 256 << 10

# Fields for one connection, as they are sent, and whether they name others.
HOPS = [
    [("Keep-Alive", "timeout=5")],
    [("TE", "trailers")],
    [("Connection", "X-Only-Here"), ("X-Only-Here", "1")],
    [("Connection", "keep-alive, x-only-here , X-Nor-This"), ("X-Only-Here", ""), ("X-Nor-This", "a")],
    [("Proxy-Connection", "keep-alive")],
    [("Skerry-Version-Start", "12")],
    [("Skerry-Anything", "a")],
]
HOPS_OF_REQUESTS = [[("Proxy-Authorization", "Basic YTpi")], [("Connection", "Upgrade"), ("Upgrade", "h2c")]]
HOPS_OF_ANSWERS = [[("Proxy-Authenticate", "Basic")], [("Trailer", "X-Sum")], [("Skerry-Run", "other")]]
STAMP = re.compile(rb',?"weight_version_start":\s*0,\s*"weight_version_end":\s*0(?=\}\s*$)')


def encoded(pairs):
    return [(name.encode(), value.encode("latin-1")) for name, value in pairs]


def some_fields(r):
    found = []
    for _ in range(r.choice([0, 1, 3, 12])):
        name = (
            r.choice(NAMES) if r.random() < 0.7 else "X-" + "".join(r.choices(string.ascii_letters, k=r.randint(1, 60)))
        )
        value = r.choice(["", "a", "a, b", "a \t b", "caf\xe9", '"quoted, \\" text"', "k=v; k2=v2"])
        if r.random() < 0.05:
            value = "".join(r.choices(string.printable[:94], k=r.randint(1000, 6000)))
        found.append((name, value))
        if r.random() < 0.2:  # the same again, in another case
            found.append((r.choice([name, name.lower(), name.upper()]), r.choice([value, "again"])))
    # An encoding belongs to a body; a random one would only keep the agent from looking into it.
    return encoded([(name, value) for name, value in found if name.lower() != "content-encoding" or value])


def some_target(r):
    def segment():
        return "".join(
            r.choice(["a", "B7", "-._~", "%20", "%2F", "%e4%B8%AD", "%FF", "!$&'()*+,;=:@", "%25"])
            for _ in range(r.randint(0, 4))
        )

    path = "/" + r.choice(["x", "v1", "tokenize", "_"]) + "".join("/" + segment() for _ in range(r.randint(0, 4)))
    if r.random() < 0.5:
        path += "?" + "&".join(
            r.choice(["a=1", "a", "=", "q=%20+%2B", "/?", "", "k=" + "v" * 300]) for _ in range(r.randint(0, 3))
        )
    return path


def some_body(r):
    size = (
        r.choice([0, 1, 2, 100, 4000, 4096, 65535, 65536, r.randint(0, LARGEST)])
        if r.random() < 0.7
        else r.randint(0, 500)
    )
    return r.randbytes(size)


def some_cuts(r, size):
    """Sizes of pieces."""
    most = r.choice([1, 7, 100, 4096, 70000])
    return [r.randint(1, most) for _ in range(min(40, size // most + 1))]


def some_json(r):
    document = {
        "model": "m",
        "text": "".join(r.choices(string.printable, k=r.randint(0, 300))),
        "n": r.random(),
        "o": {},
    }
    return json.dumps(document, indent=r.choice([None, 1])).encode() + b" " * r.choice([0, 0, 3])


def some_text(r):
    """A body for a generation route: mostly an object, else anything that is text."""
    if r.random() < 0.7:
        return some_json(r)
    return r.choice(
        [b"", b"[1, 2]", b"{", b'{"a": }', b"null", b"a\tb", '"\u4e2d"'.encode(), b"x" * r.randint(0, 50_000)]
    )


@dataclass
class Exchange:
    number: int
    method: str
    request: bytes
    target: str
    # What the engine must see
    asked: list
    asked_body: bytes
    # What it answers, and what the client must see
    steps: list
    status: int
    reason: bytes
    answered: list
    answered_body: bytes
    may_be_stamped: bool
    length: bytes | None  # the Content-Length that the client must see, where the engine gave one
    ends: bool  # the connection's last
    interim: list = field(default_factory=list)


def exchange(seed, number, last):
    """`last`: it may end the client's connection."""
    r = random.Random(f"{seed}/{number}")
    generation = r.random() < 0.15
    method = "POST" if generation else r.choice(METHODS)
    target = r.choice(ROUTES) if generation else some_target(r)
    fields = [(b"Host", b"engines.example:81"), *some_fields(r), (b"X-Exchange", b"%d" % number)]
    hops = r.choice(HOPS + HOPS_OF_REQUESTS) if r.random() < 0.4 else []
    old = last and r.random() < 0.1
    close = last and r.random() < 0.3
    lines = fields[:1] + r.sample(fields[1:], len(fields) - 1)
    sent = lines + encoded(hops) + ([(b"Connection", b"close")] if close else [])
    has_body = generation or (method not in ("GET", "HEAD", "get") and r.random() < 0.8)
    body, data = b"", b""
    if has_body:
        body = some_text(r) if generation else some_body(r)
        framing = "length" if old or r.random() < 0.6 else "chunked"
        sent.append(
            (b"Content-Length", b"%d" % len(body)) if framing == "length" else (b"Transfer-Encoding", b"chunked")
        )
        data = framed(body, framing, some_cuts(r, len(body)))
    first = b"%s %s HTTP/1.%d" % (method.encode(), target.encode(), 0 if old else 1)
    request = b"\r\n".join(
        [first, *(name + b":" + r.choice([b" ", b"", b"  ", b"\t"]) + value for name, value in sent)]
    )
    answer = _answer(r, method, generation)
    return Exchange(number, method, request + b"\r\n\r\n" + data, target, lines, body, **answer, ends=old or close)


def _answer(r, method, generation):
    status, reason, fields = r.choice(STATUSES), r.choice(REASONS), some_fields(r)
    body = b"" if status == 204 else some_json(r) if generation and r.random() < 0.7 else some_body(r)
    if generation:
        fields = [(n, v) for n, v in fields if n.lower() not in (b"content-type", b"content-encoding")]
        fields.append((b"Content-Type", b"application/json"))
    bare = method == "HEAD" or status in (204, 304)
    framing = r.choice(["length", "length", "chunked", "close"])
    if status == 204:
        framing = "none"
    sent = fields + encoded(r.choice(HOPS + HOPS_OF_ANSWERS) if r.random() < 0.4 else [])
    if framing == "close":
        sent.append((b"Connection", b"close"))
    steps = whole(status, sent, body, framing, some_cuts(r, len(body)), some_cuts(r, 5000), 0.0, reason, not bare)
    interim = []
    if r.random() < 0.05:
        interim = [103]
        steps.insert(0, head(103, [(b"Link", b"</a>; rel=preload")], b"Early Hints"))
    seen = b"" if bare else body
    stamped = generation and status // 100 == 2 and seen.lstrip().startswith(b"{") and seen.rstrip().endswith(b"}")
    length = b"%d" % len(body) if framing == "length" and not stamped else None
    return {"steps": steps, "status": status, "reason": reason, "answered": fields, "answered_body": seen,
            "may_be_stamped": stamped, "length": length, "interim": interim}  # fmt: skip


FRAMING = (b"content-length", b"transfer-encoding", b"connection")


def end_to_end(message):
    """The fields of a message but for its framing."""
    return [(name, value) for name, value in message.fields if name.lower() not in FRAMING]


def check_request(e, message):
    where = f"request of exchange {e.number}"
    assert (message.method, message.target) == (e.method, e.target), where
    assert end_to_end(message) == e.asked, where
    assert message.body == e.asked_body, f"{where}: {len(message.body)} bytes, not {len(e.asked_body)}"
    if not e.asked_body:
        assert message.framing != "chunked" or b"chunked" in e.request, where


def check_answer(e, message):
    where = f"answer of exchange {e.number}"
    assert message.status == e.status, (where, message)
    assert message.line[2] == e.reason, where
    assert message.complete and set(m.status for m in message.interim) <= set(e.interim), where
    fields = end_to_end(message)
    ours = {name.lower(): value for name, value in fields if name.lower().startswith(b"skerry-")}
    assert ours.get(b"skerry-run") == b"r" and ours.get(b"skerry-version-start") == b"0", (where, ours)
    assert [pair for pair in fields if not pair[0].lower().startswith(b"skerry-")] == e.answered, where
    body = bytes(message.body)
    if e.may_be_stamped:
        assert STAMP.search(body), (where, body[-100:])
        body = STAMP.sub(b"", body)
    assert body == e.answered_body, f"{where}: {len(body)} bytes, not {len(e.answered_body)}"
    if e.length is not None:
        assert message.all(b"content-length") in ([e.length], []), where
    if e.length is not None and e.method == "HEAD":
        assert message.all(b"content-length") == [e.length], where
