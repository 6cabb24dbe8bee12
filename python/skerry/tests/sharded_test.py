"""A model that is sharded over ranks is published without being gathered: real FSDP2, real process groups (gloo)."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("torch has no torch.distributed", allow_module_level=True)

import skerry  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from sharded_ranks import RUN, make_model, nudge  # noqa: E402

HERE = Path(__file__).parent


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "base").mkdir()
    served = {name: tensor.to(torch.bfloat16) for name, tensor in make_model().state_dict().items()}
    save_file(served, tmp_path / "base" / "model.safetensors", {"format": "pt"})
    (tmp_path / "base" / "config.json").write_text("{}")
    return tmp_path


def run(job, ranks, folder):
    """What each rank found."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": f"{HERE}:{os.environ.get('PYTHONPATH', '')}", "GLOO_SOCKET_IFNAME": "lo"}
    logs = [folder / f"{job}-{rank}.log" for rank in range(ranks)]
    processes = []
    for rank, log in enumerate(logs):
        command = [sys.executable, HERE / "sharded_ranks.py", job, str(rank), str(ranks), str(port), folder]
        with log.open("w") as out:
            processes.append(subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment))
    try:
        deadline = time.monotonic() + 120
        while any(process.poll() is None for process in processes):
            # The others would wait for a rank that has died.
            if time.monotonic() > deadline or any(process.poll() for process in processes):
                break
            time.sleep(0.05)
    finally:
        for process in processes:
            process.kill()
    codes = [process.wait() for process in processes]
    assert codes == [0] * ranks, "\n".join(f"{log.name}: {code}\n{log.read_text()}" for log, code in zip(logs, codes, strict=True))
    return [json.loads((folder / f"{job}-{rank}.json").read_text()) for rank in range(ranks)]


def base_model(folder):
    model = make_model()
    model.load_state_dict({k: v.float() for k, v in load_file(folder / "base" / "model.safetensors").items()})
    return model


def files_of(board, version, folder):
    place = folder / f"pulled-{version}"
    shutil.rmtree(place, ignore_errors=True)
    with skerry.Board(board) as opened:
        opened.pull(RUN, place, version=version)
    return {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_versions_are_those_of_a_single_process(ranks, folder):
    found = run("versions", ranks, folder)
    assert all(one == found[0] for one in found)

    single, model = folder / "single", base_model(folder)
    receipts = []
    with skerry.Publisher(single, RUN, base=folder / "base", state=folder / "single-state") as publisher:
        for step in range(1, 4):
            nudge(model, step)
            receipts.append(publisher.publish(model, step=step))
    assert [one[:4] for one in found[0]["receipts"]] == [[r.version, True, r.changed, r.model] for r in receipts]
    assert all(not one[4] for one in found[0]["receipts"])
    assert found[0]["again"] is False
    for version in range(4):
        assert files_of(folder / "board", version, folder) == files_of(single, version, folder)
    with skerry.Board(folder / "board") as board:
        assert [one.step for one in board.versions(RUN)] == [3, 2, 1, None]

    found = run("restart", ranks, folder)
    nudge(model, 4)
    with skerry.Publisher(single, RUN, state=folder / "single-state") as publisher:
        receipt = publisher.publish(model)
    assert found == [[4, receipt.changed]] * ranks
    assert files_of(folder / "board", 4, folder) == files_of(single, 4, folder)


def test_ranks_whose_state_is_gone_begin_from_the_board(folder):
    run("versions", 2, folder)
    shutil.rmtree(folder / "state")
    found = run("restart", 2, folder)
    assert found[0][0] == 4 and not list((folder / "state").glob("whole-*"))


def test_f11_a_rank_that_fails_fails_the_version_on_all_ranks(folder):
    found = run("failing", 4, folder)
    for rank, one in enumerate(found):
        (kind, why), (lost, lost_why) = one["told"]
        assert kind == "Invalid" and "embed.weight: str is not a tensor of torch" in why
        assert lost == "Invalid" and "the capture is used up" in lost_why
        for text in (why, lost_why):
            assert text.startswith("rank 3: ") == (rank != 3)
        assert one["version"] == 1
    model = base_model(folder)
    nudge(model, 1)
    expected = {name: tensor.to(torch.bfloat16) for name, tensor in model.state_dict().items()}
    files_of(folder / "board", 1, folder)
    pulled = load_file(folder / "pulled-1" / "model.safetensors")
    assert all(torch.equal(pulled[name], expected[name]) for name in expected)


def test_f6_ranks_that_see_other_tensors_change_do_not_wait_for_each_other(folder):
    assert run("differing", 2, folder) == [[1, 2, 2]] * 2


@pytest.mark.parametrize("ranks", [2, 4])
def test_rows_columns_and_replicas_are_each_published_once(ranks, folder):
    found = run("placements", ranks, folder)
    for one in found:
        kind, why = one["refused"]
        assert kind == "Unsupported" and "embed.weight is a DTensor with a Partial placement" in why
        assert one["version"] == 1
    base = load_file(folder / "base" / "model.safetensors")
    files_of(folder / "board", 1, folder)
    pulled = load_file(folder / "pulled-1" / "model.safetensors")
    for at, (name, tensor) in enumerate(sorted(base.items())):
        expected = (tensor.float() + (1 if at % 3 == 0 else 0)).to(torch.bfloat16)
        assert torch.equal(pulled[name], expected), name
    assert found[0]["tensors_changed"] == sum(not torch.equal(pulled[name], base[name]) for name in base)


def test_f13_what_no_rank_gives_is_missing_and_stages_of_a_pipeline_make_one_model(folder):
    found = run("names", 2, folder)
    for one in found:
        kind, why = one["missing"]
        assert kind == "NamesDiffer" and "head.weight" in why and "head.bias" in why
        assert one["version"] == 1
        assert one["staged"][0] == 2


def test_no_rank_ever_holds_a_tensor_of_the_whole_model(folder, summary):
    size = 96 << 20
    big = {"a": torch.zeros(4096, size // 2 // 4096, dtype=torch.bfloat16)}
    save_file(big, folder / "base" / "model.safetensors", {"format": "pt"})
    found = run("memory", 4, folder)
    extra = max(one["extra"] for one in found)
    summary.append(
        f"4 ranks publish one tensor of {size >> 20} MiB, {found[0]['local'] >> 20} MiB of F32 masters each: "
        f"at most {extra / 2**20:.1f} MiB more a rank"
    )
    assert extra < size / 4
