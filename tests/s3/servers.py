"""Real S3 servers for tests: each on loopback and free ports, in a temporary directory, ended by its process group.

with SeaweedFS(directory) as server:
    server.url("prefix"), server.environment
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sysconfig
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

from clients import client_of

KEY, SECRET = "skerrykey", "skerrysecret"
READER, READER_SECRET = "readerkey", "readersecret"
BUCKET = "skerry"
LOOPBACK = "127.0.0.1"
TWIN = 10000  # SeaweedFS listens for gRPC at each of its ports + TWIN
FIRST_PORT, LAST_PORT = 20000, 30000  # below the ports that the kernel gives to clients


def script(name):
    """A program that a package of requirements-test.txt installed beside this Python."""
    path = Path(sysconfig.get_path("scripts")) / name
    return str(path) if path.exists() else shutil.which(name)


def _is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            return True
        except OSError:
            return False


_given = set()


def free_ports(count):
    """Ports that are free, as are their twins. Another process may take one before it is used: start() tries again."""
    ports = []
    for port in range(FIRST_PORT + (os.getpid() * 37) % 5000, LAST_PORT):
        if port not in _given and _is_free(port) and _is_free(port + TWIN):
            ports.append(port)
            _given.add(port)
            if len(ports) == count:
                return ports
    raise RuntimeError(f"no {count} free ports between {FIRST_PORT} and {LAST_PORT}")


def environment_of(key=KEY, secret=SECRET, region="us-east-1", token=None):
    """What a program needs to be this user, and nothing else of AWS from the surroundings."""
    given = {
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": region,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }
    return given | ({"AWS_SESSION_TOKEN": token} if token else {})


def url_of(endpoint, prefix, bucket=BUCKET):
    return f"s3://{bucket}/{prefix}?endpoint={endpoint}"


class Server:
    """One server process, or several. Subclasses give commands() and may override is_up() and prepare()."""

    ATTEMPTS = 2  # a port may have been taken meanwhile
    PATIENCE = 60  # seconds until it must be up
    GRACE = 5  # seconds between SIGTERM and SIGKILL

    def __init__(self, directory):
        self.directory = Path(directory)
        self._processes = []

    # What subclasses say.

    def commands(self):
        """[(arguments, more environment)]; sets self.port."""
        raise NotImplementedError

    def is_up(self):
        try:
            with urllib.request.urlopen(self.endpoint, timeout=1):
                return True
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False

    def prepare(self):
        """Makes the bucket."""
        client_of(self.endpoint).create_bucket(Bucket=BUCKET)

    # What tests use.

    @property
    def endpoint(self):
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def environment(self):
        return environment_of()

    def url(self, prefix):
        return url_of(self.endpoint, prefix)

    def fresh_url(self):
        """A prefix that nobody else uses."""
        return self.url(f"t/{uuid.uuid4().hex[:12]}")

    @property
    def log(self):
        return "\n".join(path.read_text(errors="replace")[-3000:] for path in self.directory.glob("*.log"))

    def start(self):
        for attempt in range(self.ATTEMPTS):
            self.directory.mkdir(parents=True, exist_ok=True)
            try:
                self.launch()
                self.wait_until_up()
                self.prepare()
                return self
            except Exception:
                self.stop()
                if attempt + 1 == self.ATTEMPTS:
                    raise
                shutil.rmtree(self.directory, ignore_errors=True)

    def launch(self):
        for arguments, more in self.commands():
            self.spawn(arguments, more)

    def spawn(self, arguments, more=None):
        log = open(self.directory / f"{len(self._processes)}.log", "wb")
        with log:
            self._processes.append(
                subprocess.Popen(
                    [*map(str, arguments)],
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    env=os.environ | (more or {}),
                    cwd=self.directory,
                    start_new_session=True,
                )
            )

    def wait_until_up(self):
        deadline = time.monotonic() + self.PATIENCE
        while not self.is_up():
            ended = [process for process in self._processes if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise RuntimeError(f"{type(self).__name__} did not start: {self.log}")
            time.sleep(0.05)

    def stop(self):
        for process in reversed(self._processes):
            self._end(process)
        self._processes.clear()

    def _end(self, process):
        for number in (signal.SIGTERM, signal.SIGKILL) if self.GRACE else (signal.SIGKILL,):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self.GRACE or 10)
                break

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


class SeaweedFS(Server):
    """Keeps to all conditions. Racing swaps of one key take it about 0.4 s a round of 4 writers, 2-4 s of 32."""

    GRACE = 0  # survives SIGKILL, and takes seconds to end otherwise

    def commands(self):
        self._ports = free_ports(6)
        self.port, master, volume, filer, admin, metrics = self._ports
        data = self.directory / "data"
        data.mkdir()
        # Without -master.telemetry=false and the addresses it would call out and listen on every interface.
        return [
            (
                [script("weed"), "-logtostderr=true", "mini", f"-dir={data}", f"-ip={LOOPBACK}", f"-ip.bind={LOOPBACK}"]
                + [f"-bucket={BUCKET}", "-master.telemetry=false", "-webdav=false", "-admin.ui=false"]
                + ["-s3.port.iceberg=0", "-s3.port.lance=0", f"-s3.port={self.port}", f"-master.port={master}"]
                + [f"-volume.port={volume}", f"-filer.port={filer}", f"-admin.port={admin}", f"-metricsPort={metrics}"],
                {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET},
            )
        ]

    def is_up(self):
        try:
            with urllib.request.urlopen(f"{self.endpoint}/healthz", timeout=1) as reply:
                return reply.status == 200
        except OSError:
            return False

    def stop(self):
        super().stop()
        for port in getattr(self, "_ports", []):
            for number in (port, port + TWIN):
                for left in Path(tempfile.gettempdir()).glob(f"seaweedfs-*-{number}.sock"):
                    left.unlink()

    def prepare(self):
        """The bucket is made by its -bucket, a moment after it says that it is healthy."""
        client, deadline = client_of(self.endpoint), time.monotonic() + self.PATIENCE
        while True:
            try:
                client.put_object(Bucket=BUCKET, Key="started", Body=b"")
                client.delete_object(Bucket=BUCKET, Key="started")
                return
            except Exception:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


class Moto(Server):
    """Keeps to all conditions, one request after the other: a race proves nothing. Checks no signatures."""

    def commands(self):
        (self.port,) = free_ports(1)
        return [([script("moto_server"), "-H", LOOPBACK, "-p", self.port], {})]


class Rclone(Server):
    """Ignores every condition."""

    def commands(self):
        (self.port,) = free_ports(1)
        data = self.directory / "data"
        data.mkdir()
        auth = f"--auth-key={KEY},{SECRET}"
        config = f"--config={self.directory / 'rclone.conf'}"
        return [
            (
                [script("rclone"), "serve", "s3", "--addr", f"{LOOPBACK}:{self.port}", auth, config]
                + ["--vfs-cache-mode", "off", data],
                {},
            )
        ]


class LocalBucket(Server):
    """Keeps to If-None-Match and ignores If-Match. Checks no signatures."""

    def commands(self):
        (self.port,) = free_ports(1)
        data = self.directory / "data"
        data.mkdir()
        return [([script("localbucket"), "--host", LOOPBACK, "--port", self.port, data], {})]
