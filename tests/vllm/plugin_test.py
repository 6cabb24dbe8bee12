"""Versions pushed through the plugin against fresh servers: same greedy tokens, same logprobs, same digests.

Each model has versions v0 … v4. The plugin's server takes v0 whole and the others as changed elements; then a server
without the plugin starts on v4. The controls show that the comparison can fail.
"""

import os
import threading

import checkpoints
import pytest
from server import UNPACKED, Refused, Server

LAST = 4
CASES = {
    # Plain matrices in bf16: single elements are stored in place.
    "tied_in_place": dict(model="tied", environment=UNPACKED),
    # vLLM packs float32 matrices on any machine, the head that is tied to the embedding too.
    "tied_packed": dict(model="tied", dtype="float32"),
    # Experts in a permuted layout; matrices as this machine has them. Some are packed in the pause for want of memory.
    "experts": dict(model="moe", environment={"SKERRY_VLLM_PREPARE_BYTES": "300000"}),
}
STOCK_IS_RIGHT = {"tied_in_place"}  # elsewhere vLLM's own reload leaves packed copies of the old weights


def versions_of(models, case, tmp_path):
    base = tmp_path / case
    os.symlink(models / CASES[case]["model"], base)
    return str(base), checkpoints.make_versions(str(base), LAST + 1)


def refuses_what_does_not_fit(server, base, directories, tmp_path):
    """All of it before the first write: the server goes on as it was."""
    before = server.answers()
    positions = f"{base}-v{LAST}.positions"
    answer = server.prepare("x", "v1", directories[LAST], positions)
    assert not answer["ok"] and "'v1'" in answer["error"] and f"'v{LAST - 1}'" in answer["error"]
    bad = str(tmp_path / "bad.positions")
    for name, at, said in [
        ("model.no_such.weight", [0], "'model.no_such.weight'"),
        ("model.norm.weight", [1, 128], "index 128"),
        ("model.norm.weight", [2, 1], "index 1"),
    ]:
        checkpoints.write_positions(bad, {name: checkpoints.np.array(at, "u4")})
        answer = server.prepare("x", f"v{LAST - 1}", directories[LAST], bad)
        assert not answer["ok"] and said in answer["error"], answer
    commit = server.rpc("skerry_commit", label="x")
    assert not commit["ok"] and "not prepared" in commit["error"]
    assert server.rpc("skerry_status")["label"] == f"v{LAST - 1}"
    assert server.answers() == before


def answers_the_same_while_it_prepares(server, base, directories):
    """Requests run all the while, and what was packed beside them is right."""
    quiet, busy, done = server.answers(), [], threading.Event()

    def ask():
        while not done.is_set():
            busy.append(server.answers())

    asking = threading.Thread(target=ask)
    asking.start()
    for _ in range(3):
        answer = server.prepare("x", f"v{LAST - 1}", directories[LAST], f"{base}-v{LAST}.positions")
        assert answer["ok"] and answer["state"] == "prepared", answer
    done.set()
    asking.join()
    assert busy and all(answer == quiet for answer in busy)


def partial_checkpoint(directory, tmp_path):
    """A fused module of which one tensor is missing."""
    tensors = checkpoints.read(os.path.join(directory, "model.safetensors"))
    del tensors["model.layers.0.self_attn.k_proj.weight"]
    partial = tmp_path / "partial"
    partial.mkdir()
    checkpoints.write(partial / "model.safetensors", tensors)
    return str(partial)


def damage_is_found_and_a_whole_load_mends_it(server, base, directories, tmp_path):
    """Control: vLLM reloads a fused module from some of its tensors, with HTTP 200 and wrong tokens."""
    right = server.answers()
    partial = partial_checkpoint(directories[LAST], tmp_path)
    answer = server.prepare("x", "", partial, "")
    assert not answer["ok"] and "model.layers.0.self_attn.k_proj.weight" in answer["error"]
    assert server.move("again", directories[LAST])[0]["ok"]
    assert server.answers() == right
    server.call("/pause?mode=keep")
    server.rpc("reload_weights", weights_path=partial)
    verify = server.rpc("skerry_verify", label="again")
    assert not verify["ok"] and "model.layers.0.self_attn.qkv_proj" in verify["error"]
    server.call("/reset_prefix_cache")
    server.call("/resume")
    try:
        assert server.answers() != right
    except Refused:
        pass  # not-a-number logprobs
    status = server.rpc("skerry_status")
    assert status["uncertain"] and status["label"] == "?"
    answer = server.prepare("x", "again", directories[LAST], f"{base}-v{LAST}.positions")
    assert not answer["ok"] and "'?'" in answer["error"]
    server.move("mended", directories[LAST])
    assert server.answers() == right
    assert not server.rpc("skerry_status")["uncertain"]


@pytest.mark.parametrize("case", CASES)
def test_pushed_versions_answer_like_fresh_servers(case, models, python, tmp_path):
    base, directories = versions_of(models, case, tmp_path)
    options = {key: value for key, value in CASES[case].items() if key != "model"}
    answers, checksums = {}, {}
    with Server(python, directories[0], tmp_path / "plugin.log", **options) as server:
        booted = server.answers()
        server.move("v0", directories[0])
        assert server.answers() == booted
        assert server.rpc("skerry_status")["plan"]["reload"] == []
        for version in range(1, LAST + 1):
            if version == LAST and case != "tied_in_place":
                answers_the_same_while_it_prepares(server, base, directories)
            if version == LAST and case == "tied_in_place":
                refuses_what_does_not_fit(server, base, directories, tmp_path)
            commit, verify = server.move(
                f"v{version}", directories[version], f"v{version - 1}", f"{base}-v{version}.positions"
            )
            assert commit["reloaded"] == 0 and verify["elements"] + verify["columns"] > 0
            assert server.rpc("skerry_commit", label=f"v{version}")["ok"]  # harmless to repeat
            answers[version], checksums[version] = server.answers(), server.checksums()
        assert answers[LAST] != answers[LAST - 1]
        if case == "tied_packed":
            damage_is_found_and_a_whole_load_mends_it(server, base, directories, tmp_path)
        server.move("back", directories[1])  # a whole load also gets everything right
        assert server.answers() == answers[1] and server.checksums() == checksums[1]
        # The plan was learned without harm: vLLM's own reload still loads.
        server.reload_stock(directories[2])
        assert (server.answers() == answers[2]) == (case in STOCK_IS_RIGHT)
        assert server.answers() != answers[1]
    with Server(python, directories[LAST], tmp_path / "fresh.log", plugin=False, **options) as server:
        assert server.answers() == answers[LAST] and server.checksums() == checksums[LAST]
        server.reload_stock(directories[LAST - 1])
        assert (server.answers() == answers[LAST - 1]) == (case in STOCK_IS_RIGHT)
