"""Publishing from transformers' Trainer, and from all that is made of it (TRL). Needs transformers.

trainer = Trainer(…, callbacks=[PublishCallback("s3://bucket/policy", run="grpo-1")])
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from skerry.board import Board
from skerry.errors import Invalid, Unavailable
from skerry.publisher import Publisher
from skerry.receipt import Handle, Receipt

_log = logging.getLogger("skerry")


class PublishCallback(TrainerCallback):
    """Publishes the model after every `every`-th optimizer step, with the trainer's `global_step` as the version's
    step.

    - `publisher`: a Publisher, which the caller closes; or a board, to which a publisher of `run` is opened when
      training begins and closed when it ends. `options` are the Publisher's then; without `base` the checkpoint is
      taken that the model was loaded from.
    - `wait`: each step waits until its version is on the board. Otherwise it waits only until the weights have been
      read, and the rest is done beside the next step.
    - `patience`: so many publishes in a row may fail because the board can't be reached. Training goes on; the next
      publish has it all. Every other failure, and one more, ends training by its exception.
    - `on_publish`: called with each receipt, in the thread that has published.

    When training begins names, shapes and dtypes are checked and weights that differ from the head are published. When
    it ends the last weights are on the board. Of several processes only the main one publishes, unless `group` is
    given, for sharded models. The trainer's log has `skerry/version`, `/density`, `/patch_bytes`, `/seconds`
    (of the whole publish) and `/capture_seconds` (that the step waited).
    """

    def __init__(
        self,
        publisher: Publisher | str | os.PathLike[str],
        run: str | None = None,
        *,
        every: int = 1,
        wait: bool = False,
        patience: int = 3,
        on_publish: Callable[[Receipt], Any] | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(every, int) or every < 1:
            raise Invalid(f"every: {every!r} is not a number of steps")
        if not isinstance(patience, int) or patience < 0:
            raise Invalid(f"patience: {patience!r} is not a number of publishes")
        self._every, self._wait, self._patience, self._on_publish = every, wait, patience, on_publish
        self._owned = not isinstance(publisher, Publisher)
        self._publisher = None if self._owned else publisher
        self._options = options
        if self._owned:
            if not isinstance(publisher, (str, os.PathLike)) or not os.fspath(publisher):
                raise Invalid(f"publisher: {publisher!r} is neither a Publisher nor a board")
            if not run:
                raise Invalid(f"run: {run!r} is no run of {os.fspath(publisher)}")
            inspect.signature(Publisher).bind(publisher, run, **options)  # TypeError for what it has not
            keys = {name: options[name] for name in ("sign_key", "trust_keys") if name in options}
            Board(publisher, **keys)  # Invalid for what can be no board; no server is asked
            self._board, self._run = publisher, run
        elif run is not None or options:
            raise Invalid(f"{'run' if run is not None else min(options)}: is the Publisher's own")
        self._failures = 0
        self._published_step: int | None = None
        self.receipts: list[Receipt] = []
        """All of this training, the oldest first."""

    @property
    def publisher(self) -> Publisher | None:
        """None before training has begun, and on processes that do not publish. Closed after training, where it was
        opened here.
        """
        return self._publisher

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **_: Any
    ) -> None:
        if not self._publishes_here(state):
            return
        if self._publisher is None or (self._owned and self._publisher.closed):
            self._publisher = Publisher(self._board, self._run, **{"base": loaded_from(model), **self._options})
        self._note(self._publisher.publish(model, step=state.global_step))
        self._published_step = state.global_step

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **_: Any
    ) -> None:
        if self._publishes_here(state) and state.global_step % self._every == 0:
            self._publish(model, state.global_step)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **_: Any
    ) -> None:
        if self._publisher is None or not self._publishes_here(state):
            return
        if self._published_step != state.global_step:
            self._publish(model, state.global_step)
        try:
            self._publisher.wait()
        except Unavailable:
            # The last chance; what it fails by is the end's own.
            self._note(self._publisher.publish(model, step=state.global_step))
        if self._owned:
            self._publisher.close()

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        if not self.receipts or logs is None:
            return
        last = self.receipts[-1]
        figures = {
            "skerry/version": last.version,
            "skerry/density": last.density,
            "skerry/patch_bytes": last.patch_bytes,
            "skerry/seconds": round(last.seconds.get("total", 0.0), 4),
            "skerry/capture_seconds": round(last.seconds.get("capture", 0.0), 4),
        }
        logs.update(figures)
        if state.log_history:
            state.log_history[-1].update(figures)

    def _publishes_here(self, state: TrainerState) -> bool:
        group = self._options.get("group") if self._publisher is None else self._publisher.group
        return group is not None or state.is_world_process_zero

    def _publish(self, model: Any, step: int) -> None:
        assert self._publisher is not None
        self._published_step = step
        if self._wait:
            with self._patience_with(step):
                self._note(self._publisher.publish(model, step=step))
            return
        with self._patience_with(step):
            self._publisher.wait()  # what the one before failed by
        with self._patience_with(step):
            self._publisher.publish_async(model, step=step).add_done_callback(self._ended)

    @contextlib.contextmanager
    def _patience_with(self, step: int) -> Iterator[None]:
        try:
            yield
        except Unavailable as error:
            self._failures += 1
            if self._failures > self._patience:
                raise
            _log.warning("at step %d the board can't be reached, which the next publish makes up for: %s", step, error)

    def _ended(self, handle: Handle) -> None:
        if not handle.failed:
            self._note(handle.result())

    def _note(self, receipt: Receipt) -> None:
        self._failures = 0
        self.receipts.append(receipt)
        if self._on_publish is not None:
            self._on_publish(receipt)


def loaded_from(model: Any) -> str | None:
    """The checkpoint directory that `from_pretrained` read: a directory, or a model in the local cache of the hub."""
    for name in _names_or_paths(model):
        if os.path.isdir(name):
            return name
        try:
            from huggingface_hub import snapshot_download

            return snapshot_download(name, local_files_only=True)
        except Exception as error:  # no such name, or nothing of it here
            _log.debug("no local checkpoint of %s: %s", name, error)
    return None


def _names_or_paths(model: Any) -> list[str]:
    found = []
    for module in model.modules() if hasattr(model, "modules") else [model]:
        name = getattr(module, "name_or_path", None)
        if isinstance(name, str) and name:
            found.append(name)
    return list(dict.fromkeys(found))
