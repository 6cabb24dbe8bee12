"""Asks for weight versions with the stock `openai` package, and prints which version made each answer."""

from __future__ import annotations

import argparse
import sys

import openai

from skerry.client import constraint_headers, stamps
from skerry.client.openai import openai_client


def one_answer(client: openai.OpenAI, model: str, prompt: str) -> int | None:
    """Prints a completion; returns the version that was live at its end."""
    answer = client.completions.create(model=model, prompt=prompt, max_tokens=16)
    made_by = stamps(answer)
    print(f"completion: {answer.choices[0].text!r}, versions {made_by.version_start} to {made_by.version_end}")
    return made_by.version_end


def one_stream(client: openai.OpenAI, model: str, prompt: str) -> None:
    versions = []
    for chunk in client.completions.create(model=model, prompt=prompt, max_tokens=16, stream=True):
        versions.append(stamps(chunk).event_version)
    print(f"stream: {len(versions)} chunks by versions {sorted({v for v in versions if v is not None})}")


def one_chat(client: openai.OpenAI, model: str, prompt: str) -> None:
    answer = client.chat.completions.create(model=model, messages=[{"role": "user", "content": prompt}], max_tokens=16)
    made_by = stamps(answer)
    print(f"chat: {answer.choices[0].message.content!r}, versions {made_by.version_start} to {made_by.version_end}")


def one_refusal(client: openai.OpenAI, model: str, prompt: str, version: int) -> None:
    """A version that is still to come, without waiting for it."""
    headers = constraint_headers(min_version=version, wait=0)
    try:
        client.with_options(max_retries=0).completions.create(model=model, prompt=prompt, extra_headers=headers)
        print(f"version {version} is there already")
    except openai.ConflictError as error:
        refusal = error.body
        print(f"refused: {refusal['type']}, applied {refusal['applied']}, wanted {refusal['wanted']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="the agent's, such as http://127.0.0.1:8089")
    parser.add_argument("--model", help="default: the first that the engine names")
    parser.add_argument("--prompt", default="The sea")
    parser.add_argument("--min-version", type=int, default=0, help="begin on this version or a newer one (default 0)")
    parser.add_argument(
        "--wait", type=float, default=30.0, help="seconds that the agent may hold a request (default 30)"
    )
    parser.add_argument("--chat", action="store_true", help="also a chat; the model needs a chat template")
    args = parser.parse_args()

    with openai_client(args.url, min_version=args.min_version, wait=args.wait) as client:
        try:
            model = args.model or client.models.list().data[0].id
            newest = one_answer(client, model, args.prompt)
            one_stream(client, model, args.prompt)
            if args.chat:
                one_chat(client, model, args.prompt)
            one_refusal(client, model, args.prompt, (newest or 0) + 1000)
        except openai.OpenAIError as error:
            sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
