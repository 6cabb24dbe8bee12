"""Prefix caches that older weights filled (--kv), seen from a client: H2."""

import re

import pytest

from asking import ROUTE, ask_for, read_json
from raw_client import post
from stand_in import LONG_PROMPT, StandIn

each_kind = pytest.mark.parametrize("kind", StandIn.KINDS)


def salts_of(engine):
    """What the engine is told from here on: a list that grows."""
    seen, completion = [], engine.contract.completion

    def record(body):
        seen.append({key: body[key] for key in ("cache_salt", "extra_key") if key in body})
        return completion(body)

    engine.contract.completion = record
    return seen


def text_of(agent, kind, **more):
    """The answer's text: "w:<weights>", with "/p:<weights>" where others computed the prefix."""
    route = "/generate" if kind == "sglang" else ROUTE
    got = post(agent.url, route, {"prompt": LONG_PROMPT, "max_tokens": 1, **more})
    assert got.status == 200, got
    return got.json["text"] if kind == "sglang" else got.json["choices"][0]["text"]


@each_kind
def test_H2_namespaces_divide_the_cache_and_nothing_is_flushed(kind, agent, engine, trainer):
    e = engine(kind)
    a = agent(trainer, e, options=("--kv", "namespace"))
    a.wait_for_version(0)
    seen, member = salts_of(e), "extra_key" if kind == "sglang" else "cache_salt"
    resets, stays = e.count("reset"), {}
    for version in (0, 1, 2):
        trainer.publish(version)
        a.wait_for_version(version)
        for own in ({}, {member: "tenant-1"}, {member: None}, {member: ""}):
            seen.clear()
            assert text_of(a, kind, **own) == f"w:{trainer.digest(version)[:8]}", "no hit of older weights"
            [salt] = [s[member] for s in seen]
            run, number, stay, *callers = salt.split(":")
            assert (run, number, callers) == ("r", str(version), ["tenant-1"] if own.get(member) else [])
            stays.setdefault(version, set()).add(stay)
    assert [len(stays[version]) for version in (0, 1, 2)] == [1, 1, 1] and len(set().union(*stays.values())) == 3
    assert e.count("reset") == resets
    a.command("rollback", "--to", 1)
    a.wait_for_version(1)
    seen.clear()
    assert text_of(a, kind) == f"w:{trainer.digest(1)[:8]}"
    assert seen[0][member].split(":")[2] not in stays[1], "what ran on through the switch left newer blocks behind"


@each_kind
def test_H2_flushed_caches_hold_nothing_of_older_weights_and_callers_salts_stay(kind, agent, engine, trainer):
    e = engine(kind)
    a = agent(trainer, e)
    a.wait_for_version(0)
    seen, member = salts_of(e), "extra_key" if kind == "sglang" else "cache_salt"
    for version in (0, 1):
        trainer.publish(version)
        a.wait_for_version(version)
        assert text_of(a, kind, **{member: "own"}) == text_of(a, kind) == f"w:{trainer.digest(version)[:8]}"
    assert seen == [{member: "own"}, {}] * 2


@each_kind
def test_H2_kept_caches_are_used_again_when_asked_for(kind, agent, engine, trainer):
    e = engine(kind)
    a = agent(trainer, e, options=("--kv", "keep"))
    a.wait_for_version(0)
    text_of(a, kind)
    trainer.publish(1)
    a.wait_for_version(1)
    assert text_of(a, kind) == f"w:{trainer.digest(1)[:8]}/p:{trainer.digest(0)[:8]}"


def test_a_salt_and_a_constraint_leave_the_rest_of_a_body_alone(agent, engine, trainer):
    e = engine("vllm plugin")
    a = agent(trainer, e, options=("--kv", "namespace"))
    a.wait_for_version(0)
    bodies, completion = [], e.contract.completion
    e.contract.completion = lambda body: (bodies.append(body), completion(body))[1]
    assert read_json(ask_for(a, tokens=2, weight_version={"exact_version": 0}, cache_salt="x", user="u")).tokens
    [body] = bodies
    assert re.fullmatch("r:0:[0-9a-f]{8}:x", body.pop("cache_salt"))
    assert body == {"prompt": "hello", "max_tokens": 2, "user": "u"}
