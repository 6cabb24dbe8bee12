"""What a publish costs on S3 beside encoding: requests and wall time, on a SeaweedFS that it starts on loopback.

    python bench/s3_publish.py SKERRY V0 V1 V2 ...      checkpoints of consecutive versions

V0 is the base, V1 a warm-up; each later version is published once and prints
  requests      that the program sent, counted on the wire
  wall          of the whole command, and until the head had moved (from the receipt)
  yardstick     encoding (the receipt's own seconds) + one PUT of the patch's bytes by curl, just after
Needs requirements-test.txt and curl.
"""

import json
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "s3"))
import clients  # noqa: E402
import servers  # noqa: E402

REQUEST = re.compile(rb"(?:^|\r\n\r\n|\n)(GET|PUT|HEAD|POST|DELETE) /[^\r\n]* HTTP/1\.1\r\n")


class Counter:
    """Passes TCP connections through to a port and counts the requests in them. The first bytes of a connection begin a
    request; a further one on the same connection is found by its first line."""

    def __init__(self, port):
        self.port, self.requests = port, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def endpoint(self):
        return "http://127.0.0.1:%d" % self.listener.getsockname()[1]

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.create_connection(("127.0.0.1", self.port))
            for source, target, counted in ((client, server, True), (server, client, False)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._pass, args=(source, target, counted), daemon=True).start()

    def _pass(self, source, target, counted):
        while data := source.recv(1 << 18):
            if counted:
                self.requests += [match.group(0).strip().decode() for match in REQUEST.finditer(data)]
            target.sendall(data)
        try:
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def run(program, *arguments, environment):
    begin = time.monotonic()
    done = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))}: {done.stderr}")
    return json.loads(done.stdout), time.monotonic() - begin


def upload_by_curl(client, size, directory):
    """Seconds for a PUT of as many random bytes, by curl to a presigned URL."""
    body = directory / "body"
    body.write_bytes(bytes(size))
    url = client.generate_presigned_url("put_object", Params={"Bucket": servers.BUCKET, "Key": f"yardstick-{time.time_ns()}"})
    begin = time.monotonic()
    subprocess.run(["curl", "-sf", "-T", body, url], check=True)
    return time.monotonic() - begin


def main():
    program, base, warm_up, *versions = sys.argv[1:]
    if not versions:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        with servers.SeaweedFS(scratch / "weed") as weed:
            counter = Counter(int(weed.endpoint.rsplit(":", 1)[1]))
            environment = weed.environment | {"XDG_CACHE_HOME": str(scratch / "cache")}
            board = servers.url_of(counter.endpoint, "bench")
            client = clients.client_of(weed.endpoint)
            run(program, "init", board, "--run", "r", "--base", base, "--json", environment=environment)
            publish = ["publish", board, "--run", "r", "--state", scratch / "state", "--anchor-tail", "0", "--json"]
            run(program, *publish, warm_up, environment=environment)
            ratios = []
            for version in versions:
                counter.requests.clear()
                receipt, wall = run(program, *publish, version, environment=environment)
                requests = list(counter.requests)
                seconds = receipt["seconds"]
                encode = seconds["diff"] + seconds["encode"]
                out = seconds["snapshot"] + encode + seconds["publish"]
                curl = upload_by_curl(client, receipt["patch_bytes"], scratch)
                ratios.append(out / (encode + curl))
                print(
                    f"version {receipt['version']}: {receipt['patch_bytes']} bytes, {len(requests)} requests; out after "
                    f"{out:.3f} s = {ratios[-1]:.2f} x (encode {encode:.3f} s + curl {curl:.3f} s); command {wall:.3f} s"
                )
            for request in requests:
                print("  ", request)
            print(f"median {statistics.median(ratios):.2f} x")


if __name__ == "__main__":
    main()
