"""A run that never was: three steps; one island that follows, one that is killed, one that joins. Times are round."""

from loop.exchanges import Exchange
from loop.final_checks import FinalChecks
from loop.history import History
from loop.island_record import IslandRecord, Update
from loop.measures import Way

WAY = Way(rate=20e6, round_trip=0.04)
PATCH = 100_000
CHECKPOINT = 200_000_000
GOOD = FinalChecks(islands=[], board=[], digests=[], answers=[], compared_tokens=64)
BOARD = "/skerry/board/runs/grpo-1/"


def files(version):
    return {"model.safetensors": f"sha256 of version {version}"}


def history(steps=3):
    """Step n begins at 100 n, has its answers 10 later, its weights 20 later, and is out 1 after that."""
    told = History()
    told.add({"event": "base", "files": files(0)})
    told.add({"event": "ready", "time": 99.0})
    for n in range(1, steps + 1):
        told.add({"event": "began", "step": n, "time": 100.0 * n})
        told.add({"event": "answered", "time": 100.0 * n + 9, "completions": 6})
        told.add({"event": "rewarded", "time": 100.0 * n + 10, "reward": 0.1 * n, "answer": "15"})
        told.add({"event": "stepped", "step": n, "time": 100.0 * n + 20})
        told.add({"event": "returned", "step": n, "time": 100.0 * n + 20.5})
        told.add(published(n, 100.0 * n + 21))
        told.add({"event": "served", "step": n, "files": files(n)})
    return told


def published(n, time):
    return {
        "event": "published", "time": time, "step": n, "version": n, "published": True, "model": f"model {n}",
        "elements": 100_000_000, "changed": 100_000 * n, "density": 0.001 * n, "patch_bytes": PATCH,
        "checkpoint_bytes": CHECKPOINT, "seconds": {"total": 1.0},
    }  # fmt: skip


def update(version, live, came_from=0, paused=0.05):
    """`came_from`: None for the first whole load."""
    seconds = {"plan": 0.1, "fetch": 0.2, "decode": 0.1, "stage": 0.2, "prepare": 0.3, "paused": paused}
    told = {"from": came_from, "to": f"grpo-1@{version}", "seconds": seconds}
    return Update(version, live, told, f"model {version}", files(version))


def fetched(path, began, received, opened=False):
    """What was got from the board."""
    return Exchange(
        "GET", f"{BOARD}{path}", None, began, began + 0.02, began + 0.04, 206, None, None, 400, received, opened
    )


def delivery(version, began):
    """The exchanges that bring a version: 3 round trips."""
    folder = f"versions/{version:09}"
    return [
        fetched("head", began, 800),
        fetched(f"{folder}/manifest-0123456789abcdef.json", began + 0.05, 2_000),
        fetched(f"{folder}/delta-000-0123456789abcdef.skerry", began + 0.1, PATCH + 500),
    ]


def answer(began, floor, start, end=None, status=200):
    """A request of the trainer, and its answer."""
    stamps = (start, start if end is None else end) if status == 200 else (None, None)
    return Exchange("POST", "/v1/completions", floor, began, began + 1, began + 5, status, *stamps, 900, 1_500)


def joining(began, size=CHECKPOINT):
    return [
        fetched("head", began, 800),
        fetched("anchors/000000000/0123456789abcdef/model.safetensors", began + 1, size),
    ]


def north():
    """Is there from the beginning to the end. Its version n is live 2 s after step n had its weights."""
    return IslandRecord(
        "north", started=10.0, ready=90.0,
        updates=[update(0, 90.0, None), *(update(n, 100.0 * n + 22, n - 1) for n in (1, 2, 3))],
        board=joining(11.0) + [e for n in (1, 2, 3) for e in delivery(n, 100.0 * n + 21.2)],
        requests=[
            answer(50.0, None, None, status=503),
            *(answer(100.0 * n + 1, max(0, n - 2), n - 1) for n in (1, 2, 3)),
        ],
        received=CHECKPOINT + 400_000, received_at_ready=CHECKPOINT + 10_000,
    )  # fmt: skip


def south():
    """Is killed in step 2."""
    return IslandRecord(
        "south", started=10.0, ready=91.0, killed=205.0,
        updates=[update(0, 91.0, None), update(1, 123.0, 0)],
        board=joining(12.0) + delivery(1, 121.5), requests=[answer(101.0, 0, 0)],
        received=CHECKPOINT + 150_000, received_at_ready=CHECKPOINT + 10_000,
    )  # fmt: skip


def west():
    """Joins at version 2, and takes version 3."""
    return IslandRecord(
        "west", started=206.0, ready=290.0,
        updates=[update(2, 290.0, None), update(3, 323.0, 2)],
        board=joining(207.0) + delivery(3, 321.5),
        requests=[answer(230.0, None, None, status=503), answer(301.0, 1, 2)],
        received=CHECKPOINT + 260_000, received_at_ready=CHECKPOINT + 120_000,
    )  # fmt: skip


def islands():
    return [north(), south(), west()]
