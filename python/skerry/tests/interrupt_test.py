"""Ctrl-C and progress callbacks end a call, and leave what the command leaves when it is stopped."""

import os
import signal
import socket
import threading

import pytest

import skerry
from checkpoint_files import write_checkpoint, write_zeros

LARGE = 512 << 20  # long enough that progress is told before the end


class Enough(Exception):
    pass


def stop(stage, done, total):
    raise Enough(stage)


@pytest.fixture
def large(tmp_path):
    return [write_zeros(tmp_path / name, LARGE) for name in ("v0", "v1")]


def interrupt_when(ready):
    """Sends the signal of Ctrl-C to this process as soon as `ready` is set."""

    def send():
        ready.wait()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def test_what_progress_raises_ends_a_diff_and_leaves_no_file(large, tmp_path):
    with pytest.raises(Enough, match="compare"):
        skerry.diff(*large, tmp_path / "p.skerry", threads=1, progress=stop)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["v0", "v1"]


def test_ctrl_c_ends_a_diff_and_leaves_no_file(large, tmp_path):
    begun = threading.Event()
    thread = interrupt_when(begun)
    with pytest.raises(KeyboardInterrupt):
        skerry.diff(*large, tmp_path / "p.skerry", threads=1, progress=lambda *state: begun.set())
    thread.join()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["v0", "v1"]


def test_an_interrupted_apply_leaves_no_checkpoint_and_the_next_one_goes_through(large, tmp_path):
    skerry.diff(*large, tmp_path / "p.skerry")
    with pytest.raises(Enough):
        skerry.apply(large[0], tmp_path / "p.skerry", tmp_path / "out", threads=1, progress=stop)
    assert not (tmp_path / "out").exists()
    receipt = skerry.apply(large[0], tmp_path / "p.skerry", tmp_path / "out")
    assert (tmp_path / "out" / "model.safetensors").stat().st_size > LARGE and receipt.changed == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "p.skerry", "v0", "v1"]


def test_ctrl_c_ends_the_wait_for_a_server_that_does_not_answer():
    with socket.create_server(("127.0.0.1", 0)) as server:
        accepted, connections = threading.Event(), []

        def accept():
            connections.append(server.accept()[0])
            accepted.set()

        accepting = threading.Thread(target=accept)
        accepting.start()
        thread = interrupt_when(accepted)
        board = skerry.Board(f"http://127.0.0.1:{server.getsockname()[1]}/board")
        with pytest.raises(KeyboardInterrupt):
            board.head("grpo-1")
        thread.join()
        accepting.join()
        for connection in connections:
            connection.close()


def test_ctrl_c_ends_the_wait_for_what_the_board_lacks_and_the_old_version_stays(tmp_path):
    old, new = (write_checkpoint(tmp_path / name, {"w": ("U8", (4,), bits)}) for name, bits in (("a", b"1234"), ("b", b"1235")))
    board = skerry.Board(tmp_path / "board")
    board.init("r", old)
    board.pull("r", tmp_path / "island")
    publisher = skerry.Publisher(tmp_path / "board", "r", state=tmp_path / "state")
    publisher.publish(new)
    patches = [path for path in (tmp_path / "board").rglob("*.skerry")]
    assert patches
    for path in patches:
        path.rename(path.with_suffix(".away"))
    begun = threading.Event()
    thread = interrupt_when(begun)
    with pytest.raises(KeyboardInterrupt):
        board.pull("r", tmp_path / "island", wait=3600, progress=lambda *state: begun.set())
    thread.join()
    assert (tmp_path / "island" / "model.safetensors").read_bytes() == (old / "model.safetensors").read_bytes()
    for path in patches:
        path.with_suffix(".away").rename(path)
    assert board.pull("r", tmp_path / "island").version == 1


def test_a_call_on_another_thread_goes_on_while_the_main_thread_is_interrupted(large, tmp_path):
    digests = []
    worker = threading.Thread(target=lambda: digests.append(skerry.Checkpoint(large[0]).model_digest(threads=1)))
    worker.start()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait()
    worker.join()
    assert digests == [skerry.Checkpoint(large[1]).model_digest()]
