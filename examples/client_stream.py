"""Streams a completion through an agent and shows which weights made which part of it.

A `[8]` in the text is the place where version 8 took over. Press Ctrl-C to leave: the engine stops working on it.
"""

from __future__ import annotations

import argparse
import sys

from skerry.client import Client, SkerryError


def show(client: Client, model: str, prompt: str, tokens: int) -> None:
    body = {"model": model, "prompt": prompt, "max_tokens": tokens}
    with client.stream("/v1/completions", body) as events:
        live = events.version_start
        print(f"admitted by {events.run}@{live}\n{prompt}", end="")
        for event in events:
            if event.version not in (live, None):
                live = event.version
                print(f"[{live}]", end="")
            print(event.text, end="", flush=True)
    end = events.summary
    if end is None:
        print("\nno summary: this stream did not come through an agent")
    else:
        print(f"\nversions {end.version_start} to {end.version_end}, events of each: {dict(end.events)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="the agent's, such as http://127.0.0.1:8089")
    parser.add_argument("--model", help="default: the first that the engine names")
    parser.add_argument("--prompt", default="The sea")
    parser.add_argument("--tokens", type=int, default=64)
    version = parser.add_mutually_exclusive_group()
    version.add_argument("--min-version", type=int, help="begin on this version or a newer one")
    version.add_argument("--exact-version", type=int, help="all of it by this version")
    parser.add_argument(
        "--wait", type=float, default=30.0, help="seconds to wait for the version and the engine (default 30)"
    )
    args = parser.parse_args()

    with Client(args.url, min_version=args.min_version, exact_version=args.exact_version, wait=args.wait) as client:
        try:
            model = args.model or client.get("/v1/models", min_version=None).json["data"][0]["id"]
            show(client, model, args.prompt, args.tokens)
        except SkerryError as error:
            sys.exit(f"\n{type(error).__name__}: {error}")
        except KeyboardInterrupt:
            print("\nleft")


if __name__ == "__main__":
    main()
