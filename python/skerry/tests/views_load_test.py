"""transformers loads what a view writes, on a CPU, and answers as a model that its library has quantised itself.

It unpacks fp8-block when it loads it, as its FP8 kernels want a GPU; only where sizes are multiples of 128, else it
refuses.
"""

import pytest

torch = pytest.importorskip("torch")
for library in ("transformers", "compressed_tensors", "bitsandbytes", "accelerate"):
    pytest.importorskip(library)

from safetensors.torch import load_file  # noqa: E402
from transformers import AutoModelForCausalLM, BitsAndBytesConfig  # noqa: E402
from views_models import linears, logits, save, tiny_llama  # noqa: E402
from views_references import bits, compressed_by_library, meaning  # noqa: E402

from skerry.views import View  # noqa: E402

COMPRESSED = ("fp8-tensor", "fp8-channel", "mxfp8", "mxfp4", "nvfp4")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return save(tiny_llama(), tmp_path_factory.mktemp("llama") / "ckpt")


def loaded(folder, dtype=torch.float32, **options):
    # compressed-tensors compiles its rounding to FP4, and quantises the model that it is about to fill.
    with torch.compiler.set_stance("force_eager"):
        model, problems = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, output_loading_info=True, **options)
    assert not any(problems[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), problems
    return model.eval()


@pytest.mark.parametrize("view", ["bf16", "fp16"])
def test_bf16_and_fp16_are_the_model_itself(view, checkpoint, tmp_path):
    View(view).write(checkpoint, tmp_path / "served")
    dtype = torch.bfloat16 if view == "bf16" else torch.float16
    assert torch.equal(logits(loaded(tmp_path / "served", dtype)), logits(loaded(checkpoint, dtype)))


@pytest.mark.parametrize("scales", ["recompute", "power-of-two"])
def test_fp8_blocks_are_unpacked_to_codes_times_scales(scales, checkpoint, tmp_path):
    View("fp8-block", scales=scales).write(checkpoint, tmp_path / "served")
    stored = load_file(tmp_path / "served" / "model.safetensors")
    direct = loaded(checkpoint)
    exact = logits(direct)
    for name, module in linears(direct).items():
        scale = f"{name}.weight_scale_inv"
        stored[scale] = stored[scale].float()
        codes, by = meaning("fp8-block", name, stored, module.weight.shape)
        module.weight.data = (codes * by).float()
    found = logits(loaded(tmp_path / "served"))
    assert torch.equal(found, logits(direct))
    assert not torch.equal(found, exact) and torch.nn.functional.cosine_similarity(found, exact, dim=-1).min() > 0.98


@pytest.mark.parametrize("view", COMPRESSED)
def test_compressed_tensors_answer_as_a_model_that_the_library_compressed(view, checkpoint, tmp_path):
    View(view).write(checkpoint, tmp_path / "served")
    # What has exponents or FP4 codes is unpacked to bf16, whatever the model's dtype.
    dtype = torch.float32 if view.startswith("fp8") else torch.bfloat16
    direct = loaded(checkpoint, dtype)
    exact = logits(direct)
    for module in linears(direct).values():
        module.weight.data = module.weight.data.float()
    compressor = compressed_by_library(view, direct, ignore=["lm_head"])
    in_memory = {name: tensor for name, tensor in direct.state_dict().items() if "proj" in name}
    stored = load_file(tmp_path / "served" / "model.safetensors")
    assert bits(in_memory) == bits({name: tensor for name, tensor in stored.items() if "proj" in name})
    compressor.decompress_model(direct)
    found = logits(loaded(tmp_path / "served", dtype))
    assert torch.equal(found, logits(direct))
    assert not torch.equal(found, exact) and torch.nn.functional.cosine_similarity(found, exact, dim=-1).min() > 0.7


def test_nf4_is_what_transformers_itself_saves_and_answers_the_same(checkpoint, tmp_path):
    View("nf4").write(checkpoint, tmp_path / "served")
    config = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=torch.bfloat16,
        llm_int8_skip_modules=["lm_head"],
    )
    direct = loaded(checkpoint, torch.bfloat16, quantization_config=config)
    direct.save_pretrained(tmp_path / "saved")
    assert bits(load_file(tmp_path / "served" / "model.safetensors")) == bits(
        load_file(tmp_path / "saved" / "model.safetensors")
    )
    assert torch.equal(logits(loaded(tmp_path / "served", torch.bfloat16)), logits(direct))


def test_a_module_that_is_skipped_stays_as_it_is_for_those_who_load_it(checkpoint, tmp_path):
    exact = loaded(checkpoint, torch.bfloat16).get_submodule("model.layers.1.mlp.down_proj").weight
    for view in ("fp8-block", "mxfp4", "nf4"):
        View(view, skip=["lm_head", "layers.1"]).write(checkpoint, tmp_path / view)
        model = loaded(tmp_path / view, torch.bfloat16)
        logits(model)
        assert torch.equal(model.get_submodule("model.layers.1.mlp.down_proj").weight, exact)
        assert type(model.get_submodule("model.layers.1.mlp.down_proj").weight) is torch.nn.Parameter
