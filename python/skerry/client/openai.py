"""The stock `openai` package with a version constraint on every request. Needs openai: `pip install openai`.

Completions have `model_extra["weight_version_start"]` and `["weight_version_end"]`, chunks of a stream
`model_extra["weight_version"]`: `skerry.client.stamps` reads both. A 409 is an `openai.ConflictError`, whose `body` has
`applied`, `wanted` and so on; the package tries 409 and 503 again by itself (`max_retries`, 2 where not given).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skerry.client.constraint import constraint_headers

if TYPE_CHECKING:
    import openai


def openai_client(
    base_url: str,
    *,
    min_version: int | None = None,
    exact_version: int | None = None,
    wait: float | None = None,
    **arguments: Any,
) -> openai.OpenAI:
    """An `openai.OpenAI` for an agent's `base_url`; `wait` in seconds. `arguments` go to OpenAI.

    Another version for one call: `create(…, extra_headers=constraint_headers(min_version=8))`. Without `api_key` no
    key of the environment is sent.
    """
    import openai

    return openai.OpenAI(
        **_arguments(
            base_url, constraint_headers(min_version=min_version, exact_version=exact_version, wait=wait), arguments
        )
    )


def async_openai_client(
    base_url: str,
    *,
    min_version: int | None = None,
    exact_version: int | None = None,
    wait: float | None = None,
    **arguments: Any,
) -> openai.AsyncOpenAI:
    """`openai_client` for asyncio."""
    import openai

    return openai.AsyncOpenAI(
        **_arguments(
            base_url, constraint_headers(min_version=min_version, exact_version=exact_version, wait=wait), arguments
        )
    )


def _arguments(base_url: str, constraint: dict[str, str], given: dict[str, Any]) -> dict[str, Any]:
    headers = {"Accept-Encoding": "identity", **constraint, **(given.pop("default_headers", None) or {})}
    url = base_url.rstrip("/")
    url = url if url.endswith("/v1") else f"{url}/v1"
    return {"api_key": "none", **given, "base_url": url, "default_headers": headers}
