"""What the agent's proxy costs beside nginx: requests a second and added latency, with the same upstream in the same run.

    python bench/proxy.py SKERRY [--seconds 4] [--rounds 5] [--connections 1,16,64] [--json]

Needs nginx and wrk on PATH (Debian: apt-get install nginx-light wrk). Starts on loopback: an nginx with one worker as the
upstream, which answers everything with 250 bytes of JSON; an nginx with one worker that passes requests on to it over kept
connections; and an agent that does the same. wrk asks each of the three in turn, round after round. Added latency is a
proxy's percentile less the upstream's own at as many connections. CPU is what the proxy's process used for a request.

  ratio         requests/s of the agent to nginx's             wanted: >= 0.7
  added         the agent's added latency to nginx's           wanted: <= 1.5, p50 and p99
"""

import argparse
import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ANSWER = json.dumps({
    "id": "cmpl-1", "object": "text_completion", "created": 1700000000, "model": "m",
    "choices": [{"index": 0, "text": " and the sea was calm again.", "logprobs": None, "finish_reason": "length"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 7, "total_tokens": 10},
})  # fmt: skip
BODY = json.dumps({"model": "m", "prompt": "The sea", "max_tokens": 16, "temperature": 0})
CASES = {"GET": "/v1/models", "POST": "/v1/completions"}

UPSTREAM = """
daemon off; worker_processes 1; pid {dir}/upstream.pid; error_log {dir}/upstream.err;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 1000000000; default_type application/json;
  client_body_temp_path {dir}/b1; proxy_temp_path {dir}/p1; fastcgi_temp_path {dir}/f1; uwsgi_temp_path {dir}/u1; scgi_temp_path {dir}/s1;
  server {{ listen 127.0.0.1:{upstream} backlog=4096; location / {{ return 200 '{answer}'; }} }} }}
"""
PROXY = """
daemon off; worker_processes 1; pid {dir}/proxy.pid; error_log {dir}/proxy.err;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 1000000000;
  client_body_temp_path {dir}/b2; proxy_temp_path {dir}/p2; fastcgi_temp_path {dir}/f2; uwsgi_temp_path {dir}/u2; scgi_temp_path {dir}/s2;
  upstream engine {{ server 127.0.0.1:{upstream}; keepalive 256; keepalive_requests 1000000000; }}
  server {{ listen 127.0.0.1:{proxy} backlog=4096;
    location / {{ proxy_pass http://engine; proxy_http_version 1.1; proxy_set_header Connection ""; }} }} }}
"""
SCRIPT = """
wrk.method = "{method}"
{post}
done = function(summary, latency, requests)
  io.write(string.format("RESULT %f %f %f %d %d\\n", summary.requests / summary.duration * 1e6, latency:percentile(50),
    latency:percentile(99), summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout,
    summary.errors.status))
end
"""
POST = "wrk.body = '{body}'\nwrk.headers['Content-Type'] = 'application/json'"


def free_port():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def wait_until(url):
    for _ in range(300):
        try:
            return urllib.request.urlopen(url, timeout=5).read()
        except OSError:
            time.sleep(0.1)
    sys.exit(f"proxy: nothing answers at {url}")


def write_checkpoint(directory):
    """Just large enough to be one."""
    directory.mkdir()
    header = json.dumps({"w": {"dtype": "BF16", "shape": [64], "data_offsets": [0, 128]}}).encode()
    (directory / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(128))
    (directory / "config.json").write_text("{}")
    return directory


class Servers:
    """The upstream and the two proxies: name -> port and the process that does the work."""

    def __init__(self, skerry, directory, options):
        self.processes, self.ports, self.workers = [], {}, {}
        upstream, proxy, agent = free_port(), free_port(), free_port()
        given = {"dir": directory, "upstream": upstream, "proxy": proxy, "answer": ANSWER}
        for name, text, port in (("upstream", UPSTREAM, upstream), ("nginx", PROXY, proxy)):
            path = directory / f"{name}.conf"
            path.write_text(text.format(**given))
            self._start(name, port, "nginx", "-p", directory, "-c", path)
            self.workers[name] = self._child(self.processes[-1].pid)
        board, run = directory / "b", ("--run", "r")
        init = [skerry, "init", board, *run, "--base", write_checkpoint(directory / "v0")]
        subprocess.run(list(map(str, init)), check=True, capture_output=True)
        command = ["agent", "--board", board, *run, "--state", directory / "state", "--engine", "none", "--scrub-rate", 0]
        command += ["--upstream", f"http://127.0.0.1:{upstream}", "--listen", f"127.0.0.1:{agent}", *options]
        self._start("agent", agent, skerry, *command)
        self.workers["agent"] = self.processes[-1].pid

    def _start(self, name, port, *command):
        self.processes.append(subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        self.ports[name] = port
        assert wait_until(f"http://127.0.0.1:{port}/v1/models") == ANSWER.encode(), name

    @staticmethod
    def _child(pid):
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def cpu(self, name):
        fields = Path(f"/proc/{self.workers[name]}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident(self, name):
        lines = Path(f"/proc/{self.workers[name]}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024

    def end(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()


def ask(servers, name, method, connections, seconds, directory):
    script = directory / f"{method}.lua"
    script.write_text(SCRIPT.format(method=method, post=POST.format(body=BODY) if method == "POST" else ""))
    url = f"http://127.0.0.1:{servers.ports[name]}{CASES[method]}"
    before = servers.cpu(name)
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(script), url]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    line = next(line for line in ran.stdout.splitlines() if line.startswith("RESULT"))
    rate, p50, p99, broken, refused = map(float, line.split()[1:])
    if broken or refused:
        sys.exit(f"proxy: {name}: {broken:.0f} requests failed, {refused:.0f} had another status than 2xx\n{ran.stdout}")
    return {"rate": rate, "p50": p50, "p99": p99, "cpu": 1e6 * (servers.cpu(name) - before) / (rate * seconds)}


def median(rounds, name, what):
    return statistics.median(found[name][what] for found in rounds)


def added(rounds, what):
    """Medians over the rounds. A machine that is busy with something else is so for all of a round: ratios are by round."""
    by_round = [[found[name][what] - found["upstream"][what] for name in ("nginx", "agent")] for found in rounds]
    ratios = [agent / nginx for nginx, agent in by_round if nginx > 0]
    nginx, agent = (statistics.median(column) for column in zip(*by_round, strict=True))
    return {"nginx": nginx, "agent": agent, "ratio": statistics.median(ratios) if ratios else None}


def measure(servers, options, directory):
    rows = []
    for method in CASES:
        for connections in options.connections:
            rounds = []
            for _ in range(options.rounds):
                rounds.append({name: ask(servers, name, method, connections, options.seconds, directory)
                               for name in ("upstream", "nginx", "agent")})  # fmt: skip
            row = {name: {what: median(rounds, name, what) for what in ("rate", "p50", "p99", "cpu")} for name in rounds[0]}
            row |= {"method": method, "connections": connections}
            row["ratio"] = statistics.median(found["agent"]["rate"] / found["nginx"]["rate"] for found in rounds)
            for what in ("p50", "p99"):
                row["added_" + what] = added(rounds, what)
            rows.append(row)
            if not options.json:
                print(line_of(row), flush=True)
    return rows


def line_of(row):
    cells = [f"{row['method']:5}{row['connections']:4}"]
    cells += [f"{row[name]['rate']:9.0f}" for name in ("upstream", "nginx", "agent")] + [f"{row['ratio']:6.2f}"]
    for what in ("p50", "p99"):
        added = row["added_" + what]
        ratio = "     -" if added["ratio"] is None else f"{added['ratio']:6.2f}"
        cells.append(f"{added['nginx']:8.0f}{added['agent']:8.0f}{ratio}")
    cells.append(f"{row['nginx']['cpu']:7.1f}{row['agent']['cpu']:7.1f}")
    return "  ".join(cells)


HEADING = """                 requests/s               agent/  added p50, us           added p99, us           CPU us/request
        conn  upstream      nginx      agent  nginx   nginx   agent ratio    nginx   agent ratio     nginx  agent"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("skerry")
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=lambda text: [int(part) for part in text.split(",")], default=[1, 16, 64])
    parser.add_argument("--agent-options", default="", help="more for the agent, separated by spaces")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    missing = [name for name in ("nginx", "wrk") if not shutil.which(name)]
    if missing:
        sys.exit(f"proxy: {' and '.join(missing)} not found: apt-get install nginx-light wrk")
    with tempfile.TemporaryDirectory() as directory:
        directory = Path(directory)
        directory.chmod(0o755)  # nginx' worker is another user
        servers = Servers(options.skerry, directory, options.agent_options.split())
        try:
            if not options.json:
                print(HEADING)
            rows = measure(servers, options, directory)
            resident = {name: servers.resident(name) for name in ("nginx", "agent")}
        finally:
            servers.end()
    if options.json:
        print(json.dumps({"rows": rows, "resident_mib": resident}, indent=1))
    else:
        print(f"resident: nginx' worker {resident['nginx']:.1f} MiB, agent {resident['agent']:.1f} MiB")


if __name__ == "__main__":
    main()
