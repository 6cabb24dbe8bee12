"""What a gateway costs beside nginx: requests a second and added latency, with the same upstreams in the same run.

    python bench/gateway.py SKERRY [--islands 3] [--seconds 4] [--rounds 5] [--connections 1,16,64] [--json]

Needs nginx and wrk on PATH (Debian: apt-get install nginx-light wrk). Starts on loopback, for each island: an nginx with
one worker that answers everything with 250 bytes of JSON as an agent would (with Skerry-Run and Skerry-Version-Start). Before
all of them: an nginx with one worker that passes requests on to the one with the fewest connections; and a gateway that has
been told of them by heartbeats, whose every request names a version. wrk asks both in turn, round after round, as
bench/proxy.py does.

  ratio         requests/s of the gateway to nginx's           wanted: >= 0.6
"""

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import proxy
from proxy import ANSWER, free_port

UPSTREAM = """
daemon off; worker_processes 1; pid {dir}/upstream{n}.pid; error_log {dir}/upstream{n}.err;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 1000000000; default_type application/json;
  client_body_temp_path {dir}/b{n}; proxy_temp_path {dir}/p{n}; fastcgi_temp_path {dir}/f{n}; uwsgi_temp_path {dir}/u{n}; scgi_temp_path {dir}/s{n};
  server {{ listen 127.0.0.1:{port} backlog=4096;
    location / {{ add_header Skerry-Run r; add_header Skerry-Version-Start 0; return 200 '{answer}'; }} }} }}
"""
BALANCER = """
daemon off; worker_processes 1; pid {dir}/proxy.pid; error_log {dir}/proxy.err;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 1000000000;
  client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
  upstream islands {{ least_conn; {servers} keepalive 256; keepalive_requests 1000000000; }}
  server {{ listen 127.0.0.1:{port} backlog=4096;
    location / {{ proxy_pass http://islands; proxy_http_version 1.1; proxy_set_header Connection ""; }} }} }}
"""
TOKEN = "bench"


class Servers(proxy.Servers):
    """The first upstream, nginx before all of them, and a gateway."""

    def __init__(self, skerry, directory, islands):
        self.processes, self.ports, self.workers = [], {}, {}
        ports = [free_port() for _ in range(islands)]
        for number, port in enumerate(ports):
            name = "upstream" if number == 0 else f"upstream{number}"
            self._nginx(name, port, directory, UPSTREAM.format(dir=directory, n=number, port=port, answer=ANSWER))
        balancer, gateway = free_port(), free_port()
        servers = " ".join(f"server 127.0.0.1:{port};" for port in ports)
        self._nginx("nginx", balancer, directory, BALANCER.format(dir=directory, servers=servers, port=balancer))
        token = directory / "token"
        token.write_text(TOKEN)
        command = [skerry, "gateway", "--run", "r", "--listen", f"127.0.0.1:{gateway}", "--token-file", token]
        self.reports = threading.Event()
        self.urls = [f"http://127.0.0.1:{port}" for port in ports]
        self.gateway = f"http://127.0.0.1:{gateway}"
        heart = threading.Thread(target=self._beat, daemon=True)
        heart.start()
        self._start("agent", gateway, *command)  # the name under which bench/proxy.py compares
        self.workers["agent"] = self.processes[-1].pid

    def _nginx(self, name, port, directory, text):
        path = directory / f"{name}.conf"
        path.write_text(text)
        self._start(name, port, "nginx", "-p", directory, "-c", path)
        self.workers[name] = self._child(self.processes[-1].pid)

    def _beat(self):
        while not self.reports.wait(1):
            for url in self.urls:
                report = {"format": 1, "url": url, "name": "i", "instance": "1", "run": "r", "version": 0, "ready": True,
                          "engines": 1, "capacity": 4096}  # fmt: skip
                asked = urllib.request.Request(f"{self.gateway}/v1/skerry/islands", json.dumps(report).encode(),
                                               {"Authorization": f"Bearer {TOKEN}"})  # fmt: skip
                try:
                    urllib.request.urlopen(asked, timeout=5).read()
                except OSError:
                    time.sleep(0.1)  # not there yet

    def end(self):
        self.reports.set()
        super().end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("skerry")
    parser.add_argument("--islands", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=lambda text: [int(part) for part in text.split(",")], default=[1, 16, 64])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    missing = [name for name in ("nginx", "wrk") if not shutil.which(name)]
    if missing:
        sys.exit(f"gateway: {' and '.join(missing)} not found: apt-get install nginx-light wrk")
    proxy.SCRIPT = proxy.SCRIPT.replace("{post}", "{post}\nwrk.headers['Skerry-Min-Version'] = '0'")
    with tempfile.TemporaryDirectory() as directory:
        directory = Path(directory)
        directory.chmod(0o755)  # nginx' worker is another user
        servers = Servers(options.skerry, directory, options.islands)
        try:
            if not options.json:
                print(proxy.HEADING.replace("agent", "gatew"))
            rows = proxy.measure(servers, options, directory)
        finally:
            servers.end()
    if options.json:
        print(json.dumps({"rows": rows}, indent=1))


if __name__ == "__main__":
    main()
