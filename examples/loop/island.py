"""An island of the demo: a vLLM server and a Skerry agent in a place of their own behind a link, and their watcher."""

from __future__ import annotations

import calendar
import contextlib
import json
import queue
import secrets
import shutil
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from digests import file_digests
from processes import Process

from .engine import MODEL, answers_there, engine_command, engine_environment, free_port, post
from .island_record import ANSWERS, WAKE, IslandRecord, Update
from .link import Link, LinkLoop
from .namespaces import Namespace
from .seaweedfs import CLIENT_ENVIRONMENT, board_url

RUN = "grpo-1"
LOOK_SECONDS = 0.1  # between looks at the agent's status
KNOCK_SECONDS = 1.0  # between requests to an island that is not ready
POLL_MILLISECONDS = 5_000  # between looks at the board; a wake-up comes with each version


@dataclass(frozen=True)
class Place:
    """What all islands of one demo have in common."""

    skerry: Path
    engine_python: Path
    base: Path
    folder: Path  # their states go there
    logs: Path
    board_port: int  # of the S3 server, on loopback
    loop: LinkLoop
    delay: float  # seconds each way
    rate: float  # bits a second


@dataclass
class Island:
    """`namespace` is None where the machine has none for us: all is on loopback then, and the links keep the rate."""

    name: str
    place: Place
    namespace: Namespace | None
    cores: Sequence[int]  # for its engine
    started: float = field(default_factory=time.time)
    ready: float | None = None  # its first version was live
    killed: float | None = None
    status: dict[str, Any] = field(default_factory=dict)  # as last seen
    updates: list[Update] = field(default_factory=list)
    engine_up: float | None = None
    bytes_at_ready: int = 0  # that the link had brought when its first version was live

    def __post_init__(self) -> None:
        place, far = self.place, self.namespace
        rate = 0.0 if far else place.rate
        host = far.gateway if far else "127.0.0.1"
        self.board_link = Link(place.loop, ("127.0.0.1", place.board_port), host=host, delay=place.delay, rate=rate)
        self.request_link = Link(place.loop, ("127.0.0.1", 1), delay=place.delay, rate=rate)  # until the agent listens
        self.state = place.folder / self.name
        self._received: int | None = None  # in the end
        self._end = threading.Event()
        self._engine_port = free_port()
        self._token = secrets.token_hex(16)
        self._engine = Process(
            f"engine of {self.name}",
            [*self._enter, *engine_command(place.engine_python, self._bare_model(), self._engine_port, dummy=True)],
            place.logs / f"{self.name}-engine.log",
            more_environment=engine_environment(self.cores),
        )
        self._agent = Process(
            f"agent of {self.name}",
            [*self._enter, *self._agent_command()],
            place.logs / f"{self.name}-agent.log",
            more_environment=CLIENT_ENVIRONMENT,
        )
        self._unread: queue.Queue[Update] = queue.Queue()  # updates whose files are still to be read
        self._threads = [
            self._inside(self._watch),
            self._inside(self._read_files),
            _thread(self._knock, f"knocks at {self.name}"),
        ]

    # What it is made of

    @property
    def _enter(self) -> list[str]:
        return self.namespace.enter if self.namespace else []

    def _inside(self, work: Callable[[], None]) -> threading.Thread:
        return self.namespace.run_inside(work) if self.namespace else _thread(work, f"watches {self.name}")

    def _bare_model(self) -> Path:
        """Config and tokenizer without weights: those come from the board."""
        folder = self.place.folder / f"{self.name}-image"
        shutil.copytree(
            self.place.base, folder, ignore=shutil.ignore_patterns("*.safetensors", "*.safetensors.index.json")
        )
        return folder

    def _agent_command(self) -> list[str | Path]:
        token = self.place.folder / f"{self.name}-token"
        token.write_text(self._token)
        host = self.namespace.address if self.namespace else "127.0.0.1"
        return [
            self.place.skerry, "agent", "--board", board_url(self.board_link.url), "--run", RUN, "--state", self.state,
            "--engine", f"vllm=http://127.0.0.1:{self._engine_port}", "--listen", f"{host}:0", "--kv", "namespace",
            "--poll", str(POLL_MILLISECONDS), "--user-token-file", token, "--log", "json",
        ]  # fmt: skip

    # What others do with it

    @property
    def url(self) -> str:
        """Where requests for it go."""
        return self.request_link.url

    @property
    def alive(self) -> bool:
        return self.killed is None

    def check(self) -> None:
        """Raises DemoError where its agent or its engine has ended by itself."""
        if self.alive:
            self._agent.running()
            self._engine.running()

    @property
    def version(self) -> int | None:
        """That it serves, where it serves one."""
        return self.status.get("version") if self.alive else None

    def is_settled_at(self, version: int) -> bool:
        """It serves the version, and all that is to be seen of it has been seen."""
        seen = bool(self.updates) and self.updates[-1].version == version
        return self.version == version and seen and self._unread.unfinished_tasks == 0

    def received(self) -> int:
        """Bytes that its link has brought, with all headers where it has a namespace, else with those of HTTP."""
        if self._received is not None:
            return self._received
        if self.namespace:
            return self.namespace.received()
        asked = sum(exchange.sent for exchange in self.request_link.exchanges)
        return asked + sum(exchange.received for exchange in self.board_link.exchanges)

    def record(self) -> IslandRecord:
        """All that is known of it by now."""
        return IslandRecord(
            self.name, self.started, self.ready, self.killed, list(self.updates), list(self.board_link.exchanges),
            list(self.request_link.exchanges), self.received(), self.bytes_at_ready,
        )  # fmt: skip

    def wake(self) -> None:
        """Tell it that there is a new version, over its link. Returns at once."""

        def tell() -> None:
            with contextlib.suppress(OSError):
                self.ask(WAKE, {}, {"Authorization": f"Bearer {self._token}"})

        _thread(tell, f"wakes {self.name}")

    def ask(self, path: str, body: dict[str, Any], headers: dict[str, str] | None = None, timeout: float = 60) -> Any:
        """POST over its link; the parsed answer. Raises OSError."""
        return post(self.url + path, body, headers, timeout)

    def kill(self) -> None:
        """All of it, at once."""
        self._received = self.received()
        self.killed = time.time()
        self._agent.kill()
        self._engine.kill()
        self._end.set()

    def stop_engine(self) -> None:
        self._engine.stop()

    def close(self) -> None:
        """End all that runs, and its links."""
        self._end.set()
        self._agent.kill()
        self._engine.kill()
        for link in (self.board_link, self.request_link):
            link.close()
        for thread in self._threads:
            thread.join(10)
        if self.namespace:
            self.namespace.close()

    # Watching

    def _watch(self) -> None:
        """Inside: reads the agent's status without a byte on the link."""
        while not self._end.wait(LOOK_SECONDS):
            with contextlib.suppress(OSError, ValueError, KeyError):
                if self.engine_up is None and answers_there(f"http://127.0.0.1:{self._engine_port}/health"):
                    self.engine_up = time.time()
                seen = self._look()
                self.status = seen
                if seen["last_update"] and (not self.updates or self.updates[-1].told != seen["last_update"]):
                    self._note_update(seen)

    def _look(self) -> dict[str, Any]:
        contact = json.loads((self.state / "agents" / "agent" / "contact.json").read_text())
        host, _, port = contact["url"].removeprefix("http://").rpartition(":")
        self.request_link.target = (host, int(port))
        with urllib.request.urlopen(f"{contact['url']}/v1/skerry/status", timeout=5) as answer:
            return json.load(answer)

    def _note_update(self, seen: dict[str, Any]) -> None:
        told = seen["last_update"]
        version = int(told["to"].rpartition("@")[2])
        update = Update(version, seconds_of(told["time"]), told, seen["checkpoint"]["model_digest"])
        if not any(engine["in_rotation"] for engine in seen["engines"]):
            return  # the checkpoint is there, and no engine yet
        if self.ready is None:
            self.ready = update.live
            self.bytes_at_ready = self.received()
        self.updates.append(update)
        self._unread.put(update)

    def _read_files(self) -> None:
        """Inside, beside the watcher, which must miss no update."""
        while not self._end.is_set():
            with contextlib.suppress(queue.Empty):
                update = self._unread.get(timeout=LOOK_SECONDS)
                with contextlib.suppress(OSError, ValueError, KeyError):
                    update.files = self._files_of(update.version)
                self._unread.task_done()

    def _files_of(self, version: int) -> dict[str, str] | None:
        """SHA-256 of the checkpoint's files, read while it is this version and nobody writes; None: it has moved on."""
        while not self._end.is_set():
            before = self._look()
            if before["checkpoint"]["version"] != version or before["phase"] == "staging":
                return None
            if before["phase"] == "waiting":
                files, after = file_digests(self.state / "checkpoint"), self._look()
                same = after["checkpoint"]["version"] == version and after["phase"] == "waiting"
                return files if same and after["updates"] == before["updates"] else None
            self._end.wait(LOOK_SECONDS)
        return None

    def _knock(self) -> None:
        """Asks for a token again and again until it gets one: an island must answer nothing before it is exact."""
        while not self._end.wait(KNOCK_SECONDS):
            with contextlib.suppress(OSError):
                self.ask(ANSWERS, {"model": MODEL, "prompt": [1, 2, 3], "max_tokens": 1}, timeout=10)
                return


def seconds_of(stamp: str) -> float:
    """2026-11-30T15:23:19.148Z as seconds since 1970."""
    whole, _, fraction = stamp.removesuffix("Z").partition(".")
    parsed = time.strptime(whole, "%Y-%m-%dT%H:%M:%S")
    return calendar.timegm(parsed) + float(f"0.{fraction or 0}")


def _thread(work: Callable[[], None], name: str) -> threading.Thread:
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread
