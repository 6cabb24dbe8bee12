"""Prompts of TRL's trainers as tokens, and which of them are alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skerry.errors import Unsupported


def token_ids(prompts: Sequence[Any], trainer: Any) -> list[list[int]]:
    """As the trainer would make them of texts or of conversations. Images are Unsupported."""
    tokenizer = trainer.processing_class
    if isinstance(prompts[0], str):
        return [list(ids) for ids in tokenizer(text=list(prompts))["input_ids"]]
    for message in (message for prompt in prompts for message in prompt):
        content = message.get("content")
        if isinstance(content, list) and any(part.get("type") != "text" for part in content):
            raise Unsupported("prompts with images or sound: rollout_func sends tokens of text alone")
    made = tokenizer.apply_chat_template(
        conversation=list(prompts),
        tools=getattr(trainer, "tools", None) or None,
        chat_template=getattr(trainer, "chat_template", None),
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        **getattr(trainer, "chat_template_kwargs", {}),
    )
    return [list(ids) for ids in made["input_ids"]]


def alike(prompts: Sequence[Sequence[int]]) -> list[list[int]]:
    """Indices of neighbours that are the same prompt: the trainer repeats each for all of its generations."""
    groups: list[list[int]] = []
    for index, prompt in enumerate(prompts):
        if groups and prompts[groups[-1][0]] == prompt:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def divided(groups: Sequence[Sequence[int]], most: int) -> list[list[int]]:
    """Groups of at most `most`, of about the same size where one is cut."""
    parts: list[list[int]] = []
    for group in groups:
        count = -(-len(group) // most)
        size, longer = divmod(len(group), count)
        begin = 0
        for part in range(count):
            end = begin + size + (part < longer)
            parts.append(list(group[begin:end]))
            begin = end
    return parts
