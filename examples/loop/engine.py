"""vLLM servers of the demo: how they are started and asked."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .island_record import ANSWERS

MODEL = "policy"  # what the engines call it
LONGEST = 512  # tokens of a prompt and its answer
MOST_AT_ONCE = 32  # requests
CACHE_BYTES = 128 << 20

ENVIRONMENT = {
    "VLLM_SERVER_DEV_MODE": "1",  # its control routes, which listen on loopback
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "VLLM_HOST_IP": "127.0.0.1",
    "PYTHONPATH": "",  # the demo's own modules are none of its business
}

QUESTIONS = ("What is 7 + 8? Reply with only the number.", "17 + 25 =", "The sea", "A sparse patch carries")
QUESTION_TOKENS = 16


@dataclass(frozen=True)
class Answer:
    """To a question at temperature 0."""

    tokens: list[int]
    log_probabilities: list[float]


def engine_command(python: Path, model: Path, port: int, *, dummy: bool) -> list[str | Path]:
    """vLLM with Skerry's plugin. `dummy`: the model's folder has no weights, the agent will bring them."""
    command: list[str | Path] = [
        python, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--served-model-name", MODEL,
        "--host", "127.0.0.1", "--port", str(port), "--dtype", "bfloat16", "--seed", "0", "--enforce-eager",
        "--max-model-len", str(LONGEST), "--max-num-seqs", str(MOST_AT_ONCE),
        "--kv-cache-memory-bytes", str(CACHE_BYTES),
        "--weight-transfer-config", '{"backend":"skerry"}', "--worker-extension-cls", "skerry.vllm.WorkerExtension",
    ]  # fmt: skip
    return [*command, "--load-format", "dummy"] if dummy else command


def engine_environment(cores: Sequence[int]) -> dict[str, str]:
    """Threads on the given cores, so that engines which work at the same time do not stand in each other's way."""
    return ENVIRONMENT | {"VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cores))}


def ask_questions(url: str, headers: dict[str, str] | None = None) -> list[Answer]:
    """The answers to QUESTIONS, one after the other. Raises OSError."""
    answers = []
    for question in QUESTIONS:
        body = {
            "model": MODEL, "prompt": question, "max_tokens": QUESTION_TOKENS, "temperature": 0, "logprobs": 1,
            "return_token_ids": True, "ignore_eos": True,
        }  # fmt: skip
        choice = post(url + ANSWERS, body, headers)["choices"][0]
        answers.append(Answer(choice["token_ids"], choice["logprobs"]["token_logprobs"]))
    return answers


def post(url: str, body: dict[str, Any], headers: dict[str, str] | None = None, timeout: float = 60) -> Any:
    """POST JSON, and the parsed answer. Raises OSError, also for a status other than 2xx."""
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})}
    )
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def answers_there(url: str) -> bool:
    """Whether a GET is answered with 200. Raises OSError."""
    with urllib.request.urlopen(url, timeout=2) as answer:
        return answer.status == 200


def free_port() -> int:
    """A port of loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
