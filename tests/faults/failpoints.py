"""The list of failpoints, as the source has it."""

import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "skerry" / "base" / "failpoint.cc"


def all_failpoints():
    text = SOURCE.read_text()
    block = re.search(r"kNames\[\] = \{(.*?)\n\};", text, re.S).group(1)
    return re.findall(r'"([a-z_]+\.[a-z_]+)"', re.sub(r"//.*", "", block))


STEPS = [name for name in all_failpoints() if not name.startswith("file.")]
# Only an agent passes these.
OF_AGENTS = [name for name in STEPS if name.startswith(("agent.", "seed."))]
# Only ranks of a sharded model do (publish/shard_publish_test.cc).
OF_RANKS = [name for name in STEPS if name.startswith("shard.")]
# Calls to the operating system before which a kill makes a difference. (Not file.sync: a kill before it leaves what a
# kill before the next write or rename leaves.)
KILLED_CALLS = ["file.write", "file.rename", "file.link"]
