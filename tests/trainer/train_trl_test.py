"""The TRL example: how little it differs from TRL's own quickstart, and that it runs, with a real engine behind an
agent.
"""

import ast
import json
import os
import subprocess
from pathlib import Path

from agent_process import agents, wait_for
from checkpoints import read
from program import skerry
from server import UNPACKED, Server

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "train_trl.py"


def quickstart(python):
    """The GRPO quickstart in TRL's own README, which its package carries."""
    told = "import importlib.metadata as m; print(m.metadata('trl').get_payload())"
    readme = subprocess.run([python, "-c", told], check=True, capture_output=True, text=True).stdout
    [block] = [block for block in readme.split("```python\n")[1:] if "GRPOTrainer(" in block.split("```")[0]]
    return ast.parse(block.split("```")[0])


def imports(tree):
    return {ast.unparse(node) for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))}


def arguments(tree):
    [call] = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "GRPOTrainer"]
    return {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}


def test_it_differs_from_trls_quickstart_by_the_import_the_callback_and_the_url(python):
    theirs, ours = quickstart(python), ast.parse(EXAMPLE.read_text())
    assert imports(ours) - imports(theirs) == {"import sys", "from skerry.trl import PublishCallback, rollout_func"}
    assert imports(theirs) <= imports(ours)
    given, added = arguments(theirs), arguments(ours)
    assert {name: added[name] for name in added.keys() - given.keys()} == {
        "callbacks": "[PublishCallback(board, run='grpo-1')]",
        "rollout_func": "rollout_func(agents)",
    }
    assert added["reward_funcs"] == given["reward_funcs"] and given.keys() <= added.keys()
    assert ast.unparse(theirs.body[-1]) == ast.unparse(ours.body[-1]) == "trainer.train()"
    # Besides these: the docstring, the command line, and the trainer itself.
    rest = [node for node in ours.body if not isinstance(node, (ast.Import, ast.ImportFrom))]
    assert len(rest) == 4


def dataset(folder):
    folder.mkdir()
    rows = [{"prompt": [{"role": "user", "content": f"Count from {n}"}], "solution": str(n)} for n in range(4)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_it_trains_on_completions_of_an_engine_that_follows_it(python, tmp_path):
    base, board = tmp_path / "base", tmp_path / "board"
    environment = os.environ | {"TRL_EXPERIMENTAL_SILENCE": "1", "HF_HUB_OFFLINE": "1"}
    subprocess.run([python, ROOT / "examples" / "make_tiny_llama.py", base], check=True, env=environment)
    skerry("init", board, "--run", "grpo-1", "--base", base)
    with Server(python, str(base), tmp_path / "vllm.log", environment=UNPACKED) as server, agents() as start:
        agent = start(tmp_path / "state", board, f"vllm=http://127.0.0.1:{server.port}", run="grpo-1")
        trained = subprocess.run(
            [python, "-W", "ignore", ROOT / "tests" / "trainer" / "run_example.py", tmp_path / "out", base,
             dataset(tmp_path / "data"), board, agent.url],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500,
        )  # fmt: skip
        assert trained.returncode == 0, trained.stderr[-4000:]
        told = json.loads(trained.stdout.splitlines()[-1])

        published = [(one["version"], one["step"]) for one in told["receipts"] if one["published"]]
        assert published == [(1, 1), (2, 2), (3, 3), (4, 4)]
        rollouts = told["rollouts"]
        assert sum(len(one["rows"]) for one in rollouts) == 8 * 4 and {one["agent"] for one in rollouts} == {agent.url}
        for one in rollouts:
            # A step's publish waits for the one before it; completions are one version behind at most.
            assert one["head"] >= one["step"] - 1
            assert one["min_version"] == max(0, one["head"] - 1) <= one["version_start"] <= one["version_end"]
            assert one["tokens"] > 0
        assert all(one["version_start"] >= one["step"] - 2 for one in rollouts)
        assert [entry["skerry/version"] for entry in told["log"] if "loss" in entry][-1] >= 1

        # The trainer's view, the board and the island agree to the bit.
        wait_for(lambda: agent.status()["version"] == 4, "version 4")
        wanted = read(tmp_path / "out" / "model.safetensors")
        found = read(agent.state / "checkpoint" / "model.safetensors")
        assert found.keys() == wanted.keys()
        for name, (dtype, shape, bits) in wanted.items():
            assert found[name][:2] == (dtype, shape) and (found[name][2] == bits).all(), name
