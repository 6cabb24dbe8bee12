"""What a worker knows of its weights: their label, the update that is prepared, whether it can be trusted.

Every method answers with a dict that has "ok" and "error" and never raises, as an exception of a worker may end the
engine. Methods are called one at a time, from the worker's own thread, between two steps of the engine; preparing
runs in a thread of its own with a lower priority. What it made is proved in the worker's thread, a little with each
call of prepared().
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable
from typing import Protocol

PROOF_SECONDS = 0.01  # for which one call may hold up the engine while it serves
UNCERTAIN = "?"  # the label after a commit that failed: any mixture of old and new weights


class Update(Protocol):
    label: str
    base: str
    whole: bool
    seconds: dict[str, float]
    retired: list

    def prepare(self) -> None: ...
    def prove(self, seconds: float) -> bool: ...
    def apply(self) -> None: ...
    def verify(self) -> dict[str, int]: ...
    def facts(self) -> dict: ...
    def close(self) -> None: ...


class Replica:
    def __init__(self, make_update: Callable[[str, str, str, str], Update], facts: dict):
        self.make_update = make_update
        self.facts = facts  # device, rank, unsupported
        self.instance = secrets.token_hex(8)
        self.label = ""
        self.update: Update | None = None  # prepared or committed last
        self.applied = False  # whether it was committed
        self.proved = False  # whether all that was prepared has been read back
        self.stats: dict = {}
        self._generation = 0  # a preparation that a later one has replaced changes nothing
        self._preparing: tuple[str, threading.Thread] | None = None
        self._failure: tuple[str, str] | None = None  # label and error of a preparation
        self._lock = threading.Lock()

    # -- answers --------------------------------------------------------------------------------------------------

    def state(self) -> str:
        if self._preparing:
            return "preparing"
        if self._failure:
            return "failed"
        if self.update and not self.applied:
            return "prepared" if self.proved else "preparing"
        return "uncertain" if self.label == UNCERTAIN else "idle"

    def _answer(self, error: str = "", **more) -> dict:
        return {"ok": not error, "error": error, **more}

    def status(self) -> dict:
        with self._lock:
            state = self.state()
            return self._answer(
                **self.facts,
                instance=self.instance,
                label=self.label,
                prepared=self.update.label if state == "prepared" else "",
                state=state,
                uncertain=self.label == UNCERTAIN,
                stats=self.stats,
            )

    def prepared(self, label: str) -> dict:
        with self._lock:
            self._prove()
            state = self.state()
            if self._failure and self._failure[0] == label:
                return self._answer(self._failure[1], state="failed", label=label, seconds=0.0)
            current = self._preparing[0] if self._preparing else self.update.label if self.update else ""
            if current != label:
                error = f"{label!r} is not being prepared, but {current!r}"
                return self._answer(error, state=state, label=current, seconds=0.0)
            seconds = sum(self.update.seconds.values()) if self.update and not self._preparing else 0.0
            return self._answer(state=state, label=label, seconds=seconds)

    def _prove(self) -> None:
        if self._preparing or not self.update or self.applied or self.proved:
            return
        try:
            self.proved = self.update.prove(PROOF_SECONDS)
        except BaseException as e:  # noqa: BLE001 - told to the caller
            self._failure = (self.update.label, f"preparing {self.update.label!r}: {type(e).__name__}: {e}")
            self.update = None

    # -- preparing ------------------------------------------------------------------------------------------------

    def prepare(self, label: str, base: str, checkpoint: str, positions: str) -> dict:
        if self.facts.get("unsupported"):
            return self._answer(self.facts["unsupported"], state=self.state())
        if not label or label == UNCERTAIN:
            return self._answer(f"{label!r} is no label", state=self.state())
        if positions and not base:
            return self._answer(f"{label!r}: a first load is whole, without positions", state=self.state())
        if positions and base != self.label:
            error = f"these are changes to {base!r}, but the engine serves {self.label!r}"
            return self._answer(error, state=self.state())
        with self._lock:
            self._generation += 1
            before = self._preparing[1] if self._preparing else None
            update, self.update, self._failure = self.update, None, None
            self.applied = self.proved = False
            arguments = (self._generation, before, update, label, base, checkpoint, positions)
            thread = threading.Thread(target=self._run, args=arguments, name="skerry-prepare", daemon=True)
            self._preparing = (label, thread)
        thread.start()
        return self._answer(state="preparing")

    def _run(self, generation: int, before, replaced: Update | None, label: str, *source: str) -> None:
        error, update = "", None
        try:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        except OSError:
            pass
        try:
            if before:
                before.join()
            if replaced:
                replaced.close()
            if generation == self._generation:
                update = self.make_update(label, *source)
                update.prepare()
        except BaseException as e:  # noqa: BLE001 - told to the caller
            error = f"preparing {label!r}: {type(e).__name__}: {e}"
        with self._lock:
            if generation != self._generation:
                return
            self._preparing = None
            if error:
                self._failure = (label, error)
            else:
                self.update = update

    # -- in the pause ---------------------------------------------------------------------------------------------

    def commit(self, label: str) -> dict:
        with self._lock:
            ready = self.state() == "prepared" and self.update.label == label
            if not ready and label == self.label != UNCERTAIN:
                return self._answer(label=label, seconds=0.0, scattered=0, reloaded=0)
            if not ready:
                return self._answer(f"{label!r} is not prepared (state {self.state()})", label=self.label)
            update = self.update
        if not update.whole and update.base != self.label:
            error = f"{label!r} is prepared from {update.base!r}, the engine serves {self.label!r}"
            return self._answer(error, label=self.label)
        started, was, self.label = time.monotonic(), self.label, UNCERTAIN
        try:
            update.apply()
        except BaseException as e:  # noqa: BLE001 - told to the caller
            self.update = None
            return self._answer(
                f"switching from {was!r} to {label!r}: {type(e).__name__}: {e}; "
                "the weights are uncertain until a whole load has succeeded",
                label=self.label,
            )
        self.label, self.applied = label, True
        seconds = time.monotonic() - started
        self.stats = {"seconds": dict(update.seconds), "commit": seconds, **update.facts()}
        retired, update.retired = update.retired, []
        threading.Thread(target=retired.clear, name="skerry-free", daemon=True).start()  # freeing takes a while
        facts = update.facts()
        return self._answer(label=label, seconds=seconds, scattered=facts["scattered"], reloaded=facts["reloaded"])

    def verify(self, label: str) -> dict:
        if label != self.label:
            return self._answer(f"the engine serves {self.label!r}, not {label!r}", label=self.label)
        if not self.update or self.update.label != label:
            return self._answer(f"what {label!r} changed is no longer known", label=self.label)
        started = time.monotonic()
        try:
            counts = self.update.verify()
        except BaseException as e:  # noqa: BLE001 - told to the caller
            self.label = UNCERTAIN
            return self._answer(f"verifying {label!r}: {type(e).__name__}: {e}", label=self.label)
        self.stats["verified"] = counts
        facts = self.update.facts()
        return self._answer(label=label, seconds=time.monotonic() - started, tensors=facts["tensors"], **counts)
