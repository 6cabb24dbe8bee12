"""A trainer's weights in a further view of a run: quantised one by one, and taken into that view's capture."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from skerry.errors import Invalid

if TYPE_CHECKING:
    import torch

    from skerry.views import View


def named_views(given: Iterable[Any]) -> dict[str, View]:
    """The views of a publisher by their names, sorted. `given`: names, or views."""
    if isinstance(given, str):
        raise Invalid(f"views: {given!r}, but a sequence of views is wanted")
    given = tuple(given)
    if not given:
        return {}
    from skerry.views import View

    views: dict[str, View] = {}
    for one in given:
        view = one if isinstance(one, View) else View(one)
        if view.name in views:
            raise Invalid(f"views: {view.name} is there twice")
        views[view.name] = view
    return dict(sorted(views.items()))


class ViewCapture:
    """One further view of the weights that are being captured."""

    def __init__(self, view: View, capture: Any, of_masters: bool) -> None:
        self.view, self.native, self.of_masters = view, capture, of_masters
        self._ordinals = {name: ordinal for ordinal, (name, _, _) in enumerate(capture.tensors)}
        self.blocks = self.rescaled = 0

    def take(self, name: str, tensor: torch.Tensor) -> None:
        """Takes what the view makes of a tensor of the run's own checkpoint. `tensor`: on the CPU; it may be overwritten
        when this returns.
        """
        tensor = tensor.detach().contiguous()
        if self.view.name == "fp8-block" and self.view.converts(name, tensor.shape):
            self._take_fused(name, tensor)
            return
        made = self.view.quantize(name, tensor, self._before)
        for of_view, values in made.tensors.items():
            self._take(of_view, values)
        self.blocks += made.blocks
        self.rescaled += made.rescaled

    def finish(self) -> None:
        """Raises Invalid, with their names, where tensors of the view were made of none of the weights."""
        left = [self.native.tensors[ordinal][0] for ordinal in self.native.untaken]
        if left:
            shown = ", ".join(left[:20]) + (f" and {len(left) - 20} more" if len(left) > 20 else "")
            raise Invalid(f"view {self.view.name}: the weights make nothing for {len(left)} of its tensors: {shown}")

    def _take_fused(self, name: str, weight: torch.Tensor) -> None:
        """Rounded, compared and kept in one pass, by the same rule as the view's own."""
        from skerry.torch import dtype_name

        codes, scales = self.view.layout([(name, dtype_name(weight), weight.shape)])[name]
        self.blocks += self._elements(scales)
        self.rescaled += self.native.take_fp8_block(
            self._ordinal(codes), self._ordinal(scales), weight, self.view.scales
        )

    def _take(self, name: str, values: torch.Tensor) -> None:
        from skerry.torch import dtype_name, host_array

        self.native.take(self._ordinal(name), host_array(values), dtype_name(values))

    def _before(self, name: str) -> torch.Tensor:
        import torch

        from skerry.views.form import torch_dtype

        ordinal = self._ordinal(name)
        _, dtype, shape = self.native.tensors[ordinal]
        bytes_before = torch.frombuffer(self.native.read(ordinal), dtype=torch.uint8)
        return bytes_before.view(torch_dtype(dtype)).reshape(shape)

    def _ordinal(self, name: str) -> int:
        if name not in self._ordinals:
            raise Invalid(f"view {self.view.name}: its checkpoint has no tensor {name}")
        return self._ordinals[name]

    def _elements(self, name: str) -> int:
        count = 1
        for size in self.native.tensors[self._ordinal(name)][2]:
            count *= size
        return count


def host_tensor(array: Any) -> torch.Tensor:
    """`array`, of torch or numpy, as a tensor on the CPU: the same memory where it is there already."""
    import torch

    from skerry.torch import settled

    if isinstance(array, torch.Tensor):
        return settled(array, "weights").cpu()
    return torch.from_numpy(array)


def as_served(tensor: torch.Tensor, dtype: str) -> torch.Tensor:
    """Masters of F32 as the run's own view has them, which is what its further views are made of."""
    from skerry.names import ROUNDED_FROM_F32
    from skerry.torch import dtype_name
    from skerry.views.form import torch_dtype

    rounded = dtype_name(tensor) == "F32" and dtype in ROUNDED_FROM_F32
    return tensor.to(torch_dtype(dtype)) if rounded else tensor

