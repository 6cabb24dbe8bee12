"""What each way of storing quantised weights has to know; one file for each library that does the quantising."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from skerry.errors import Unsupported
from skerry.views.form import Form

if TYPE_CHECKING:
    import torch

# Weights are quantised in bands of about so many elements, which bounds what is copied of a tensor at a time.
_BAND_ELEMENTS = 1 << 20


class Format(ABC):
    """One view's way to store the weight of a module. `module` is the tensor's name without ".weight".

    Weights come as contiguous two-dimensional F32 tensors of the CPU whose values are finite, and of a shape that
    `unfit` has nothing against.
    """

    @abstractmethod
    def unfit(self, shape: tuple[int, ...]) -> str:
        """What is wanted of a shape that can't be stored; empty for one that can."""

    @abstractmethod
    def forms(self, module: str, shape: tuple[int, ...]) -> dict[str, Form]:
        """The tensors that a weight becomes, by their names, codes before scales."""

    @abstractmethod
    def scales(self, module: str) -> tuple[str, ...]:
        """Names of the tensors of scales. The first has an element for each block."""

    def kept(self, module: str) -> tuple[str, ...]:
        """Names of the tensors of the version before that a frozen view looks at."""
        return self.scales(module)

    @abstractmethod
    def quantize(
        self, module: str, weight: torch.Tensor, policy: str, before: Mapping[str, torch.Tensor] | None
    ) -> dict[str, torch.Tensor]:
        """`before`: tensors of the version before, all that `kept` names where the policy is frozen."""

    @abstractmethod
    def config(self, left_alone: list[str]) -> dict[str, Any]:
        """quantization_config of config.json. `left_alone`: modules that are not quantised."""


def imported(module: str, package: str, *names: str) -> Any:
    """A module of a library that only some views need. Unsupported, saying what to install, where it is missing or has
    not those names.
    """
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise Unsupported(f"this view needs {package} (pip install 'skerry[views]'): {error}") from error
    for name in names:
        if not hasattr(found, name):
            raise Unsupported(f"{module} has no {name}: this view needs another {package}, as 'skerry[views]' installs")
    return found


def bands(rows: int, columns: int, multiple: int = 1) -> Iterator[slice]:
    """Slices of rows, each of a multiple of so many; the last has what is left."""
    step = max(1, _BAND_ELEMENTS // max(1, columns * multiple)) * multiple
    for first in range(0, rows, step):
        yield slice(first, min(rows, first + step))
