"""Programs that the demo starts: they end with all that they started, also where the demo is killed."""

import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from loop.namespaces import Namespace, why_there_are_none
from processes import DemoError, Process

EXAMPLES = Path(__file__).parents[2] / "examples"


def gone(pid):
    """Ended, though perhaps nobody has asked for its status yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def wait_until_gone(pid):
    descriptor = os.pidfd_open(pid)
    try:
        assert select.select([descriptor], [], [], 60)[0], f"{pid} still runs"
    finally:
        os.close(descriptor)


def started_by(log):
    """The process id that the program has written."""
    while not (text := log.read_text()).endswith("\n"):
        os.sched_yield()
    return int(text)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_program_ends_with_what_it_started(tmp_path, how):
    log = tmp_path / "log"
    process = Process("shell", ["sh", "-c", "sleep 1000 & echo $!; wait"], log)
    child = started_by(log)
    assert process.running() and not gone(child)
    getattr(process, how)()
    assert gone(process.pid) and (gone(child) or wait_until_gone(child) is None)


def test_a_program_that_fails_is_an_error_with_the_end_of_its_log(tmp_path):
    process = Process("shell", ["sh", "-c", "echo this went wrong; exit 3"], tmp_path / "log")
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(DemoError, match=r"the shell failed \(exit code 3\):\n  this went wrong"):
        process.running()


def test_a_program_reads_what_it_is_told_and_may_have_ended_meanwhile(tmp_path):
    log = tmp_path / "log"
    process = Process("shell", ["sh", "-c", "read a b; echo $b"], log, commanded=True)
    process.tell("first 42")
    assert started_by(log) == 42
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    process.tell("nobody is there")
    process.stop()


def test_nothing_outlives_a_demo_that_is_killed(tmp_path):
    program = (
        "import sys, signal; from contextlib import ExitStack; from pathlib import Path\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from processes import Process; from work_folder import open_work_folder\n"
        "print(open_work_folder(None, ExitStack()))\n"
        "Process('ended', ['true'], Path(sys.argv[2])).kill()\n"
        "Process('shell', ['sh', '-c', 'sleep 1000 & echo $!; wait'], Path(sys.argv[2]))\n"
        "print('ready', flush=True); signal.pause()"
    )
    log = tmp_path / "log"
    demo = subprocess.Popen([sys.executable, "-c", program, EXAMPLES, log], stdout=subprocess.PIPE, text=True)
    folder = Path(demo.stdout.readline().strip())
    assert demo.stdout.readline() == "ready\n"
    grandchild = started_by(log)
    assert folder.is_dir() and not gone(grandchild)
    demo.send_signal(signal.SIGKILL)
    demo.wait()
    demo.stdout.close()
    assert gone(grandchild) or wait_until_gone(grandchild) is None
    while folder.exists():
        os.sched_yield()


@pytest.fixture
def namespace(tmp_path):
    if (why := why_there_are_none(20e6, tmp_path)) is not None:
        pytest.skip(f"no network namespaces: {why}")
    made = Namespace("test", 20e6, tmp_path)
    yield made
    made.close()


def test_a_namespace_has_its_own_network_and_one_link(namespace, tmp_path):
    with socket.create_server((namespace.gateway, 0)) as server:
        program = f"import socket; c = socket.create_connection({server.getsockname()!r}); print(len(c.recv(10)))"
        inside = subprocess.Popen([*namespace.enter, sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        before = namespace.received()
        connection, (address, _) = server.accept()
        with connection:
            connection.sendall(b"0123456789")
            assert inside.communicate()[0] == "10\n"
    assert address == namespace.address
    assert namespace.received() >= before + 10

    found = []
    with socket.create_server(("127.0.0.1", 0)) as outside:

        def connect():
            try:
                socket.create_connection(outside.getsockname(), 5).close()
            except OSError as error:
                found.append(type(error))

        namespace.run_inside(connect).join(60)
    assert found == [ConnectionRefusedError]  # another loopback


def test_a_namespace_is_gone_with_its_holder(namespace):
    interface = Path(f"/sys/class/net/{namespace._interface}")
    assert interface.exists()
    namespace.close()
    while interface.exists():
        os.sched_yield()


def test_two_namespaces_have_addresses_of_their_own(namespace, tmp_path):
    other = Namespace("other", 20e6, tmp_path)
    try:
        assert {other.gateway, other.address}.isdisjoint({namespace.gateway, namespace.address})
    finally:
        other.close()
