"""A board on an S3 server, used through the program: a trainer with its state, islands."""

import json
from pathlib import Path

from program import skerry
from servers import environment_of, url_of

RUN = "r"


class S3Board:
    """`server`: a Server or a FakeS3. `checkpoints`: directories of versions 0, 1, …"""

    def __init__(self, server, checkpoints, directory, prefix="b", env=None):
        self.server, self.checkpoints, self.directory, self.prefix = server, checkpoints, Path(directory), prefix
        self.url = url_of(server.endpoint, prefix)
        self.env = env or environment_of()

    def run(self, command, *more, **how):
        return skerry(command, self.url, *more, env=self.env, **how)

    def init(self, *more, base=0, **how):
        return self.run("init", "--run", RUN, "--base", self.checkpoints[base], "--json", *more, **how)

    def publish(self, version, *more, state="state", **how):
        state = self.directory / state
        return self.run("publish", self.checkpoints[version], "--run", RUN, "--state", state, "--json", *more, **how)

    def pull(self, where="island", *more, **how):
        return self.run("pull", "--run", RUN, "-o", self.directory / where, "--json", *more, **how)

    def head(self, **how):
        return self.run("head", "--run", RUN, "--json", **how)

    @property
    def version(self):
        return self.head().json["version"]

    def probe(self, *more, **how):
        return self.run("probe", "--json", *more, **how)

    def key(self, below):
        return f"{self.prefix}/{below}"

    @property
    def head_key(self):
        return self.key(f"runs/{RUN}/head")

    def head_bytes(self):
        """Of a fake server: what is there, past all faults."""
        return json.loads(self.server.body(self.head_key))
