"""From what was seen to numbers. Nothing here touches a process, a file or the clock."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .history import History, Step
from .island_record import WAKE, IslandRecord, bytes_of_versions, looks, whole_model_bytes

TIME_FACTOR = 1.5  # of the time that the way takes for the patch and the round trips
# Parts of an update that are work on the island while its engine serves.
WHILE_SERVING = ("decode", "stage", "probe", "prepare")


@dataclass(frozen=True)
class Way:
    """The way between the board and an island."""

    rate: float  # bits a second
    round_trip: float  # seconds

    def seconds(self, size: int, trips: int) -> float:
        """For so many bytes and round trips, one after the other."""
        return 8 * size / self.rate + trips * self.round_trip


@dataclass(frozen=True)
class Arrival:
    """How a version came to an island that was there when it was published. Seconds."""

    island: str
    live: float  # from the beginning of publishing until engines served it or a newer one
    with_version: int  # that one
    fetch: float
    work: float  # of the publisher, and of the island while its engine served
    pause: float
    round_trips: int  # with the board, the wake-up's, and those of new connections
    way: float  # that patch and round trips take, by the link's own figures
    wire_patch_bytes: int  # of the patch, with the heads of HTTP; 0: it came with another version's
    wire_described_bytes: int  # of manifests and digests

    @property
    def bound(self) -> float:
        return TIME_FACTOR * self.way + self.work + self.pause


@dataclass(frozen=True)
class VersionFigures:
    """A version that a step made, and how it arrived."""

    version: int
    step: int
    density: float
    changed: int
    patch_bytes: int
    checkpoint_bytes: int
    publish: float  # seconds until it was on the board
    arrivals: list[Arrival]


@dataclass(frozen=True)
class StepFigures:
    """Seconds of a step that came to its end."""

    step: int
    version: int | None
    reward: float
    began: float  # time.time()
    ended: float
    sampling: float
    learning: float
    publish_call: float  # that the call which publishes took of the step


@dataclass(frozen=True)
class IslandFigures:
    """One island, from its start to its end. Times are of time.time()."""

    name: str
    started: float
    ready: float | None
    killed: float | None
    updates: list[tuple[int, float]]  # version, when it went live
    pauses: list[tuple[int, float]]  # version, seconds; without the first load of the whole model
    answers: int
    refused_before_ready: int
    received_bytes: int
    received_to_join_bytes: int
    whole_model_bytes: int  # while it joined
    whole_model_bytes_later: int
    looks: int  # at the board's head, once it was ready
    look_bytes: int
    digests_equal: int  # versions whose model digest is the publisher's
    files_equal: int  # versions whose files are the trainer's
    files_not_read: int  # versions that were gone before their files were read
    different: list[int]  # versions
    unproved: int  # answers by weights that it had not proved to be a version


@dataclass(frozen=True)
class RequestFigures:
    """One answer with tokens. Times are of time.time()."""

    island: str
    began: float
    ended: float
    min_version: int | None  # the floor that was asked for
    version_start: int | None  # by the stamps of the answer
    version_end: int | None
    head: int  # the newest version that was out when it was asked

    @property
    def behind(self) -> int | None:
        """How many versions older than the newest its first token was."""
        return None if self.version_start is None else max(0, self.head - self.version_start)

    @property
    def is_below_floor(self) -> bool:
        return self.min_version is not None and (self.version_start is None or self.version_start < self.min_version)


@dataclass(frozen=True)
class Figures:
    """All of them."""

    steps: list[StepFigures]
    versions: list[VersionFigures]
    islands: list[IslandFigures]
    requests: list[RequestFigures]

    def as_json(self) -> dict[str, Any]:
        """With what follows from the fields."""
        found = asdict(self)
        for version, told in zip(self.versions, found["versions"], strict=True):
            for arrival, entry in zip(version.arrivals, told["arrivals"], strict=True):
                entry["bound"] = arrival.bound
        for request, entry in zip(self.requests, found["requests"], strict=True):
            entry["behind"] = request.behind
        return found


def measure(history: History, islands: list[IslandRecord], way: Way) -> Figures:
    return Figures(
        steps=[_step(step) for step in history.steps if step.returned is not None],
        versions=[_version(step, islands, way) for step in history.versions()],
        islands=[_island(island, history) for island in islands],
        requests=[request for island in islands for request in _requests(island, history)],
    )


def _step(step: Step) -> StepFigures:
    assert step.rewarded and step.stepped and step.returned and step.reward is not None
    return StepFigures(
        step=step.step,
        version=step.version,
        reward=step.reward,
        began=step.began,
        ended=step.returned,
        sampling=step.rewarded - step.began,
        learning=step.stepped - step.rewarded,
        publish_call=step.returned - step.stepped,
    )


def _version(step: Step, islands: list[IslandRecord], way: Way) -> VersionFigures:
    receipt, version = step.receipt, step.version
    assert receipt and version is not None and step.stepped and step.published
    arrivals = [_arrival(step, receipt["patch_bytes"], island, way) for island in islands]
    return VersionFigures(
        version=version,
        step=step.step,
        density=receipt["density"],
        changed=receipt["changed"],
        patch_bytes=receipt["patch_bytes"],
        checkpoint_bytes=receipt["checkpoint_bytes"],
        publish=step.published - step.stepped,
        arrivals=[arrival for arrival in arrivals if arrival],
    )


def _arrival(step: Step, patch_bytes: int, island: IslandRecord, way: Way) -> Arrival | None:
    """None where the version did not come, or the island was not there yet."""
    assert step.stepped and step.published and step.version is not None
    update = island.live_at(step.version)
    if update is None or island.ready is None or island.ready >= step.stepped:
        return None
    asked = [exchange for exchange in island.board if step.stepped <= exchange.began <= update.live]
    asked += [e for e in island.requests if e.path == WAKE and step.stepped <= e.began <= update.live][:1]
    trips = len(asked) + sum(exchange.opened for exchange in asked)
    wire = bytes_of_versions(island).get(step.version)
    return Arrival(
        island=island.name,
        live=update.live - step.stepped,
        with_version=update.version,
        fetch=update.seconds["fetch"],
        work=step.published - step.stepped + sum(update.seconds.get(part, 0.0) for part in WHILE_SERVING),
        pause=update.seconds["paused"],
        round_trips=trips,
        way=way.seconds(patch_bytes, trips),
        wire_patch_bytes=wire.patch if wire else 0,
        wire_described_bytes=wire.described if wire else 0,
    )


def _island(island: IslandRecord, history: History) -> IslandFigures:
    joined, later = whole_model_bytes(island)
    seen, given = looks(island), island.given()
    digests = [_same(update.model_digest, history.model_of(update.version)) for update in island.updates]
    files = [_same(update.files, history.files_of(update.version)) for update in island.updates]
    live = {update.version for update in island.updates}
    return IslandFigures(
        name=island.name,
        started=island.started,
        ready=island.ready,
        killed=island.killed,
        updates=[(update.version, update.live) for update in island.updates],
        pauses=[(update.version, update.seconds["paused"]) for update in island.updates[1:]],
        answers=len(given),
        refused_before_ready=sum(e.status != 200 for e in island.answers() if island.ready and e.began < island.ready),
        received_bytes=island.received,
        received_to_join_bytes=island.received_at_ready,
        whole_model_bytes=joined,
        whole_model_bytes_later=later,
        looks=len(seen),
        look_bytes=sum(exchange.received for exchange in seen),
        digests_equal=digests.count(True),
        files_equal=files.count(True),
        files_not_read=files.count(None),
        different=[u.version for u, *both in zip(island.updates, digests, files, strict=True) if False in both],
        unproved=sum(exchange.version_start not in live for exchange in given),
    )


def _same(found: Any, wanted: Any) -> bool | None:
    """None where one of them is not known."""
    return None if found is None or wanted is None else found == wanted


def _requests(island: IslandRecord, history: History) -> list[RequestFigures]:
    return [
        RequestFigures(
            island=island.name,
            began=exchange.began,
            ended=exchange.ended or exchange.began,
            min_version=exchange.min_version,
            version_start=exchange.version_start,
            version_end=exchange.version_end,
            head=history.head_at(exchange.began),
        )
        for exchange in island.given()
    ]
