"""What a view can't do, and says so before anything is made."""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from skerry.errors import Invalid, Mismatch, Unsupported  # noqa: E402
from skerry.views import NAMES, Form, View  # noqa: E402

NAME = "model.layers.0.mlp.down_proj.weight"


@pytest.mark.parametrize(
    "arguments, said",
    [
        ({"name": "fp8"}, "view: 'fp8' is none of bf16, fp16, fp8-tensor"),
        ({"name": "nf4", "scales": "kept"}, "scales: 'kept' is none of frozen, recompute, power-of-two"),
        ({"name": "nf4", "dtype": "float16"}, "dtype: 'float16' is none of bf16, fp16, fp32"),
        ({"name": "bf16", "dtype": "fp16"}, "dtype: fp16 for the view bf16"),
        ({"name": "nf4", "skip": ["lm_head", 3]}, "skip: 3 is not a pattern"),
        ({"name": "nf4", "skip": ""}, "skip: '' is not a pattern"),
    ],
)
def test_arguments_are_checked(arguments, said):
    with pytest.raises(Invalid, match=said):
        View(**arguments)


@pytest.mark.parametrize(
    "name, shape, converted",
    [
        (NAME, (4, 4), True),
        ("lm_head.weight", (4, 4), False),
        ("model.lm_head.weight", (4, 4), False),
        ("model.embed_tokens.weight", (4, 4), False),
        ("transformer.wte.weight", (4, 4), False),
        ("model.layers.1.mlp.gate.weight", (4, 4), False),
        ("model.layers.1.mlp.gate_proj.weight", (4, 4), True),
        ("model.layers.1.mlp.experts.7.gate_proj.weight", (4, 4), True),
        ("model.layers.1.mlp.shared_expert_gate.weight", (1, 4), False),
        ("model.layers.1.mlp.experts.gate_up_proj", (8, 4, 4), False),
        ("model.norm.weight", (4,), False),
        ("model.layers.0.self_attn.q_proj.bias", (4,), False),
        ("model.layers.0.conv.weight", (4, 4, 3), False),
        ("model.layers.0.self_attn.q_proj.weight", (0, 4), False),
    ],
)
def test_weights_of_linear_layers_are_converted(name, shape, converted):
    assert View("fp8-block").converts(name, shape) == converted
    assert not View("bf16").converts(name, shape)


def test_skip_names_modules_by_any_part_of_their_name():
    view = View("nf4", skip=["vision_tower", "layers.0.*.q_proj", "model.layers.9.mlp.up_proj"])
    assert not view.converts("model.vision_tower.blocks.3.fc1.weight", (4, 4))
    assert not view.converts("model.layers.0.self_attn.q_proj.weight", (4, 4))
    assert not view.converts("model.layers.9.mlp.up_proj.weight", (4, 4))
    assert view.converts("model.layers.10.self_attn.q_proj.weight", (4, 4))
    assert view.converts("lm_head.weight", (4, 4))


def test_config_names_what_is_left_alone_and_an_output_layer_that_is_tied():
    tensors = [("model.embed_tokens.weight", (8, 4)), ("model.layers.0.mlp.gate.weight", (4, 4)), (NAME, (4, 4))]
    left_alone = lambda view, of: view.config({}, of)["quantization_config"]["modules_to_not_convert"]  # noqa: E731
    gate = ["model.embed_tokens", "model.layers.0.mlp.gate"]
    assert left_alone(View("fp8-block"), tensors) == ["lm_head", *gate]
    assert left_alone(View("fp8-block", skip=()), tensors) == ["lm_head", "model.embed_tokens"]
    untied = [*tensors, ("lm_head.weight", (8, 4))]
    assert left_alone(View("fp8-block"), untied) == ["lm_head", *gate]
    assert left_alone(View("fp8-block", skip="gate"), untied) == gate


@pytest.mark.parametrize(
    "view, shape, wanted",
    [
        ("mxfp8", (4, 48), "rows of a multiple of 32 weights"),
        ("mxfp4", (4, 31), "rows of a multiple of 32 weights"),
        ("nvfp4", (4, 24), "rows of a multiple of 16 weights"),
        ("nf4", (3, 5), "an even number of weights"),
    ],
)
def test_shapes_that_do_not_fit_are_named_with_what_is_wanted(view, shape, wanted):
    pytest.importorskip("bitsandbytes")
    for refused in (
        lambda: View(view).layout([(NAME, "BF16", shape)]),
        lambda: View(view).quantize(NAME, torch.ones(shape)),
    ):
        with pytest.raises(Unsupported) as raised:
            refused()
        for said in (NAME, str(list(shape)), wanted, "skip='model.layers.0.mlp.down_proj' leaves it alone"):
            assert said in str(raised.value)
    assert View(view, skip="down_proj").quantize(NAME, torch.ones(shape)).blocks == 0


