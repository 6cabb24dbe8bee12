"""The cache keeps within its bound, keeps the way to the head, and does without a disk that is full."""

import concurrent.futures

from agent_process import wait_for
from checkpoint_files import assert_same_files
from relayed import get, keys_of
from small_disk import disk  # noqa: F401 (a fixture)


def size_of(directory):
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def settled(relay):
    """When nothing is being fetched and the way to the head is known."""
    return relay.wait(lambda status: status["coming"] == 0 and status["cache"]["pinned_bytes"] > 0)


def test_what_is_used_least_goes_and_the_way_to_the_head_stays(trainer, origin, relay, pull):
    trainer.publish(12)
    # But for the base's one large file, which has no room beside the way and is served from memory.
    keys = [key for key in keys_of(trainer.board) if (trainer.board / key).stat().st_size < 100_000]
    limit = sum((trainer.board / key).stat().st_size for key in keys) * 5 // 6
    served = relay(origin, options=("--cache-size", f"{limit}B"))
    assert_same_files(pull(served), trainer.files(12), "(version 12)")
    settled(served)
    way = {key for key, number in origin.asked.items() if number and key.endswith(".skerry")}
    pinned = served.status()["cache"]["pinned_bytes"]
    for _ in range(2):
        for key in keys:
            assert get(served, key)[1] == (trainer.board / key).read_bytes(), key
    shown = served.status()["cache"]
    assert shown["evicted_bytes"] > 0 and shown["pinned_bytes"] >= pinned
    assert shown["bytes"] <= shown["limit"] == limit
    assert size_of(served.cache / "objects") == shown["bytes"]
    origin.forget()
    assert_same_files(pull(served, "late"), trainer.files(12), "(version 12)")
    assert not way & set(origin.asked), "the way to the head was fetched again"
    assert served.metrics()["skerry_relay_evicted_bytes_total"] > 0


def test_the_bound_is_kept_after_a_restart_with_a_smaller_one(trainer, relay):
    trainer.publish(12)
    first = relay(trainer.board)
    for key in keys_of(trainer.board):
        get(first, key)
    before = first.status()["cache"]["bytes"]
    first.terminate()
    second = relay(trainer.board, options=("--cache-size", f"{before // 2}B"))
    assert second.status()["cache"]["bytes"] <= before // 2
    assert size_of(second.cache / "objects") <= before // 2


def test_a_cache_too_small_for_an_object_serves_it_without_keeping_it(large, large_origin, relay, pull):
    board, ckpt = large
    served = relay(large_origin, options=("--cache-size", "1MB"))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for directory in pool.map(lambda number: pull(served, f"island{number}"), range(4)):
            assert (directory / "model.safetensors").read_bytes() == (ckpt / "model.safetensors").read_bytes()
    assert served.status()["cache"]["bytes"] <= 1_000_000
    assert max(large_origin.copies().values()) < 4, "those who asked at once were not served together"
    wait_for(lambda: served.metrics()["skerry_relay_memory_bytes"] == 0, "the memory to be given back")


def test_without_room_on_disk_or_in_memory_it_says_so(large, large_origin, relay):
    board, _ = large
    key = max(keys_of(board), key=lambda name: (board / name).stat().st_size)
    served = relay(large_origin, options=("--cache-size", "1MB", "--memory", "1MB"))
    status, body, headers = get(served, key)
    assert status == 503 and b"no room" in body and headers["Retry-After"]
    assert get(served, "board.json")[0] == 200


def test_a_full_disk_is_no_reason_not_to_serve(trainer, origin, relay, pull, disk):  # noqa: F811
    trainer.publish(3)
    disk.resize("400k")
    disk.fill(but=100 << 10)
    served = relay(origin, cache=disk.path / "cache")
    assert_same_files(pull(served, "one"), trainer.files(3), "(a full disk)")
    trainer.publish(5)
    served.wait_for_head(5)
    assert_same_files(pull(served, "one"), trainer.files(5), "(a full disk)")
    disk.drop_ballast()
    disk.resize("16m")
    trainer.publish(7)
    served.wait_for_head(7)
    assert_same_files(pull(served, "two"), trainer.files(7), "(room again)")
    origin.forget()
    assert_same_files(pull(served, "three"), trainer.files(7), "(from the cache)")
    assert not [key for key in origin.asked if key.endswith(".skerry") and "versions/000000007" in key]
    served.kill()


def test_a_disk_that_fails_is_no_reason_not_to_serve(trainer, origin, relay, pull):
    trainer.publish(3)
    served = relay(origin)
    served.wait(lambda status: status["ready"])
    filling = served.cache / "filling"
    filling.rmdir()
    filling.write_text("no folder")
    assert_same_files(pull(served), trainer.files(3), "(version 3)")


def test_L2_the_memory_of_a_relay_does_not_grow_with_what_it_serves(large, large_origin, relay, pull, summary):
    """Beside the objects' own pages, which belong to the file system's cache."""

    def resident(process):
        with open(f"/proc/{process.pid}/smaps_rollup") as file:
            lines = dict(line.split(":", 1) for line in file.read().splitlines()[1:])
        return int(lines["Anonymous"].split()[0]) / 1024

    served = relay(large_origin)
    get(served, "board.json")
    before = resident(served.process)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: pull(served, f"island{number}"), range(8)))
    after = resident(served.process)
    summary.append(f"relay's anonymous memory: {before:.0f} MiB at rest, {after:.0f} MiB after 8 readers of a 12 MiB object at once")
    assert after < before + 100, "buffers are bounded by --parallel times 4 MiB and what clients have not taken"
