"""A trainer that publishes versions of the small model, and what each of them is."""

import json
import shutil

import board_files
import small_model
from checkpoint_files import files_of, write_checkpoint
from contract_base import digest_of_checkpoint
from program import skerry

# Says that nothing is tied: an engine's own reload can be trusted with it.
CONFIG = '{"architectures": ["TestLM"], "tie_word_embeddings": false}'


class Models:
    """Versions of the small model as directories, each made when it is asked for first."""

    shards = 2

    def __init__(self, directory):
        self.directory = directory
        self._files, self._digests = {}, {}

    def path(self, number):
        path = self.directory / f"v{number:03d}"
        if not path.exists():
            side_files = small_model.side_files(number) | {"config.json": CONFIG}
            write_checkpoint(path, self.tensors(number), self.shards, side_files)
        return path

    def tensors(self, number):
        return small_model.tensors(number)

    def files(self, number):
        if number not in self._files:
            self._files[number] = files_of(self.path(number))
        return self._files[number]

    def digest(self, number):
        """What an engine's stand-in serves when it serves this."""
        if number not in self._digests:
            self._digests[number] = digest_of_checkpoint(self.path(number))
        return self._digests[number]


class Trainer:
    """Version n of its run is model `first` + n. Keeps the head of each version, so that a copy of its board can go
    through them again in no time."""

    def __init__(self, models, board, run="r", first=0):
        self.models, self.board, self.run, self.first = models, board, run, first
        self.heads = []

    @property
    def head(self):
        return json.loads(board_files.head_path(self.board, self.run).read_bytes())["version"]

    def path(self, version):
        return self.models.path(self.first + version)

    def files(self, version):
        return self.models.files(self.first + version)

    def digest(self, version):
        return self.models.digest(self.first + version)

    def train(self, upto, *options, forgetful=False):
        """Publishes version 0 … `upto`. `forgetful`: what skips are made of is lost each time, so there are none."""
        state = self.board.parent / f"{self.run}.publisher"
        for version in range(upto + 1):
            if version == 0:
                skerry("init", self.board, "--run", self.run, "--base", self.path(0))
            else:
                skerry("publish", self.board, self.path(version), "--run", self.run, "--state", state, *options)
            if forgetful:
                shutil.rmtree(state / "undo", ignore_errors=True)
            self.heads.append(board_files.head_path(self.board, self.run).read_bytes())
        return self

    def copy(self, board, head):
        """The same on a board of its own, whose head is at an earlier version."""
        if not board.exists():
            shutil.copytree(self.board, board)
        other = Trainer(self.models, board, self.run, self.first)
        other.heads = self.heads
        return other.publish(head)

    def publish(self, version):
        """Moves the head of a copy, as the publisher of this version did."""
        path = board_files.head_path(self.board, self.run)
        new = path.with_name(".head.next")
        new.write_bytes(self.heads[version])
        new.rename(path)
        return self
