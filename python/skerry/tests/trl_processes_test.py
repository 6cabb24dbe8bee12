"""Two processes of one trainer, of which one publishes: both ask islands for the same versions."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")


class Head:
    """A publisher, as far as rollouts ask it."""

    def __init__(self, version, error=None):
        self.version, self._error = version, error

    def wait(self):
        if self._error is not None:
            raise self._error
        return self.version + 1


def process(rank, folder):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "ACCELERATE_USE_CPU": "true"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}  # accelerate wants them; the group is there already
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    from accelerate import Accelerator

    from skerry.trl.newest import newest_version

    trainer = SimpleNamespace(accelerator=Accelerator(cpu=True), callback_handler=SimpleNamespace(callbacks=[]))
    assert trainer.accelerator.num_processes == 2

    def told(head, wait):
        try:
            return newest_version(trainer, head if rank == 0 else None, wait=wait)
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    answers = [told(Head(5), False), told(Head(5), True), told(None, True), told(Head(5, OSError("gone")), True)]
    (folder / f"answers-{rank}").write_text(repr(answers))
    torch.distributed.destroy_process_group()


def test_every_process_learns_the_version_or_the_error_of_the_one_that_publishes(tmp_path):
    processes = [subprocess.Popen([sys.executable, __file__, str(rank), str(tmp_path)]) for rank in (0, 1)]
    assert [one.wait(300) for one in processes] == [0, 0]
    assert (tmp_path / "answers-0").read_text() == repr([5, 6, None, "OSError: gone"])
    assert (tmp_path / "answers-1").read_text() == repr(
        [5, 6, None, "RuntimeError: the publishing process failed: OSError: gone"]
    )


if __name__ == "__main__":
    process(int(sys.argv[1]), Path(sys.argv[2]))
