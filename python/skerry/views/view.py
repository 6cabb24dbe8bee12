"""A view: how the weights of a run are stored for the engines that load them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skerry.errors import Invalid, Mismatch, Unsupported
from skerry.views.form import WEIGHTS, Form, form_of, shape_of, torch_dtype
from skerry.views.formats import Format, imported
from skerry.views.names import SKIP, Skips, module_of

if TYPE_CHECKING:
    import torch

    from skerry.checkpoint import Report
    from skerry.views.writer import Written

NAMES = ("bf16", "fp16", "fp8-tensor", "fp8-channel", "fp8-block", "mxfp8", "mxfp4", "nvfp4", "nf4")
SCALES = ("frozen", "recompute", "power-of-two")

_DTYPES = {"bf16": "BF16", "fp16": "F16", "fp32": "F32"}


@dataclass(frozen=True)
class Quantized:
    """`tensors`: contiguous tensors of the CPU by their names in the served checkpoint. `blocks`: scales of this
    weight; `rescaled`: how many of them differ from the version before.
    """

    tensors: dict[str, torch.Tensor]
    blocks: int
    rescaled: int


class View:
    """What is served of a run's weights. Immutable; may be used from several threads.

    - `name`: one of NAMES. bf16 and fp16 round every weight; the others quantise the weights of linear layers.
    - `scales`: "frozen": a block keeps the scale of the version before as long as no weight clips; "recompute": from
      the weights of each version, byte for byte as the library of the view does it; "power-of-two": likewise, but each
      scale a power of two (which those of mxfp8 and mxfp4 always are). Without a version before frozen is recompute.
    - `skip`: patterns of modules that stay as they are (names.py), instead of SKIP.
    - `dtype`: "bf16", "fp16" or "fp32", of weights that are not quantised; None: as they are given. It is also what nf4
      weights are unpacked to, bf16 where it is None.

    Equal weights give equal bytes, whatever dtype they come in, on any number of threads.
    """

    def __init__(
        self, name: str, *, scales: str = "frozen", skip: str | Iterable[str] = SKIP, dtype: str | None = None
    ) -> None:
        if name not in NAMES:
            raise Invalid(f"view: {name!r} is none of {', '.join(NAMES)}")
        if scales not in SCALES:
            raise Invalid(f"scales: {scales!r} is none of {', '.join(SCALES)}")
        if dtype is not None and dtype not in _DTYPES:
            raise Invalid(f"dtype: {dtype!r} is none of {', '.join(_DTYPES)}")
        if name in _DTYPES and dtype not in (None, name):
            raise Invalid(f"dtype: {dtype} for the view {name}, whose weights are all {name}")
        self._name, self._scales, self._skips = name, scales, Skips(skip)
        self._dtype = name if name in _DTYPES else dtype
        self._made: Format | None = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def scales(self) -> str:
        return self._scales

    @property
    def dtype(self) -> str | None:
        """Of weights that are not quantised; None: as they are given."""
        return self._dtype

    def __repr__(self) -> str:
        return f"View({self._name!r}, scales={self._scales!r}, skip={self._skips.patterns!r}, dtype={self._dtype!r})"

    def converts(self, name: str, shape: Sequence[int]) -> bool:
        """Whether the tensor is quantised: two-dimensional, named `….weight`, no embedding, and not of a skipped
        module. All else keeps its name, and has `dtype` if it is of a dtype of weights (F32, BF16, F16).
        """
        return self._name not in _DTYPES and self._skips.converts(name, shape)

    def layout(self, tensors: Iterable[tuple[str, str, Sequence[int]]]) -> dict[str, dict[str, Form]]:
        """What each tensor, given as (name, dtype, shape), becomes: the served tensors by name, as `quantize` makes
        them.

        Raises Unsupported for a tensor that this view can't store (a row that is no multiple of a group, a dtype that
        is quantised already), Invalid where two tensors would have one name.
        """
        made: dict[str, dict[str, Form]] = {}
        names: dict[str, str] = {}
        for name, dtype, shape in tensors:
            made[name] = self._forms(name, dtype, shape_of(shape))
            for served in made[name]:
                if served in names:
                    raise Invalid(f"{served}: would be made of both {names[served]} and {name}")
                names[served] = name
        return made

    def quantize(
        self, name: str, weight: torch.Tensor, previous: Callable[[str], torch.Tensor] | None = None
    ) -> Quantized:
        """The served tensors of one weight: a tensor of the CPU, F32, BF16 or F16, of any strides, which is only read.

        `previous`: gives a tensor of the version before by its served name. It is asked for scales, and for codes where
        these matter (fp8-block).

        Raises Unsupported as `layout` does; Invalid for weights that are infinite or no numbers, or too large for the
        view; Mismatch where the version before has not the scales of this view.
        """
        shape = tuple(weight.shape)
        if weight.device.type != "cpu":
            raise Invalid(f"{name}: a tensor of {weight.device}, but one of the CPU is wanted")
        forms = self._forms(name, form_of(weight).dtype, shape)
        if not self.converts(name, shape):
            return Quantized({name: _rounded(name, weight.detach(), forms[name])}, 0, 0)
        module, format_ = module_of(name), self._format()
        import torch

        with torch.no_grad():
            exact = weight.detach().to(torch.float32).contiguous()
            _check_finite(name, exact)
            before = None
            if previous is not None:
                wanted = format_.kept(module) if self._scales == "frozen" else format_.scales(module)
                before = {served: _expected(served, previous(served), forms[served]) for served in wanted}
            made = format_.quantize(module, exact, self._scales, before)
            tensors = {served: made[served].contiguous() for served in forms}
        for served, tensor in tensors.items():
            if form_of(tensor) != forms[served]:
                raise Unsupported(f"{served}: the library made {form_of(tensor)}, this view has {forms[served]}")
        grid = tensors[format_.scales(module)[0]]
        return Quantized(tensors, grid.numel(), _differing(format_.scales(module), tensors, before))

    def config(self, config: Mapping[str, Any], tensors: Iterable[tuple[str, Sequence[int]]]) -> dict[str, Any]:
        """config.json of the served checkpoint, made of that of the weights. `tensors`: their names and shapes.

        Raises Unsupported for weights that are quantised already, and for architectures whose matrices are transposed.
        """
        if config.get("quantization_config"):
            method = config["quantization_config"].get("quant_method", "an unknown way")
            raise Unsupported(f"config.json: the weights are quantised already, by {method}")
        if self._name not in _DTYPES and config.get("model_type") in _TRANSPOSED:
            raise Unsupported(f"config.json: matrices of {config['model_type']} are stored transposed")
        made = dict(config)
        if self._dtype is not None:
            # Older files say torch_dtype.
            key = "torch_dtype" if "torch_dtype" in made and "dtype" not in made else "dtype"
            made[key] = str(torch_dtype(_DTYPES[self._dtype])).removeprefix("torch.")
        if self._name not in _DTYPES:
            made["quantization_config"] = self._format().config(self._skips.listed(tensors))
        return made

    def write(
        self,
        checkpoint: str | os.PathLike[str],
        out: str | os.PathLike[str],
        *,
        previous: str | os.PathLike[str] | None = None,
        progress: Report | None = None,
    ) -> Written:
        """Makes a served checkpoint of a directory of bf16, fp16 or fp32 weights, one tensor after another.

        Shards stay as they are cut; config.json gets its quantization_config; all else beside the tensors is copied.
        `out` must not exist, and does not until it is complete. `previous`: a served checkpoint of this view, whose
        scales are kept if `scales` is "frozen". `progress`: as in skerry.Checkpoint, bytes of `checkpoint`.

        Raises as `quantize`, `config` and skerry.Checkpoint do.
        """
        from skerry.views.writer import write

        return write(self, checkpoint, out, previous, progress)

    def _format(self) -> Format:
        if self._made is None:
            self._made = self._make_format()
        return self._made

    def _make_format(self) -> Format:
        imported("torch", "torch")
        if self._name == "fp8-block":
            from skerry.views.fp8_block import Fp8Block

            return Fp8Block(self._scales)
        if self._name == "nf4":
            from skerry.views.nf4 import Nf4

            return Nf4(_DTYPES[self._dtype or "bf16"])
        if self._name == "nvfp4":
            from skerry.views.nvfp4 import NvFp4

            return NvFp4()
        from skerry.views import compressed

        return getattr(compressed, self._name.replace("-", "_"))()

    def _forms(self, name: str, dtype: str, shape: tuple[int, ...]) -> dict[str, Form]:
        if not self.converts(name, shape):
            changes = self._dtype is not None and dtype in WEIGHTS
            return {name: Form(_DTYPES[self._dtype] if changes else dtype, shape)}
        if dtype not in WEIGHTS:
            raise Unsupported(f"{name} is {dtype} {list(shape)}: the view {self._name} is made of {', '.join(WEIGHTS)}")
        format_, module = self._format(), module_of(name)
        wanted = format_.unfit(shape)
        if wanted:
            raise Unsupported(
                f"{name} has shape {list(shape)}: the view {self._name} wants {wanted}; skip={module!r} leaves it alone"
            )
        return format_.forms(module, shape)


# transformers keeps these in Conv1D modules.
_TRANSPOSED = ("gpt2", "openai-gpt", "imagegpt", "decision_transformer")


def _rounded(name: str, weight: torch.Tensor, form: Form) -> torch.Tensor:
    import torch

    given = form_of(weight).dtype
    if given == form.dtype:
        return weight.contiguous()
    rounded = weight.to(torch_dtype(form.dtype)).contiguous()
    grew = torch.isinf(rounded) & ~torch.isinf(weight)
    if grew.any():
        largest = weight[grew].abs().max().item()
        raise Invalid(f"{name}: a weight of {largest:g} is too large for {form.dtype} ({int(grew.sum())} such weights)")
    return rounded


def _check_finite(name: str, weight: torch.Tensor) -> None:
    import torch

    # A sum is quick, and finite only where all are, but for sums of huge weights.
    if torch.isfinite(weight.sum(dtype=torch.float64)):
        return
    wrong = (~torch.isfinite(weight)).nonzero()
    if len(wrong):
        row, column = wrong[0].tolist()
        value = weight[row, column].item()
        raise Invalid(f"{name}: the weight at [{row}, {column}] is {value}, of {len(wrong)} that are no finite numbers")


def _expected(name: str, tensor: torch.Tensor, form: Form) -> torch.Tensor:
    if form_of(tensor) != form:
        raise Mismatch(f"{name}: the version before has {form_of(tensor)}, this view has {form}")
    return tensor.detach().contiguous()


def _differing(
    scales: tuple[str, ...], tensors: Mapping[str, torch.Tensor], before: Mapping[str, torch.Tensor] | None
) -> int:
    """How many blocks have other scales than before; all, where a scale that they share is another."""
    import torch

    if before is None:
        return 0
    counts = []
    for name in scales:
        bits = [of[name].reshape(-1, 1).view(torch.uint8) for of in (tensors, before)]
        counts.append(int((bits[0] != bits[1]).any(dim=1).sum()))
    return tensors[scales[0]].numel() if any(counts[1:]) else counts[0]
