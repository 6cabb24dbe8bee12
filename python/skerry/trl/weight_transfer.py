"""TRL's `AsyncGRPOTrainer` publishes its weights instead of sending them to one server."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any

from skerry.client import Client
from skerry.client.errors import SkerryError
from skerry.errors import Invalid
from skerry.publisher import Publisher

_log = logging.getLogger("skerry")

_LOOK_EVERY = 0.2  # seconds


class WeightTransfer:
    """For `AsyncGRPOTrainer(weight_transfer=WeightTransfer(publisher), …)`, with an agent as its
    `vllm_server_base_url`.

    - `publisher`: the caller closes it. The trainer gives the parameters that it trains: name the others in the
      Publisher's `frozen`.
    - `agents`, `wait`: URLs of agents of which one must serve the new version before the trainer goes on, for `wait`
      seconds at most. The trainer counts what is sampled from then on as made by the new weights. Without agents it
      goes on at once.

    Nothing is paused here: each island's agent does that for itself.
    """

    def __init__(self, publisher: Publisher, *, agents: str | Iterable[str] = (), wait: float = 60.0) -> None:
        if not isinstance(publisher, Publisher):
            raise Invalid(f"publisher: {publisher!r} is no Publisher")
        self._publisher = publisher
        self._agents = [agents] if isinstance(agents, str) else list(agents)
        self._wait = wait
        self._clients: list[Client] = []

    def init_weight_transfer(self) -> None:
        """Opens the connections."""
        self._clients = [Client(url) for url in self._agents]

    def pause(self) -> None:
        """The weights are about to be read. Raises what the last publish failed by."""
        self._publisher.wait()

    def send_weights(self, iterator: Iterable[tuple[str, Any]]) -> None:
        """Publishes; returns when all has been read.

        Goes on to the iterator's end also when it fails, as other processes take part in making what it gives.
        """
        pairs = iter(iterator)
        try:
            self._publisher.publish_async(pairs)
        finally:
            for _ in pairs:
                pass

    def resume(self) -> None:
        """Waits for an island that serves the new version, where agents were given."""
        if not self._clients:
            return
        version = self._publisher.wait()
        deadline = time.monotonic() + self._wait
        while True:
            told = []
            for client, url in zip(self._clients, self._agents, strict=True):
                try:
                    served = client.version()
                except SkerryError as error:
                    told.append(f"{url}: {error}")
                    continue
                if served is not None and served >= version:
                    return
                told.append(f"{url}: serves {'no one version' if served is None else f'version {served}'}")
            if time.monotonic() >= deadline:
                _log.warning("no island serves version %d after %g s: %s", version, self._wait, "; ".join(told))
                return
            time.sleep(_LOOK_EVERY)

    def destroy(self) -> None:
        """Waits for what is still to be published, and closes the connections."""
        for client in self._clients:
            client.close()
        self._clients = []
        self._publisher.wait()
