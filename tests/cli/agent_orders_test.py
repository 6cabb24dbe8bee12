"""The command line of `skerry agent`, and of orders to one, where there is none that could carry them out."""

import json
import re

import pytest

from program import FAILED, UNAVAILABLE, USAGE, skerry

AGENT = ["agent", "--board", "b", "--run", "r", "--state", "s"]
ORDERS = {
    "rollback": ["agent", "rollback"],
    "follow": ["agent", "follow", "head"],
    "wake": ["agent", "wake"],
}


@pytest.mark.parametrize("missing", ["--board", "--run", "--state"])
def test_an_agent_wants_to_know_what_it_is_for(missing):
    at = AGENT.index(missing)
    ran = skerry(*AGENT[:at], *AGENT[at + 2 :], expect=USAGE)
    assert f"{missing} is required" in ran.err


@pytest.mark.parametrize(
    "more, said",
    [
        (["--follow", "latest"], '"latest"'),
        (["--listen", "127.0.0.1"], "127.0.0.1"),
        (["--engine", "trtllm=http://127.0.0.1:1"], "trtllm"),
        (["--engine", "none", "--engine", "none"], "none is named twice"),
        (["--engine", "vllm=http://h:1", "--engine", "vllm=HTTP://a:b@H:1/"], "vllm http://h:1 is named twice"),
        (["--engine", "sglang=http://h/", "--engine", "vllm=http://h:80"], "vllm http://h is named twice"),
        (["--admin-token-file", "nowhere"], "nowhere"),
    ],
)
def test_a_wrong_choice_is_named_before_anything_begins(more, said, tmp_path):
    ran = skerry("agent", "--board", tmp_path, "--run", "r", "--state", tmp_path / "s", *more, expect=FAILED)
    assert said in ran.err and len(ran.err.splitlines()) == 1


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_wants_to_know_for_which_agent(order):
    assert "give its --state directory or its address" in skerry(*ORDERS[order], expect=USAGE).err


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_to_nobody_is_unavailable(order, tmp_path):
    assert "no agent named agent has run" in skerry(*ORDERS[order], "--state", tmp_path, expect=UNAVAILABLE).err
    ran = skerry(*ORDERS[order], "--agent", "http://127.0.0.1:1", "--json", expect=UNAVAILABLE)
    assert json.loads(ran.out)["error"]["code"] == "unavailable"
    assert "no agent answers" in ran.err


@pytest.mark.parametrize("order", ORDERS)
def test_help_of_an_order_has_an_example_that_names_it(order):
    out = skerry("agent", order, "--help").out
    assert re.search(rf"^Example:\s+skerry agent {order} ", out, re.M), out


def test_status_wants_a_board_or_an_agent_and_not_both(tmp_path):
    for arguments in (["status"], ["status", tmp_path, "--state", tmp_path]):
        assert "name a BOARD, or an agent" in skerry(*arguments, expect=USAGE).err
