"""Which tensors of a checkpoint a view quantises: weights of linear layers, but for some modules."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence

from skerry.errors import Invalid

# Modules that stay as they are unless another list is given: the output layer, and the routers of experts, whose choice
# a rounding would flip. Published checkpoints leave these alone, too.
SKIP = ("lm_head", "gate", "router", "shared_expert_gate")

_WEIGHT = ".weight"
# The last part of the names of two-dimensional weights that are no linear layers: no engine looks for scales there.
_EMBEDDINGS = ("*embed*", "wte", "wpe")


def module_of(name: str) -> str:
    """The module whose weight this tensor is; empty for biases, scales and whatever else."""
    return name.removesuffix(_WEIGHT) if name.endswith(_WEIGHT) else ""


class Skips:
    """Modules that are left alone: patterns (fnmatch) of whole names, or of one or several parts of them between dots.
    So "lm_head" is also model.lm_head, and "vision_tower" all that is in it.
    """

    def __init__(self, patterns: str | Iterable[str]) -> None:
        self.patterns = (patterns,) if isinstance(patterns, str) else tuple(patterns)
        for pattern in self.patterns:
            if not isinstance(pattern, str) or not pattern:
                raise Invalid(f"skip: {pattern!r} is not a pattern of modules' names")

    def converts(self, name: str, shape: Sequence[int]) -> bool:
        """Told by its name and shape alone, as files don't know which module is a linear layer."""
        return _is_matrix(name, shape) and not self._leaves(module_of(name))

    def listed(self, tensors: Iterable[tuple[str, Sequence[int]]]) -> list[str]:
        """The modules that config.json has to name as not quantised: the output layer, too, where its weight is tied to
        the embedding's, and so in no file.
        """
        matrices = {module_of(name) for name, shape in tensors if _is_matrix(name, shape)}
        found = {module for module in matrices if self._leaves(module)}
        if not any(module.split(".")[-1] == "lm_head" for module in matrices):
            found.add("lm_head")
        return sorted(found)

    def _skips(self, module: str) -> bool:
        return any(fnmatch.fnmatchcase(f".{module}.", f"*.{pattern}.*") for pattern in self.patterns)

    def _leaves(self, module: str) -> bool:
        last = module.split(".")[-1]
        return any(fnmatch.fnmatchcase(last, pattern) for pattern in _EMBEDDINGS) or self._skips(module)


def _is_matrix(name: str, shape: Sequence[int]) -> bool:
    return bool(module_of(name)) and len(shape) == 2 and 0 not in shape
