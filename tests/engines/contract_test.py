"""That the stand-ins for engines have the traps of the real ones, so that a test against them means something."""

import json
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy
import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from contract_base import digest_of_checkpoint, serve  # noqa: E402
from sglang_contract import SglangContract  # noqa: E402
from vllm_contract import VllmContract  # noqa: E402

PROMPT = "x" * 256


def safetensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, array) in tensors.items():
        raw = array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def checkpoint(directory, seed, config=None):
    directory.mkdir()
    random = numpy.random.default_rng(seed)
    names = ["model.embed_tokens.weight", "model.layers.0.mlp.experts.0.up.weight", "lm_head.weight"]
    tensors = {name: ("BF16", random.integers(0, 65536, (8, 16), dtype="uint16")) for name in names}
    safetensors(directory / "model.safetensors", tensors)
    (directory / "config.json").write_text(json.dumps(config or {"tie_word_embeddings": False}))
    return tensors


@pytest.fixture
def versions(tmp_path):
    checkpoint(tmp_path / "v0", 0)
    checkpoint(tmp_path / "v1", 1)
    return tmp_path / "v0", tmp_path / "v1"


class Client:
    def __init__(self, contract):
        self.server = serve(contract, 0)
        self.base = f"http://127.0.0.1:{self.server.server_address[1]}"

    def call(self, route, body=None, method="POST"):
        """Status and parsed body."""
        data = json.dumps(body or {}).encode() if method == "POST" else None
        request = urllib.request.Request(self.base + route, data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                status, text = reply.status, reply.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text

    def get(self, route):
        return self.call(route, method="GET")

    def rpc(self, name, **kwargs):
        return self.call("/collective_rpc", {"method": name, "kwargs": kwargs})

    def workers(self, name, **kwargs):
        return self.rpc(name, **kwargs)[1]["results"]

    def tokens(self, **body):
        answer = self.call("/v1/completions", {"prompt": PROMPT, "max_tokens": 2, **body})[1]
        return answer["choices"][0]["text"].split()


@pytest.fixture
def start():
    clients = []

    def make(contract):
        clients.append(Client(contract))
        return clients[-1]

    yield make
    for client in clients:
        client.server.shutdown()
        client.server.server_close()


def until(condition):
    """Another thread is bound to bring it about."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end


def mark(directory):
    return f"w:{digest_of_checkpoint(directory)[:8]}"


def test_a_token_names_the_weights_that_made_it(start, versions):
    vllm = start(VllmContract(versions[0]))
    assert vllm.tokens() == [mark(versions[0])] * 2


def test_a_dense_reload_equals_a_fresh_server_and_h2_keeps_the_old_prefix(start, tmp_path):
    tensors = checkpoint(tmp_path / "a", 0), checkpoint(tmp_path / "b", 1)
    for name, values in zip("ab", tensors, strict=True):
        dense = {key: value for key, value in values.items() if "experts" not in key}
        safetensors(tmp_path / name / "model.safetensors", dense)
    vllm = start(VllmContract(tmp_path / "a"))
    vllm.tokens()
    assert vllm.rpc("reload_weights", weights_path=str(tmp_path / "b")) == (200, {"results": [None]})
    old = digest_of_checkpoint(tmp_path / "a")[:8]
    assert vllm.tokens() == [f"{mark(tmp_path / 'b')}/p:{old}"] * 2
    assert vllm.tokens(cache_salt="b") == [mark(tmp_path / "b")] * 2
    assert vllm.call("/reset_prefix_cache") == (200, {"success": True})
    assert vllm.tokens() == [mark(tmp_path / "b")] * 2


def test_a_reload_leaves_packed_experts_old_and_says_success(start, versions):
    vllm = start(VllmContract(versions[0]))
    assert vllm.rpc("reload_weights", weights_path=str(versions[1]))[0] == 200
    assert vllm.tokens(cache_salt="n") not in ([mark(versions[0])] * 2, [mark(versions[1])] * 2)


def test_every_safetensors_file_of_a_directory_without_an_index_is_read(start, versions):
    clean = digest_of_checkpoint(versions[1])
    safetensors(versions[1] / "patch.safetensors", {"stray": ("U8", numpy.zeros(1, "uint8"))})
    assert digest_of_checkpoint(versions[1]) != clean
    vllm = start(VllmContract(versions[0]))
    status, answer = vllm.rpc("reload_weights", weights_path=str(versions[1]))
    assert (status, answer) == (500, {"error": "loaded 4 of 3 tensors: stray"})


def plugin_commit(vllm, label, base, directory, positions=""):
    source = {"checkpoint": str(directory), "positions": str(positions)}
    prepared = vllm.workers("skerry_prepare", label=label, base=base, **source)
    if not all(worker["ok"] for worker in prepared):
        return prepared
    until(lambda: all(w["state"] == "prepared" for w in vllm.workers("skerry_prepared", label=label)))
    return vllm.workers("skerry_commit", label=label)


def test_the_plugin_moves_changed_elements_of_every_worker(start, tmp_path):
    tensors = checkpoint(tmp_path / "v0", 0)
    vllm = start(VllmContract(tmp_path / "v0", plugin=True, workers=2))
    assert [w["ok"] for w in plugin_commit(vllm, "r@0", "", tmp_path / "v0")] == [True, True]
    name = "model.layers.0.mlp.experts.0.up.weight"
    changed = tensors[name][1].copy()
    changed.flat[[3, 100]] ^= 1
    checkpoint(tmp_path / "v1", 0)
    safetensors(tmp_path / "v1" / "model.safetensors", {**tensors, name: ("BF16", changed)})
    safetensors(tmp_path / "positions", {name: ("U32", numpy.array([3, 100], "uint32"))})
    refused = plugin_commit(vllm, "r@1", "r@9", tmp_path / "v1", tmp_path / "positions")
    assert refused[0]["error"] == "changes to 'r@9', but the worker serves 'r@0'"
    committed = plugin_commit(vllm, "r@1", "r@0", tmp_path / "v1", tmp_path / "positions")
    assert [worker["label"] for worker in committed] == ["r@1"] * 2
    assert vllm.tokens() == [mark(tmp_path / "v1")] * 2
    assert all(w["ok"] for w in vllm.workers("skerry_verify", label="r@1"))


def test_missing_positions_show_in_the_tokens(start, tmp_path):
    checkpoint(tmp_path / "v0", 0), checkpoint(tmp_path / "v1", 1)
    vllm = start(VllmContract(tmp_path / "v0", plugin=True))
    plugin_commit(vllm, "r@0", "", tmp_path / "v0")
    safetensors(tmp_path / "positions", {"lm_head.weight": ("U32", numpy.array([0], "uint32"))})
    assert plugin_commit(vllm, "r@1", "r@0", tmp_path / "v1", tmp_path / "positions")[0]["ok"]
    assert vllm.tokens() != [mark(tmp_path / "v1")] * 2


def test_a_request_lives_through_pause_keep_and_switches_in_the_middle(start, versions):
    vllm = start(VllmContract(versions[0], plugin=True, token_seconds=0.005))
    result = []
    asking = threading.Thread(target=lambda: result.extend(vllm.tokens(max_tokens=100)))
    asking.start()
    contract = vllm.server.contract
    until(lambda: contract.running)
    assert vllm.call("/pause?mode=keep")[0] == 200
    assert contract.running == 1
    assert vllm.call("/reset_prefix_cache")[1] == {"success": False}
    assert plugin_commit(vllm, "r@1", "", versions[1])[0]["ok"]
    assert vllm.call("/reset_prefix_cache?reset_running_requests=true")[1] == {"success": True}
    assert vllm.call("/resume")[0] == 200
    asking.join()
    assert len(result) == 100 and result[-1] == mark(versions[1])
    assert set(result) <= {mark(versions[0]), mark(versions[1])}


@pytest.mark.parametrize("mode, whole", [("wait", True), ("abort", False)])
def test_pause_waits_for_requests_or_ends_them(start, versions, mode, whole):
    vllm = start(VllmContract(versions[0], token_seconds=0.005))
    result = []
    asking = threading.Thread(target=lambda: result.extend(vllm.tokens(max_tokens=60)))
    asking.start()
    until(lambda: vllm.server.contract.running)
    assert vllm.call(f"/pause?mode={mode}")[0] == 200
    asking.join()
    assert (len(result) == 60) == whole
    assert vllm.get("/is_paused")[1] == {"is_paused": True}


def test_faults_happen_as_often_as_scripted_and_the_trace_tells_all(start, versions):
    vllm = start(VllmContract(versions[0]))
    vllm.call("/fault", {"route": "/pause", "kind": "success_false", "times": 2})
    assert [vllm.call("/pause?mode=keep")[1].get("success") for _ in range(3)] == [False, False, None]
    vllm.call("/fault", {"route": "/resume", "kind": "empty"})
    assert vllm.call("/resume") == (200, b"")
    vllm.call("/fault", {"route": "/resume", "kind": "reset"})
    with pytest.raises(OSError):
        vllm.call("/resume")
    vllm.call("/fault", {"route": "/resume", "kind": "hang"})
    hanging = threading.Thread(target=lambda: pytest.raises(OSError, vllm.call, "/resume"))
    hanging.start()
    until(lambda: len(vllm.get("/trace")[1]) == 6)
    vllm.call("/release")
    hanging.join()
    trace = vllm.get("/trace")[1]
    assert [entry["route"] for entry in trace] == ["POST /pause"] * 3 + ["POST /resume"] * 3
    assert [entry["begin"] for entry in trace] == sorted(entry["begin"] for entry in trace)


def test_a_partial_load_serves_a_mixture(start, versions):
    vllm = start(VllmContract(versions[0]))
    vllm.call("/fault", {"route": "/collective_rpc reload_weights", "kind": "partial"})
    assert vllm.rpc("reload_weights", weights_path=str(versions[1]))[0] == 500
    assert vllm.tokens() not in ([mark(versions[0])] * 2, [mark(versions[1])] * 2)
    vllm.call("/restart")
    assert vllm.tokens() == [mark(versions[0])] * 2
    assert vllm.get("/weight_info")[1] == {"weight_version": "default"}


def test_h7_a_sleeping_engine_takes_no_weights(start, versions):
    vllm = start(VllmContract(versions[0]))
    vllm.call("/sleep?level=2")
    assert vllm.get("/is_sleeping")[1] == {"is_sleeping": True}
    assert vllm.rpc("reload_weights", weights_path=str(versions[1]))[0] == 500
    vllm.call("/wake_up")
    assert vllm.tokens() != [mark(versions[0])] * 2


def test_sglang_ends_requests_by_default_and_refuses_to_flush(start, versions):
    sglang = start(SglangContract(versions[0]))
    contract = sglang.server.contract
    contract.running = 1
    assert sglang.call("/pause_generation", {"mode": "in_place"})[0] == 200
    assert sglang.call("/flush_cache")[0] == 400
    epoch = contract.epoch
    sglang.call("/update_weight_version", {"new_version": "r@1", "abort_all_requests": False})
    assert contract.epoch == epoch
    sglang.call("/update_weight_version", {"new_version": "r@1"})
    assert contract.epoch == epoch + 1
    assert sglang.call("/pause_generation", {"mode": "retract"})[0] == 200
    assert sglang.call("/flush_cache") == (200, b"Cache flushed.\n")


def test_sglang_dies_of_a_flush_inside_the_switch(start, versions):
    sglang = start(SglangContract(versions[0]))
    switch = {"model_path": str(versions[1]), "weight_version": "r@1"}
    assert sglang.call("/update_weights_from_disk", switch)[1]["success"]
    assert sglang.get("/model_info")[1]["weight_version"] == "r@1"
    sglang.server.contract.running = 1
    assert sglang.call("/update_weights_from_disk", switch)[0] == 500
    assert sglang.get("/health")[0] == 500


def test_h6_sglang_may_keep_files_by_their_path(start, versions):
    sglang = start(SglangContract(versions[0], caches_files=True))
    switch = {"model_path": str(versions[1])}
    sglang.call("/update_weights_from_disk", switch)
    before = sglang.tokens(cache_salt="a")
    (versions[1] / "model.safetensors").write_bytes((versions[0] / "model.safetensors").read_bytes())
    assert sglang.call("/update_weights_from_disk", switch)[1]["success"]
    assert sglang.tokens(cache_salt="b") == before


def test_sglang_wants_its_token(start, versions):
    sglang = start(SglangContract(versions[0], token="t"))
    assert sglang.get("/model_info")[0] == 401


@pytest.mark.parametrize("script", ["vllm_contract.py", "sglang_contract.py"])
def test_a_stand_in_runs_as_a_program(versions, script):
    command = [sys.executable, str(HERE / script), "--model", str(versions[0])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            port = int(process.stdout.readline())
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=30) as reply:
                assert reply.status == 200
        finally:
            process.kill()
