"""transformers' models in the form of their checkpoints.

Some models hold other tensors than their checkpoints have: all experts of a layer as one, say. transformers converts
when it loads, and back when it saves. Here it converts back a few tensors at a time, as they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from skerry.names import stripped_names
from skerry.weights import Given

StateDict = dict[str, torch.Tensor]
Convert = Callable[[StateDict], StateDict]


def in_checkpoint_form(module: torch.nn.Module, given: Iterable[Given]) -> Iterable[Given]:
    """`given` as it is, where the module holds no model of transformers, or one that needs no conversion."""
    convert = _converter(module)
    return given if convert is None else _converted(convert, list(given))


def _converter(module: torch.nn.Module) -> Convert | None:
    try:
        from transformers import PreTrainedModel
        from transformers.core_model_loading import revert_weight_conversion
    except ImportError:  # a transformers that converts nothing
        return None
    model = next((inner for inner in module.modules() if isinstance(inner, PreTrainedModel)), None)
    nothing: StateDict = {}
    if model is None or revert_weight_conversion(model, nothing) is nothing:
        return None
    return lambda tensors: revert_weight_conversion(model, tensors)


def _converted(convert: Convert, given: list[Given]) -> Iterator[Given]:
    form: list[StateDict] = []  # what each alone becomes; on the meta device there are no values to be moved
    makers: dict[str, set[int]] = {}
    for index, one in enumerate(given):
        form.append(convert({_name(one): torch.empty_like(one.array, device="meta")}))
        for target in form[-1]:
            makers.setdefault(target, set()).add(index)
    done: set[int] = set()
    for index, one in enumerate(given):
        if index in done:
            continue
        together = _together(index, form, makers)
        done |= together
        if len(together) == 1 and len(form[index]) == 1:
            [(target, made)] = form[index].items()
            if made.shape == one.array.shape:
                yield one if target == _name(one) else Given(target, one.array, one.values)
                continue
        group = _Group(convert, [given[index] for index in sorted(together)])
        yield from group.given()


def _together(index: int, form: list[StateDict], makers: dict[str, set[int]]) -> set[int]:
    """Those that must be converted at once with the one at `index`, as they have a tensor of the checkpoint in
    common.
    """
    found, left = {index}, [index]
    while left:
        for target in form[left.pop()]:
            new = makers[target] - found
            found |= new
            left.extend(new)
    return found


def _name(given: Given) -> str:
    return stripped_names(given.name)[-1]


class _Group:
    """Tensors that are converted at once. What they become is kept until all of it has been read."""

    def __init__(self, convert: Convert, members: list[Given]) -> None:
        self._convert, self._members = convert, members
        self._made: dict[str, Any] = {}

    def given(self) -> Iterator[Given]:
        form = self._convert({_name(one): torch.empty_like(one.array, device="meta") for one in self._members})
        for target, tensor in form.items():
            yield Given(target, tensor, lambda target=target: self._values(target))

    def _values(self, target: str) -> torch.Tensor:
        if target not in self._made:
            self._made = self._convert(
                {_name(one): (one.array if one.values is None else one.values()).detach() for one in self._members}
            )
        return self._made.pop(target)
