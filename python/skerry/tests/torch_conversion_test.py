"""Models of transformers that hold other tensors than their checkpoints."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from recording_capture import RecordingCapture  # noqa: E402
from skerry.names import Names  # noqa: E402
from skerry.torch.conversion import _converted  # noqa: E402
from skerry.weights import Given, Weights, check, take  # noqa: E402

COMMON = {
    "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 8,
}  # fmt: skip
MODELS = {
    "llama, tied": lambda: transformers.LlamaConfig(**COMMON, tie_word_embeddings=True),
    "qwen3": lambda: transformers.Qwen3Config(**COMMON, tie_word_embeddings=False),
    "qwen3 moe: experts as one tensor": lambda: transformers.Qwen3MoeConfig(
        **COMMON, moe_intermediate_size=8, num_experts=4, num_experts_per_tok=2
    ),
    "mixtral: experts as one tensor, and renamed": lambda: transformers.MixtralConfig(
        **COMMON, num_local_experts=4, num_experts_per_tok=2
    ),
}


@pytest.fixture(params=MODELS)
def model(request):
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(MODELS[request.param]())


def saved(model, folder):
    """What save_pretrained writes."""
    from safetensors.torch import load_file

    model.save_pretrained(folder)
    return load_file(folder / "model.safetensors")


def test_a_model_is_published_in_the_form_in_which_it_is_saved(model, tmp_path):
    tensors = saved(model, tmp_path)
    capture = RecordingCapture({name: ("F32", tuple(tensor.shape)) for name, tensor in tensors.items()})
    check(capture, Weights(model), Names())
    assert capture.calls == []
    take(capture, Weights(model), Names())
    for name, tensor in tensors.items():
        assert capture.values(name) == tensor.reshape(-1).tolist(), name


def test_a_model_that_was_loaded_and_wrapped_is_so_too(model, tmp_path):
    tensors = saved(model, tmp_path)
    loaded = torch.compile(transformers.AutoModelForCausalLM.from_pretrained(tmp_path), backend="eager")
    capture = RecordingCapture({name: ("F32", tuple(tensor.shape)) for name, tensor in tensors.items()})
    take(capture, Weights(loaded), Names())
    assert capture.taken_names == set(tensors)


def test_tensors_that_become_one_are_converted_together_and_once():
    calls = []

    def joined(tensors):
        """qkv of a checkpoint, which the model holds apart."""
        calls.append((sorted(tensors), next(iter(tensors.values())).device.type))
        parts = [tensors[name] for name in ("q", "k", "v") if name in tensors]
        made = {"qkv": torch.cat(parts)} if parts else {}
        return made | {name: tensor for name, tensor in tensors.items() if name not in ("q", "k", "v")}

    given = [Given(name, torch.full((2,), float(index))) for index, name in enumerate(["q", "norm", "k", "v"])]
    capture = RecordingCapture({"qkv": ("F32", (6,)), "norm": ("F32", (2,))})
    for target in _converted(joined, given):
        ordinal = [name for name, _, _ in capture.tensors].index(target.name)
        values = target.array if target.values is None else target.values()
        assert tuple(target.array.shape) == tuple(values.shape)
        capture.take(ordinal, values.numpy(), "F32")
    assert capture.values("qkv") == [0, 0, 2, 2, 3, 3] and capture.values("norm") == [1, 1]
    assert [call for call in calls if call[1] != "meta"] == [(["k", "q", "v"], "cpu")]