@pytest.mark.parametrize("value, said", [(float("nan"), "nan"), (float("inf"), "inf"), (float("-inf"), "-inf")])
@pytest.mark.parametrize("view", ["fp8-block", "nf4", "mxfp4"])
def test_weights_that_are_no_finite_numbers_are_refused(view, value, said):
    weight = torch.ones(64, 64)
    weight[3, 7] = value
    weight[5, 1] = value
    with pytest.raises(Invalid, match=rf"{NAME}: the weight at \[3, 7\] is {said}, of 2 that are no finite numbers"):
        View(view).quantize(NAME, weight)


def test_huge_weights_are_taken_where_they_can_be_and_refused_where_not():
    pytest.importorskip("compressed_tensors")
    weight = torch.full((64, 64), 3.4e38)
    assert View("fp8-channel").quantize(NAME, weight).blocks == 64
    for view in ("mxfp8", "mxfp4"):
        with pytest.raises(Invalid, match=f"{NAME}: a weight of 3.4e[+]38, but groups .* hold less than 2.97"):
            View(view).quantize(NAME, weight)
    with pytest.raises(Invalid, match="a weight of 3.4e[+]38 is too large for F16 [(]4096 such weights[)]"):
        View("fp16").quantize(NAME, weight)


def test_weights_that_are_quantised_already_are_refused():
    with pytest.raises(Unsupported, match=rf"{NAME} is F8_E4M3 \[4, 4\]: the view fp8-block is made of F32, BF16, F16"):
        View("fp8-block").quantize(NAME, torch.ones(4, 4).to(torch.float8_e4m3fn))
    with pytest.raises(Unsupported, match="the weights are quantised already, by fp8"):
        View("bf16").config({"quantization_config": {"quant_method": "fp8"}}, [])
    with pytest.raises(Unsupported, match="matrices of gpt2 are stored transposed"):
        View("fp8-block").config({"model_type": "gpt2"}, [])


def test_a_version_before_that_is_another_view_s_is_refused():
    weight = torch.ones(256, 256)
    scale = NAME + "_scale_inv"
    before = {scale: torch.ones(2, 1), NAME: weight}
    with pytest.raises(Mismatch, match=rf"{scale}: the version before has F32 \[2, 1\], this view has F32 \[2, 2\]"):
        View("fp8-block").quantize(NAME, weight, before.__getitem__)
    before = {scale: torch.ones(2, 2).to(torch.float8_e8m0fnu)}
    with pytest.raises(Mismatch, match=r"the version before has F8_E8M0 \[2, 2\], this view has F32 \[2, 2\]"):
        View("fp8-block").quantize(NAME, weight, before.__getitem__)


def test_two_tensors_may_not_become_one():
    view = View("fp8-block")
    with pytest.raises(Invalid, match="a.weight_scale_inv: would be made of both a.weight and a.weight_scale_inv"):
        view.layout([("a.weight", "BF16", (4, 4)), ("a.weight_scale_inv", "F32", (1, 1))])


def test_tensors_that_are_not_quantised_keep_what_they_are_or_get_the_dtype():
    tensors = [("model.norm.weight", "F32", (4,)), ("ids", "I64", (3,)), ("lm_head.weight", "BF16", (4, 4))]
    assert View("fp8-block").layout(tensors) == {name: {name: Form(dtype, shape)} for name, dtype, shape in tensors}
    rounded = View("fp8-block", dtype="fp16").layout(tensors)
    assert [form.dtype for forms in rounded.values() for form in forms.values()] == ["F16", "I64", "F16"]
    assert View("nf4", dtype="bf16").quantize("ids", torch.arange(3)).tensors["ids"].dtype == torch.int64


def test_a_tensor_of_another_device_is_refused():
    with pytest.raises(Invalid, match="a tensor of meta, but one of the CPU is wanted"):
        View("fp8-block").quantize(NAME, torch.ones(4, 4, device="meta"))


@pytest.mark.parametrize(
    "view, package", [("fp8-block", "transformers"), ("mxfp4", "compressed-tensors"), ("nf4", "bitsandbytes")]
)
def test_a_library_that_is_missing_is_named_with_what_to_install(view, package, monkeypatch):
    module = package.replace("-", "_")
    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Unsupported, match=rf"this view needs {package} \(pip install 'skerry\[views\]'\)"):
        View(view).quantize(NAME, torch.ones(64, 64))


def test_a_library_without_what_is_needed_is_named(monkeypatch):
    library = pytest.importorskip("transformers.integrations.finegrained_fp8")
    monkeypatch.delattr(library, "Fp8Quantize")
    with pytest.raises(Unsupported, match="finegrained_fp8 has no Fp8Quantize: this view needs another transformers"):
        View("fp8-block").quantize(NAME, torch.ones(64, 64))


def test_libraries_are_imported_where_a_view_needs_them_and_not_before():
    program = f"""
from skerry.views import View
import sys
libraries = ("torch", "transformers", "compressed_tensors", "bitsandbytes")
loaded = lambda: [name for name in libraries if name in sys.modules]
views = [View(name) for name in {NAMES!r}]
assert [view.converts({NAME!r}, (4, 4)) for view in views].count(True) == 7
assert not loaded(), loaded()
import torch
View("bf16").quantize({NAME!r}, torch.ones(4, 4))
assert loaded() == ["torch"], loaded()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
