"""What a relay adds to the time of a pull: bytes go on as they come. Figures, no limits."""

import http.client
import threading
import time

from link import Link
from program import skerry
from relayed import get, keys_of

BANDWIDTH = 6_000_000  # bytes a second, of the link to the origin: the object needs two seconds
DELAY = 0.02


def seconds_of(ask):
    begin = time.monotonic()
    ask()
    return time.monotonic() - begin


def test_a_relay_passes_bytes_on_while_they_come(large, large_origin, relay, tmp_path, summary):
    board, ckpt = large
    key = max(keys_of(board), key=lambda name: (board / name).stat().st_size)
    with Link(large_origin.port, delay=DELAY, bandwidth=BANDWIDTH) as link:
        served = relay(link.endpoint)
        get(served, "runs/r/head")

        def pull(address, name):
            skerry("pull", address, "--run", "r", "-o", tmp_path / name)
            assert (tmp_path / name / "model.safetensors").read_bytes() == (ckpt / "model.safetensors").read_bytes()

        direct = seconds_of(lambda: pull(link.endpoint, "direct"))
        through = seconds_of(lambda: pull(served.url, "through"))
        again = seconds_of(lambda: pull(served.url, "again"))
        size = (board / key).stat().st_size
        assert link.down < 2.2 * size, "direct once and through the relay once: the third came from its cache"
    summary.append(
        f"latency: {size / 1e6:.1f} MB over {BANDWIDTH / 1e6:.0f} MB/s and {DELAY * 1000:.0f} ms: pull direct {direct:.2f} s, "
        f"through a relay {through:.2f} s ({through / direct:.2f} x), from its cache {again:.2f} s"
    )


def test_the_first_bytes_go_out_before_the_last_have_come(large, large_origin, relay):
    """No figure: a client has most of an object while the origin still holds the rest back."""
    board, _ = large
    key = max(keys_of(board), key=lambda name: (board / name).stat().st_size)
    right = (board / key).read_bytes()
    release = threading.Event()
    plain = large_origin.transmit
    gone = 0

    def hold(size):
        nonlocal gone
        with large_origin.lock:
            gone += size
        if gone > len(right) * 3 // 4:
            release.wait(60)
        plain(size)

    served = relay(large_origin, options=("--parallel", 1))
    get(served, "runs/r/head")
    served.wait(lambda status: status["cache"]["pinned_bytes"] > 0)
    large_origin.transmit = hold
    try:
        client = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
        client.request("GET", f"/{key}")
        answer = client.getresponse()
        first = answer.read(len(right) // 2)
        assert first == right[: len(right) // 2] and not release.is_set()
        release.set()
        assert first + answer.read() == right
    finally:
        release.set()
        large_origin.transmit = plain
