"""Which engine gets a request, and which requests none gets: balance, rotation, control routes."""

from agent_process import passes, wait_for
from asking import Stream, ask_for, exact, read_json
from raw_client import ask

CONTROL = """/pause /resume /sleep /wake_up /collective_rpc /reset_prefix_cache /reset_encoder_cache
    /update_weight_version /v1/load_lora_adapter /v1/unload_lora_adapter /load_lora_adapter /start_profile /stop_profile
    /pause_generation /continue_generation /abort_request /flush_cache /update_weights_from_disk
    /update_weights_from_tensor /update_weights_from_distributed /init_weights_update_group
    /release_memory_occupation /resume_memory_occupation""".split()
SPELLINGS = """//pause ///pause /pause/ /pause// /PAUSE /Pause /%70ause /%70%61%75%73%65 /pause?mode=abort /./pause /pause/.
    /v1/../pause /a/b/../../pause /..//pause /%2e%2e/pause /%2E/pause /a/%2e%2e/pause /pause/x/.. /%2fpause
    /v1/..%2fpause /%2570ause /%252e%252e/pause /%25252570ause /pause;a=b /pause%2f /pause%20 /pause#a /pause%23
    /pause%0a /pause%09 /pause%5c /collective%5frpc /%63ollective_rpc""".split()


def test_control_routes_are_closed_from_outside_however_they_are_written(agent, engine, trainer):
    e = engine("vllm plugin")
    a = agent(trainer, e, options=("--poll", 3_600_000))
    a.wait_for_version(0)
    e.forget()
    answers = [(method, path) for path in CONTROL for method in ("POST", "GET", "PUT")]
    answers += [("POST", path) for path in SPELLINGS]
    statuses = {pair: ask(a.url, *pair, body=b"{}" if pair[0] == "POST" else None) for pair in answers}
    let_in = [pair for pair, got in statuses.items() if got.status not in (400, 403)]
    assert not let_in
    assert statuses["POST", "/pause"].json["error"]["type"] == "forbidden"
    assert not e.contract.trace and not e.paused
    assert ask_for(a).status == 200


def test_several_engines_share_the_requests(agent, engine, trainer):
    engines = [engine("vllm plugin", token_seconds=0.01) for _ in range(3)]
    a = agent(trainer, *engines)
    a.wait_for_version(0)
    streams = [Stream(a, 1_000_000).wait_for_events(1) for _ in range(9)]
    assert [e.contract.running for e in engines] == [3, 3, 3]
    for stream in streams[:3]:
        stream.client.close()
    wait_for(lambda: sum(e.contract.running for e in engines) == 6, "the aborts")
    more = [Stream(a, 1_000_000).wait_for_events(1) for _ in range(3)]
    assert [e.contract.running for e in engines] == [3, 3, 3]
    for stream in streams[3:] + more:
        stream.client.close()
    wait_for(lambda: a.metrics()["skerry_proxy_requests_in_flight"] == 0, "the end of all requests")


def test_an_engine_out_of_rotation_gets_no_requests(agent, engine, trainer):
    good, bad = engine("vllm plugin"), engine("vllm plugin")
    a = agent(trainer, good, bad)
    a.wait_for_version(0)
    bad.fault("load", "500", times=-1)
    trainer.publish(1)
    a.wait(lambda status: status["version"] == 1 and status["degraded"])
    for _ in range(20):
        stamped = read_json(ask_for(a, exact(1)))
        assert stamped.tokens == [trainer.digest(1)[:8]]
    bad.mend()
    a.command("wake")
    a.wait_for_version(1)
    passes(a)
