"""TRL's `rollout_func`: completions for a batch of prompts, from islands that serve versions of the run."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from skerry.client import Client
from skerry.client.errors import ProtocolError
from skerry.errors import Invalid
from skerry.publisher import Publisher
from skerry.trl.fleet import Agents, Fleet, Sent
from skerry.trl.newest import newest_version
from skerry.trl.prompts import alike, divided, token_ids

_MOST_RECORDS = 100_000


@dataclass(frozen=True)
class Rollout:
    """One request and the versions that answered it."""

    agent: str
    step: int
    """The trainer's global_step at that time."""
    rows: tuple[int, ...]
    """Which completions of the batch these are."""
    head: int | None
    """The newest version that this trainer had published, where it publishes."""
    min_version: int | None
    """What was asked for."""
    version_start: int | None
    version_end: int | None
    """Equal: that version made all of it. None: not known."""
    tokens: int
    """Of all completions together."""
    seconds: float
    attempts: int
    """Islands that were asked."""
    time: float
    """When the answer had come, in seconds since 1970."""

    @property
    def completions(self) -> int:
        return len(self.rows)

    @property
    def behind(self) -> int | None:
        """Versions between the head and the oldest token."""
        return None if self.head is None or self.version_start is None else max(0, self.head - self.version_start)


def rollout_func(
    agents: Agents,
    *,
    publisher: Publisher | None = None,
    staleness: int | None = 1,
    timeout: float = 600.0,
    hold: float = 2.0,
    concurrency: int = 16,
    model: str | None = None,
    sampling: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    on_answer: Callable[[Rollout], Any] | None = None,
) -> RolloutFunc:
    """For `GRPOTrainer(rollout_func=…)`: samples through agents, by weight version.

    - `agents`: URLs of islands' agents, or a function that gives those of the moment, for islands that come and go. A
      batch is divided over them; what one cannot answer (it is gone, has no engine, or is behind) another does.
    - `publisher`: default: that of the trainer's PublishCallback. `staleness`: how many versions behind the newest
      published one completions may begin; 0 waits for the publish in flight; None: any.
    - `timeout`: seconds after which a batch that no island answers raises NoIsland. `hold`: seconds that an agent
      may hold a request for its version once every island has refused it.
    - `concurrency`: requests at once for each island. `model`: its served name; default: what the engine lists first.
    - `sampling`: members of the requests besides, or in the place of, the trainer's temperature, top_p, top_k, min_p,
      repetition_penalty, max_completion_length and generation_kwargs. `headers`: sent along.
    - `on_answer`: called with each Rollout, in the thread that got it.

    The engines must answer /v1/completions with token ids (vLLM: `return_token_ids`). The logprobs are the engine's:
    vLLM gives those before temperature and top_p unless it is started with `--logprobs-mode processed_logprobs`.
    """
    return RolloutFunc(
        Fleet(agents, hold=hold, timeout=timeout, headers=headers),
        publisher=publisher,
        staleness=_whole("staleness", staleness, 0) if staleness is not None else None,
        timeout=timeout,
        concurrency=_whole("concurrency", concurrency, 1),
        model=model,
        sampling=sampling,
        on_answer=on_answer,
    )


