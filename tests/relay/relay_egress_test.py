"""What the origin sends does not grow with the number of readers: each object once for each relay."""

import concurrent.futures

import pytest

from checkpoint_files import assert_same_files
from origin import Origin
from trainer import Trainer

REGIONS, READERS = 3, 8


def pull_all(relays, pull, *names):
    """Every reader of every region at once; the directories."""
    with concurrent.futures.ThreadPoolExecutor(REGIONS * READERS) as pool:
        pulls = [
            pool.submit(pull, relay, f"region{region}-{name}") for region, relay in enumerate(relays) for name in names
        ]
        return [each.result() for each in pulls]


def test_three_regions_of_eight_readers_cost_the_origin_three_copies(trainer, origin, relay, pull, tmp_path, summary):
    """Readers that have nothing, then a version that all move to, then several versions at once; each object is sent
    1.00 to 1.02 times per region that has asked for it."""
    relays = [relay(origin, cache=tmp_path / f"cache{region}") for region in range(REGIONS)]
    names = [f"reader{number}" for number in range(READERS)]
    for version in (3, 4, 10):
        trainer.publish(version)
        for served in relays:
            served.ask("GET", "/runs/r/head")
            served.wait_for_head(version)
        for directory in pull_all(relays, pull, *names):
            assert_same_files(directory, trainer.files(version), f"({directory.name}, version {version})")
    copies = origin.copies()
    patches = {key: number for key, number in copies.items() if key.endswith(".skerry")}
    assert len(patches) >= 6
    for key, number in copies.items():
        # board.json has no digest and is asked for again now and then.
        assert number <= REGIONS * 1.02 or key == "board.json", f"{key} was sent {number} times to {REGIONS} relays"
    for key, number in patches.items():
        assert REGIONS <= number, f"{key} was sent {number} times to {REGIONS} relays"
    most = max(number for key, number in copies.items() if key != "board.json") / REGIONS
    summary.append(
        f"egress: {REGIONS} relays with {READERS} readers each, three moves of the head: each object sent "
        f"{most:.2f} times per relay at most"
    )


@pytest.mark.slow
def test_100_versions_for_24_agents_cost_the_origin_three_copies(models, relay, agent, tmp_path, summary):
    versions = 100
    trainer = Trainer(models, tmp_path / "b").train(versions).copy(tmp_path / "copy" / "b", 0)
    with Origin(trainer.board) as origin:
        relays = [relay(origin, cache=tmp_path / f"cache{region}") for region in range(REGIONS)]
        agents = [agent(served, f"island{region}-{number}") for region, served in enumerate(relays) for number in range(READERS)]
        for version in range(versions + 1):
            trainer.publish(version)
            if version % 4 == 0:
                for island in agents:
                    island.wait_for_version(version)
        for island in agents:
            assert_same_files(island.state / "checkpoint", trainer.files(versions), island.name)
        copies = {key: number / REGIONS for key, number in origin.copies().items() if key != "board.json"}
        data = {key: number for key, number in copies.items() if key.endswith(".skerry")}
    summary.append(
        f"egress: {versions} versions, {REGIONS} relays with {READERS} agents each: {len(copies)} objects, each sent "
        f"{min(data.values()):.2f}-{max(copies.values()):.2f} times per relay"
    )
    assert len(data) > versions / 4 and max(copies.values()) <= 1.02


def test_a_large_object_that_many_ask_for_at_once_is_fetched_once(large, large_origin, relay, pull, tmp_path):
    board, ckpt = large
    served = relay(large_origin)
    large_origin.bandwidth = 40_000_000
    with concurrent.futures.ThreadPoolExecutor(READERS) as pool:
        for directory in pool.map(lambda number: pull(served, f"reader{number}"), range(READERS)):
            assert (directory / "model.safetensors").read_bytes() == (ckpt / "model.safetensors").read_bytes()
    assert max(number for key, number in large_origin.copies().items() if key != "board.json") <= 1.02


def test_relays_chain(trainer, origin, relay, pull, tmp_path):
    """Two regions behind one relay near the origin: one copy leaves the origin."""
    trainer.publish(5)
    near = relay(origin, cache=tmp_path / "near")
    far = [relay(near, cache=tmp_path / f"far{number}") for number in range(2)]
    for directory in pull_all(far, pull, "a", "b", "c"):
        assert_same_files(directory, trainer.files(5), directory.name)
    assert max(number for key, number in origin.copies().items() if key != "board.json") <= 1.02


def test_what_is_in_the_cache_is_not_fetched_again_after_a_restart(trainer, origin, relay, pull):
    trainer.publish(6)
    first = relay(origin)
    pull(first, "one")
    assert first.terminate() == 0
    origin.forget()
    second = relay(origin)
    assert_same_files(pull(second, "two"), trainer.files(6), "(version 6)")
    again = {key for key in origin.copies() if key not in ("board.json", "runs/r/run.json")}
    assert not again, f"fetched a second time: {sorted(again)}"
