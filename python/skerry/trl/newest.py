"""Which version a trainer has published last, on all of its processes."""

from __future__ import annotations

from typing import Any

from skerry.errors import Invalid
from skerry.hf import PublishCallback
from skerry.publisher import Publisher


def newest_version(trainer: Any, publisher: Publisher | None, *, wait: bool) -> int | None:
    """The head as the publishing process sees it; None where the trainer publishes nothing. `wait`: after the publish
    in flight. To be called by all processes at once: what the main one fails by is raised on all.
    """
    if trainer.accelerator.num_processes == 1:
        return _own(publisher or _callbacks_publisher(trainer), wait)
    from accelerate.utils import broadcast_object_list

    told: list[Any] = [None, None]
    error: BaseException | None = None
    if trainer.accelerator.is_main_process:
        try:
            told = [_own(publisher or _callbacks_publisher(trainer), wait), None]
        except Exception as raised:
            told, error = [None, f"{type(raised).__name__}: {raised}"], raised
    broadcast_object_list(told)
    if error is not None:
        raise error
    if told[1] is not None:
        raise RuntimeError(f"the publishing process failed: {told[1]}")
    return told[0]


def _own(publisher: Publisher | None, wait: bool) -> int | None:
    if publisher is None:
        return None
    return publisher.wait() if wait else publisher.version


def _callbacks_publisher(trainer: Any) -> Publisher | None:
    callbacks = [one for one in trainer.callback_handler.callbacks if isinstance(one, PublishCallback)]
    if len(callbacks) > 1:
        raise Invalid("publisher: the trainer has several PublishCallbacks; say which is meant")
    return callbacks[0].publisher if callbacks else None