class RolloutFunc:
    """Called by the trainer as f(prompts, trainer); for one thread at a time. `records`: the newest Rollouts."""

    def __init__(
        self,
        fleet: Fleet,
        *,
        publisher: Publisher | None,
        staleness: int | None,
        timeout: float,
        concurrency: int,
        model: str | None,
        sampling: Mapping[str, Any] | None,
        on_answer: Callable[[Rollout], Any] | None,
    ) -> None:
        self._fleet, self._publisher, self._staleness = fleet, publisher, staleness
        self._timeout, self._concurrency = timeout, concurrency
        self._model, self._sampling, self._on_answer = model, dict(sampling or {}), on_answer
        self._models: dict[str, str] = {}  # what each agent's engine calls its model
        self.records: deque[Rollout] = deque(maxlen=_MOST_RECORDS)

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, list[Any]]:
        """`prompt_ids`, `completion_ids` and `logprobs`, one of each for each prompt: the trainer has repeated them."""
        deadline = time.monotonic() + self._timeout
        prompt_ids = token_ids(prompts, trainer)
        head = newest_version(trainer, self._publisher, wait=self._staleness == 0)
        least = None if head is None or self._staleness is None else max(0, head - self._staleness)
        step = trainer.state.global_step
        completions: list[Any] = [None] * len(prompts)
        logprobs: list[Any] = [None] * len(prompts)

        def ask(rows: list[int]) -> None:
            members = {**self._members(trainer.args), "prompt": prompt_ids[rows[0]], "n": len(rows)}
            sent = self._fleet.post(
                "/v1/completions",
                lambda client, url: {"model": self._served_name(client, url), **members},
                min_version=least,
                deadline=deadline,
                stop=stop,
            )
            tokens = 0
            for row, (ids, values) in zip(rows, _choices(sent, len(rows)), strict=True):
                completions[row], logprobs[row] = ids, values
                tokens += len(ids)
            self._record(sent, step, rows, head, least, tokens)

        stop = threading.Event()
        self._run([lambda rows=rows: ask(rows) for rows in self._requests(prompt_ids)], stop)
        return {"prompt_ids": prompt_ids, "completion_ids": completions, "logprobs": logprobs}

    def close(self) -> None:
        """Closes the connections."""
        self._fleet.close()

    def _requests(self, prompt_ids: list[list[int]]) -> list[list[int]]:
        """Rows of each request: of one prompt, and so many that every island gets some."""
        islands = max(1, len(self._fleet.agents()))
        return divided(alike(prompt_ids), max(1, -(-len(prompt_ids) // islands)))

    def _run(self, work: list[Callable[[], None]], stop: threading.Event) -> None:
        workers = min(len(work), self._concurrency * max(1, len(self._fleet.agents())))
        pool = ThreadPoolExecutor(workers, thread_name_prefix="skerry-rollout")
        try:
            done, _ = wait([pool.submit(one) for one in work], return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        finally:
            # After an error nobody waits for the other requests: their threads end with the answers.
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)

    def _members(self, args: Any) -> dict[str, Any]:
        members: dict[str, Any] = {
            "max_tokens": args.max_completion_length,
            "temperature": args.temperature,
            "top_p": args.top_p,
            "repetition_penalty": args.repetition_penalty,
            "logprobs": 0,
            "return_token_ids": True,
        }
        if args.top_k:
            members["top_k"] = args.top_k
        if args.min_p is not None:
            members["min_p"] = args.min_p
        return {**members, **(args.generation_kwargs or {}), **self._sampling}

    def _served_name(self, client: Client, url: str) -> str:
        if self._model is not None:
            return self._model
        if url not in self._models:
            listed = client.get("/v1/models", min_version=None).json
            try:
                self._models[url] = listed["data"][0]["id"]
            except (KeyError, IndexError, TypeError):
                raise ProtocolError(f"{url}/v1/models lists no model: give model=") from None
        return self._models[url]

    def _record(self, sent: Sent, step: int, rows: list[int], head: int | None, least: int | None, tokens: int) -> None:
        stamps = sent.answer.stamps
        record = Rollout(
            sent.agent, step, tuple(rows), head, least, stamps.version_start, stamps.version_end,
            tokens, sent.seconds, sent.attempts, time.time(),
        )  # fmt: skip
        self.records.append(record)
        if self._on_answer is not None:
            self._on_answer(record)


def _choices(sent: Sent, wanted: int) -> list[tuple[list[int], list[float | None]]]:
    """Token ids and logprobs of each completion."""
    choices = sorted(sent.answer.json.get("choices", []), key=lambda choice: choice.get("index", 0))
    if len(choices) != wanted:
        raise ProtocolError(f"{sent.agent}: {len(choices)} completions came where {wanted} were asked for")
    made = []
    for choice in choices:
        ids = choice.get("token_ids")
        values = (choice.get("logprobs") or {}).get("token_logprobs")
        if not isinstance(ids, list) or not isinstance(values, list):
            raise ProtocolError(
                f"{sent.agent}: a completion came without token ids or logprobs, which its engine can't give"
            )
        if len(ids) != len(values):
            raise ProtocolError(f"{sent.agent}: {len(ids)} tokens came with {len(values)} logprobs")
        made.append((ids, values))
    return made


def _whole(field: str, value: Any, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise Invalid(f"{field}: {value!r} is not a whole number of {least} or more")
    return value
