import shutil, pytest
from failpoints import OF_AGENTS, STEPS
from agent_process import passes, wait_for
import board_files
from checkpoint_files import assert_same_files
from agent_crash_test import FORWARD, FROM_A_BASE, BACK

def test_head_goes_back(agent, engine, trainer, assert_at):
    e = engine()
    trainer.publish(5)
    a = agent(trainer, e)
    a.wait_for_version(5)
    trainer.publish(3)
    passes(a, 3)
    s = a.status()
    print("BACK", s["version"], s["head"], s["failure"], s["degraded"])
    print(a.log)

@pytest.mark.parametrize("bytes_", [b"", bytes(300), b"{}", b"\xff\xfe garbage", b'{"version": 0}'])
def test_head_garbled(bytes_, agent, engine, trainer, assert_at):
    e = engine()
    trainer.publish(5)
    a = agent(trainer, e)
    a.wait_for_version(5)
    board_files.head_path(trainer.board, "r").write_bytes(bytes_)
    s = a.wait(lambda s: s["degraded"])
    print("GARBLED", s["version"], s["head"], s["failure"], s["degraded"])
    assert_at(a, trainer, 5, e)
    trainer.publish(6)
    a.command("wake")
    a.wait_for_version(6)

def test_checkpoint_removed(agent, engine, trainer, assert_at):
    e = engine()
    trainer.publish(5)
    a = agent(trainer, e)
    a.wait_for_version(5)
    shutil.rmtree(a.state / "checkpoint")
    wait_for(lambda: (a.state/"checkpoint").exists(), "x")
    a.wait_for_version(5)
    assert_at(a, trainer, 5, e)
    print("REMOVED", e.count("load"), a.log)

@pytest.mark.parametrize("fp", FORWARD)
def test_errors(fp, agent, engine, trainer, assert_at):
    e = engine()
    trainer.publish(5)
    a = agent(trainer, e, failpoints=f"{fp}:error@1", options=("--keep-undo", 2, "--base", trainer.path(0)))
    a.wait_for_version(5)
    assert_at(a, trainer, 5, e)
    print("ERR", fp, a.status()["failures"], a.status()["failure"])

@pytest.mark.parametrize("k", range(1, 80, 3))
@pytest.mark.parametrize("call", ["file.write:errno=28", "file.sync:errno=5", "file.rename:errno=5"])
def test_enospc(call, k, agent, engine, trainer, assert_at):
    e = engine()
    trainer.publish(5)
    a = agent(trainer, e, failpoints=f"{call}@{k}", options=("--keep-undo", 2, "--base", trainer.path(0)))
    try:
        a.wait_for_version(5)
    except AssertionError:
        if not a.ended: raise
        print("EXIT", call, k, a.process.returncode, a.log)
        return
    assert_at(a, trainer, 5, e)
    print("NOSPC", call, k, a.status()["failures"], a.status()["failure"])
