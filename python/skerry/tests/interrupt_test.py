"""Ctrl-C and progress callbacks end a call, and leave what the command leaves when it is stopped."""

import os
import signal
import socket
import threading

import pytest

import skerry
from checkpoint_files import changed, random_tensors, write_checkpoint

V0 = random_tensors()
V1 = changed(V0, {"model.embed": [2, 300]})


class Enough(Exception):
    pass


class StopAt:
    """Progress that raises as a stage begins. `begun`: the stages so far."""

    def __init__(self, stage):
        self.stage, self.begun = stage, []

    def __call__(self, stage, done, total):
        self.begun.append(stage)
        if stage == self.stage:
            raise Enough(stage)


@pytest.fixture(autouse=True)
def ctrl_c_is_heard():
    """Also where the tests run in the background of a shell, which has its jobs ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def pair(tmp_path):
    return [write_checkpoint(tmp_path / f"v{i}", tensors, config="{}") for i, tensors in enumerate((V0, V1))]


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def interrupt_when(ready):
    """Sends the signal of Ctrl-C to this process as soon as `ready` is set."""

    def send():
        ready.wait()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


class SilentServer:
    """Takes one connection, and answers 404 to it when it is told to."""

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/board"
        self.accepted, self.answer = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()
        return self

    def _serve(self):
        connection = self.listener.accept()[0]
        self.accepted.set()
        self.answer.wait()
        connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        connection.close()

    def __exit__(self, *_):
        self.answer.set()
        self.thread.join()
        self.listener.close()


def test_an_interrupted_diff_leaves_no_file(pair, tmp_path):
    stop = StopAt("compare")
    with pytest.raises(Enough):
        skerry.diff(*pair, tmp_path / "p.skerry", progress=stop)
    assert stop.begun == ["compare"] and names(tmp_path) == ["v0", "v1"]


@pytest.mark.parametrize("stage", ["verify", "decode", "copy"])
def test_an_interrupted_apply_leaves_no_checkpoint_and_the_next_one_goes_through(pair, tmp_path, stage):
    skerry.diff(*pair, tmp_path / "p.skerry")
    stop = StopAt(stage)
    with pytest.raises(Enough):
        skerry.apply(pair[0], tmp_path / "p.skerry", tmp_path / "out", progress=stop)
    assert stop.begun[-1] == stage and not (tmp_path / "out").exists()
    skerry.apply(pair[0], tmp_path / "p.skerry", tmp_path / "out")
    assert contents(tmp_path / "out") == contents(pair[1])
    assert names(tmp_path) == ["out", "p.skerry", "v0", "v1"]


@pytest.mark.parametrize("stage", ["fetch", "decode"])
def test_an_interrupted_pull_leaves_the_old_version_and_the_next_one_goes_through(pair, tmp_path, stage):
    board = skerry.Board(tmp_path / "board")
    board.init("r", pair[0])
    board.pull("r", tmp_path / "island")
    skerry.Publisher(tmp_path / "board", "r", state=tmp_path / "state").publish(pair[1])
    with pytest.raises(Enough):
        board.pull("r", tmp_path / "island", progress=StopAt(stage))
    assert contents(tmp_path / "island") == contents(pair[0])
    assert board.pull("r", tmp_path / "island").version == 1
    assert contents(tmp_path / "island") == contents(pair[1])


def test_ctrl_c_ends_the_wait_for_a_server_that_does_not_answer():
    with SilentServer() as server:
        thread = interrupt_when(server.accepted)
        with pytest.raises(KeyboardInterrupt):
            skerry.Board(server.url).head("grpo-1")
        thread.join()


def test_ctrl_c_ends_the_wait_for_what_the_board_lacks(pair, tmp_path):
    board = skerry.Board(tmp_path / "board")
    board.init("r", pair[0])
    board.pull("r", tmp_path / "island")
    skerry.Publisher(tmp_path / "board", "r", state=tmp_path / "state").publish(pair[1])
    (patch,) = (tmp_path / "board").rglob("*.skerry")
    patch.rename(tmp_path / "away")
    begun = threading.Event()
    thread = interrupt_when(begun)
    with pytest.raises(KeyboardInterrupt):
        board.pull("r", tmp_path / "island", wait=3600, progress=lambda *state: begun.set())
    thread.join()
    assert contents(tmp_path / "island") == contents(pair[0])
    (tmp_path / "away").rename(patch)
    assert board.pull("r", tmp_path / "island").version == 1


def test_a_call_on_another_thread_goes_on_while_the_main_thread_is_interrupted():
    failed = []

    def ask(url):
        try:
            skerry.Board(url).head("grpo-1")
        except skerry.SkerryError as error:
            failed.append(error)

    with SilentServer() as server:
        worker = threading.Thread(target=ask, args=(server.url,))
        worker.start()
        server.accepted.wait()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait()
        assert worker.is_alive() and not failed
        server.answer.set()
        worker.join()
    assert [type(error) for error in failed] == [skerry.NotFound]
