"""Network namespaces for islands: each has one shaped link to the rest of the machine, and no other.

An island's namespace belongs to a holder process and has no name, so the kernel removes it and both ends of its link as
soon as the holder is gone. Nothing stays behind, whatever ends the demo.
"""

from __future__ import annotations

import ctypes
import ipaddress
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from processes import DemoError, Process

PROGRAMS = ("ip", "tc", "nsenter", "unshare")  # Debian: iproute2, util-linux
ADDRESSES = ipaddress.ip_network("198.18.0.0/15")  # set aside for measurements (RFC 2544): nobody routes them
BURST = "32kb"  # that a link lets through at once after a rest
QUEUE = "400ms"  # of waiting packets, then they are dropped
CLONE_NEWNET = 0x40000000
PATIENCE = 10.0  # seconds for the holder to have its namespace


class Namespace:
    """A namespace with one link: `gateway` is our address on it, `address` the island's. Both ends send at `rate`."""

    def __init__(self, name: str, rate: float, logs: Path) -> None:
        """`rate` in bits a second. Raises DemoError where the machine does not let us."""
        self.name = name
        self.rate = rate
        self._holder = Process(
            f"namespace of {name}", ["unshare", "--net", "sleep", "infinity"], logs / f"{name}-holder.log"
        )
        try:
            self._wait_for_namespace()
            self.gateway, self.address = _free_pair()
            self._interface = f"sk{self._holder.pid}"
            self._connect()
        except (subprocess.CalledProcessError, OSError, DemoError) as error:
            self.close()
            said = (getattr(error, "stderr", None) or str(error)).strip()
            raise DemoError(f"no network namespace for {name}: {said}") from error

    @property
    def enter(self) -> list[str]:
        """What stands before a command that shall run inside."""
        return ["nsenter", f"--net={self._path}"]

    def received(self) -> int:
        """Bytes that its link has brought to the island, with Ethernet, IP and TCP headers."""
        return int(Path(f"/sys/class/net/{self._interface}/statistics/tx_bytes").read_text())

    def run_inside(self, work: Callable[[], None]) -> threading.Thread:
        """Start a thread whose sockets are inside."""
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)

        def moved() -> None:
            libc = ctypes.CDLL(None, use_errno=True)
            try:
                if libc.setns(descriptor, CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), f"cannot enter the namespace of {self.name}")
            finally:
                os.close(descriptor)
            work()

        thread = threading.Thread(target=moved, name=f"inside {self.name}", daemon=True)
        thread.start()
        return thread

    def close(self) -> None:
        """End the holder, and with it the namespace as soon as no process is in it."""
        self._holder.kill()

    @property
    def _path(self) -> str:
        return f"/proc/{self._holder.pid}/ns/net"

    def _wait_for_namespace(self) -> None:
        ours, end = os.readlink("/proc/self/ns/net"), time.monotonic() + PATIENCE
        while os.readlink(self._path) == ours:
            if not self._holder.running() or time.monotonic() > end:
                raise DemoError(" ".join(self._holder.log_tail()) or "its holder does not start")
            time.sleep(0.01)

    def _connect(self) -> None:
        shape = ["root", "tbf", "rate", f"{self.rate:.0f}bit", "burst", BURST, "latency", QUEUE]
        ours, pid = self._interface, str(self._holder.pid)
        _run("ip", "link", "add", ours, "type", "veth", "peer", "name", "eth0", "netns", pid)
        _run("ip", "address", "add", f"{self.gateway}/30", "dev", ours)
        _run("ip", "link", "set", ours, "up")
        _run("tc", "qdisc", "add", "dev", ours, *shape)
        _run(*self.enter, "ip", "address", "add", f"{self.address}/30", "dev", "eth0")
        _run(*self.enter, "ip", "link", "set", "eth0", "up")
        _run(*self.enter, "ip", "link", "set", "lo", "up")
        _run(*self.enter, "tc", "qdisc", "add", "dev", "eth0", *shape)


def why_there_are_none(rate: float, logs: Path) -> str | None:
    """Why this machine gives us no namespaces; None where it does. Finds out by making one."""
    if os.geteuid() != 0:
        return "not root"
    if missing := [program for program in PROGRAMS if shutil.which(program) is None]:
        return f"no {', '.join(missing)}"
    try:
        with ExitStack() as stack:
            stack.callback(Namespace("probe", rate, logs).close)
    except DemoError as error:
        return str(error)
    return None


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _free_pair() -> tuple[str, str]:
    """Two addresses of a /30 of which this machine has none yet."""
    interfaces = json.loads(_run("ip", "-json", "address") or "[]")
    taken = {
        ipaddress.ip_address(a["local"])
        for interface in interfaces
        for a in interface.get("addr_info", [])
        if "local" in a
    }
    for network in ADDRESSES.subnets(new_prefix=30):
        if not any(address in network for address in taken):
            first, second = network.hosts()
            return str(first), str(second)
    raise DemoError(f"all of {ADDRESSES} is taken")
