"""A small file system in memory, to be filled."""

import contextlib
import subprocess

import pytest

MIB = 1 << 20


class SmallDisk:
    def __init__(self, path):
        self.path = path

    def resize(self, size):
        subprocess.run(["mount", "-o", f"remount,size={size}", self.path], check=True, capture_output=True)

    def read_only(self):
        subprocess.run(["mount", "-o", "remount,ro", self.path], check=True, capture_output=True)

    def fill(self, but=0):
        """Takes what is free but for so many bytes, and gives it back when the name is removed."""
        with open(self.path / "ballast", "wb", buffering=0) as file:
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(4096))
            file.truncate(max(0, file.tell() - but))

    def drop_ballast(self):
        (self.path / "ballast").unlink()


@pytest.fixture
def disk(tmp_path):
    """Of 1 MiB."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={MIB}", "tmpfs", path], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"this machine lets nobody mount: {mounted.stderr.strip()}; the swept calls stand in")
    yield SmallDisk(path)
    subprocess.run(["umount", "-l", path], check=True)
