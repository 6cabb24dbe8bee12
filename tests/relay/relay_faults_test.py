"""Relays that are killed, upstreams that are away or wrong: readers keep what they have, and all of it mends itself."""

import http.client
import json
import time

import pytest

import board_files
from agent_process import wait_for
from checkpoint_files import assert_same_files, flip_bit
from origin import Origin
from program import CORRUPT, FAILED, UNAVAILABLE, skerry, start
from relayed import get, keys_of


def flipped(body):
    """With a bit in the middle changed."""
    changed = bytearray(body)
    changed[len(changed) // 2] ^= 1
    return bytes(changed)


@pytest.fixture
def two(trainer):
    """Two origins of one board."""
    with Origin(trainer.board) as first, Origin(trainer.board) as second:
        yield first, second


# Upstreams that are away.


def test_another_upstream_is_asked_while_one_is_away_and_the_first_has_its_place_again(trainer, two, relay, pull):
    first, second = two
    served = relay(first, second)
    trainer.publish(2)
    assert_same_files(pull(served), trainer.files(2), "(both there)")
    assert not second.asked
    first.stop()
    trainer.publish(4)
    served.wait_for_head(4)
    assert_same_files(pull(served), trainer.files(4), "(the first is away)")
    assert second.asked and not served.upstream(0)["up"] and served.upstream(1)["up"]
    first.start()
    served.wait(lambda status: status["upstreams"][0]["up"], "the first upstream to be up again")
    trainer.publish(6)
    served.wait_for_head(6)
    assert_same_files(pull(served), trainer.files(6), "(the first is back)")
    assert served.metrics()[f'skerry_relay_upstream_up{{upstream="{first.url}"}}'] == 1


def test_a_region_that_is_cut_off_serves_what_it_has_and_recovers(trainer, origin, relay, agent, pull):
    trainer.publish(3)
    served = relay(origin)
    islands = [agent(served, f"island{number}") for number in range(2)]
    for island in islands:
        island.wait_for_version(3)
    origin.stop()
    served.wait(lambda status: status["degraded"])
    trainer.publish(5)
    # A reader that comes now gets the version that the region has.
    assert_same_files(pull(served, "late"), trainer.files(3), "(while cut off)")
    for island in islands:
        assert island.status()["version"] == 3
    assert "Age" in get(served, "runs/r/head")[2]
    origin.start()
    for island in islands:
        island.wait_for_version(5)
        assert_same_files(island.state / "checkpoint", trainer.files(5), "(after it)")


def test_agents_keep_their_version_while_the_relay_is_away_and_go_on_when_it_is_back(trainer, relay, agent, tmp_path):
    trainer.publish(2)
    first = relay(trainer.board)
    port = first.port
    island = agent(first, options=("--poll", 200))
    island.wait_for_version(2)
    first.kill()
    trainer.publish(4)
    island.wait(lambda status: status["failure"] and status["failure"]["cause"] == "unavailable")
    assert island.status()["version"] == 2
    second = relay(trainer.board, options=("--listen", f"127.0.0.1:{port}"))
    assert second.url == first.url
    island.wait_for_version(4)
    assert_same_files(island.state / "checkpoint", trainer.files(4), "(version 4)")


def test_without_any_upstream_and_cache_the_reader_is_told_so(trainer, origin, relay, tmp_path):
    origin.stop()
    served = relay(origin)
    assert get(served, "runs/r/head")[0] == 503
    gone = skerry("pull", served.url, "--run", "r", "-o", tmp_path / "x", "--wait", 1, expect=UNAVAILABLE, timeout=300)
    assert "503" in gone.err


# Upstreams that are wrong.


def test_wrong_bytes_are_not_served_and_the_right_ones_come_from_elsewhere(trainer, two, relay, pull):
    lying, honest = two
    trainer.publish(3)
    lying.wrong = {"delta-": flipped, "part-": flipped, "digests-": flipped}
    served = relay(lying, honest)
    assert_same_files(pull(served), trainer.files(3), "(version 3)")
    trainer.publish(4)
    served.wait_for_head(4)
    assert_same_files(pull(served), trainer.files(4), "(version 4)")
    shown = served.upstream(0)
    assert shown["wrong"] > 0 and "SHA-256" in shown["problem"] and shown["name"] == lying.url
    assert served.upstream(1)["wrong"] == 0
    assert f"{lying.url} gave a wrong" in served.log and f"{honest.url} gave a wrong" not in served.log
    assert served.metrics()[f'skerry_relay_fetches_total{{result="wrong",upstream="{lying.url}"}}'] > 0


@pytest.mark.parametrize("lie", ["flipped", "short", "empty", "long", "another"])
def test_nobody_gets_an_object_that_is_wrong(lie, trainer, origin, relay):
    """Asked for as a whole and in ranges, of a liar alone; what the cache keeps is right. Objects that the head leads to,
    and such that nobody has named."""
    trainer.publish(3)
    other = (trainer.board / "board.json").read_bytes()
    change = {
        "flipped": flipped, "short": lambda body: body[: len(body) // 2], "empty": lambda body: b"",
        "long": lambda body: body + b"more", "another": lambda body: other,
    }[lie]  # fmt: skip
    keys = keys_of(trainer.board)
    asked = [
        named[place] for part in ("delta-000", "manifest-", "anchor-", "part-000", "layouts/")
        for named in [[key for key in keys if part in key]] for place in (0, -1)
    ]  # fmt: skip
    origin.wrong = {key: change for key in asked}
    served = relay(origin)
    assert get(served, "runs/r/head")[0] == 200
    for key in asked:
        right = (trainer.board / key).read_bytes()
        for headers in ({}, {"Range": f"bytes=0-{len(right) - 1}"}, {"Range": f"bytes={len(right) - 1}-"}, {}):
            try:
                status, body, _ = get(served, key, headers)
            except (OSError, http.client.IncompleteRead):
                continue  # it was cut off
            wanted = right[-1:] if headers.get("Range", "").endswith("-") else right
            assert status in (502, 503) or body == wanted, f"{key}: {status}, {len(body)} bytes that are not the object's"
    origin.wrong = {}
    for key in asked:
        right = (trainer.board / key).read_bytes()
        wait_for(lambda: get(served, key)[:2] == (200, right), f"the right bytes of {key}")
        assert (served.cache / "objects" / key).read_bytes() == right


def test_a_large_wrong_object_is_cut_off_before_its_end(large, large_origin, relay):
    """Its bytes are passed on as they come; the last ones wait until all of them are right."""
    board, _ = large
    key = max(keys_of(board), key=lambda name: (board / name).stat().st_size)
    right = (board / key).read_bytes()
    large_origin.wrong = {key: flipped}
    served = relay(large_origin)
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        get(served, key)
    last = get(served, key, {"Range": f"bytes={len(right) - 10}-"})
    assert last[0] in (502, 503), "the end of a wrong object went out"
    assert served.upstream()["wrong"] >= 1


@pytest.mark.parametrize("garbage", [b"", b"\0" * 300, b"{", b'{"format":1}', b"x" * (70 << 10)])
def test_a_head_that_is_garbage_is_not_passed_on(garbage, trainer, origin, relay, agent):
    trainer.publish(2)
    served = relay(origin)
    island = agent(served)
    island.wait_for_version(2)
    good = get(served, "runs/r/head")[1]
    origin.wrong = {"runs/r/head": lambda body: garbage}
    served.wait(lambda status: status["upstreams"][0]["wrong"] > 0)
    assert served.upstream()["wrong_object"] == "head of run r"
    assert get(served, "runs/r/head")[1] == good
    origin.wrong = {}
    trainer.publish(3)
    island.wait_for_version(3)


def test_a_head_of_another_run_or_of_a_replica_that_lags_is_not_passed_on(trainer, two, relay):
    first, second = two
    trainer.publish(5)
    lagging = trainer.heads[3]
    served = relay(first, second)
    assert json.loads(get(served, "runs/r/head")[1])["version"] == 5
    first.wrong = {"runs/r/head": lambda body: body.replace(b'"run":"r"', b'"run":"s"')}
    second.wrong = {"runs/r/head": lambda body: lagging}
    served.wait(lambda status: status["upstreams"][0]["wrong"] > 0 and not status["upstreams"][1]["up"])
    assert json.loads(get(served, "runs/r/head")[1])["version"] == 5
    first.wrong = second.wrong = {}
    trainer.publish(6)
    served.wait_for_head(6)


# The relay itself.


def test_K4_a_relay_that_is_killed_at_any_time_leaves_a_cache_that_is_right(large, large_origin, relay, pull, tmp_path):
    board, ckpt = large
    large_origin.bandwidth = 30_000_000
    for number in range(6):
        served = relay(large_origin)
        asking = skerry_in_background(served, tmp_path / f"island{number}")
        time.sleep(0.08 * number)
        served.kill()
        asking.kill()
        asking.communicate()
        for path in (served.cache / "objects").rglob("*"):
            assert not path.is_file() or path.read_bytes() == (board / path.relative_to(served.cache / "objects")).read_bytes()
    large_origin.bandwidth = 0
    last = relay(large_origin)
    assert (pull(last) / "model.safetensors").read_bytes() == (ckpt / "model.safetensors").read_bytes()
    assert not list((last.cache / "filling").iterdir())


def skerry_in_background(served, directory):
    assert served.url
    return start("pull", served.url, "--run", "r", "-o", directory)


def test_what_was_damaged_in_the_cache_is_fetched_again(trainer, origin, relay, pull):
    trainer.publish(4)
    first = relay(origin)
    pull(first, "one")
    first.terminate()
    damaged = [path for path in (first.cache / "objects").rglob("*") if path.is_file()]
    assert len(damaged) > 8
    for number, path in enumerate(damaged):
        if number % 3 == 0:
            flip_bit(path, path.stat().st_size // 2)
        elif number % 3 == 1:
            path.write_bytes(path.read_bytes()[:-1])
    second = relay(origin)
    assert_same_files(pull(second, "two"), trainer.files(4), "(version 4)")
    for path in damaged:
        key = path.relative_to(first.cache / "objects")
        get(second, str(key))
        assert path.read_bytes() == (trainer.board / key).read_bytes(), key


def test_a_restart_while_cut_off_serves_the_head_that_it_knew(trainer, origin, relay, pull):
    trainer.publish(4)
    first = relay(origin)
    pull(first, "one")
    assert first.terminate() == 0
    origin.stop()
    second = relay(origin)
    assert_same_files(pull(second, "two", "--wait", 5), trainer.files(4), "(version 4)")
    assert second.status()["degraded"]


def test_a_corrupt_board_is_told_to_the_reader(trainer, relay, tmp_path):
    """The relay is no excuse: an object that is wrong everywhere is wrong."""
    trainer.publish(1)
    key = next(name for name in keys_of(trainer.board) if "versions/000000001/delta" in name)
    flip_bit(trainer.board / key, 20)
    served = relay(trainer.board)
    skerry("pull", served.url, "--run", "r", "-o", tmp_path / "x", "--version", 0)
    told = skerry(
        "pull", served.url, "--run", "r", "-o", tmp_path / "x", "--wait", 2,
        expect=(CORRUPT, UNAVAILABLE, FAILED), timeout=300,
    )  # fmt: skip
    assert "delta-000" in told.err
    assert "gave a wrong" in served.log and str(trainer.board) in served.log


def test_many_versions_while_readers_come_and_go(trainer, origin, relay, agent):
    """Every checkpoint that an agent has is one of the trainer's, whole."""
    served = relay(origin)
    islands = [agent(served, f"island{number}") for number in range(3)]
    for version in range(1, 13):
        trainer.publish(version)
        time.sleep(0.2)
    for island in islands:
        island.wait_for_version(12)
        assert_same_files(island.state / "checkpoint", trainer.files(12), "(version 12)")
    assert served.upstream()["wrong"] == 0 and board_files.head_of(trainer.board, "r")["version"] == 12
