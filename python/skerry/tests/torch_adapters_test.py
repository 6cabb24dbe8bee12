"""F5: what PEFT's layers amount to, without a bit of them being moved."""

import copy

import pytest

torch = pytest.importorskip("torch")
peft = pytest.importorskip("peft")

from recording_capture import RecordingCapture  # noqa: E402
from skerry.errors import Unsupported  # noqa: E402
from skerry.names import Names, NamesDiffer  # noqa: E402
from skerry.weights import Weights, check, take  # noqa: E402


class Model(torch.nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.embed = torch.nn.Embedding(16, 8, dtype=dtype)
        self.up = torch.nn.Linear(8, 12, dtype=dtype)
        self.down = torch.nn.Linear(12, 8, bias=False, dtype=dtype)
        self.head = torch.nn.Linear(8, 4, dtype=dtype)

    def forward(self, ids):
        return self.head(self.down(self.up(self.embed(ids))))


def adapted(dtype, **config):
    torch.manual_seed(0)
    config = {"target_modules": ["up", "down", "embed"], "r": 4, "init_lora_weights": False} | config
    return peft.get_peft_model(Model(dtype), peft.LoraConfig(**config))


def checkpoint(dtype):
    name = {torch.float32: "F32", torch.bfloat16: "BF16"}[dtype]
    return {key: (name, tuple(value.shape)) for key, value in Model(dtype).state_dict().items()}


def taken(model, dtype):
    capture = RecordingCapture(checkpoint(dtype))
    take(capture, Weights(model), Names())
    return {name: capture.values(name) for name, *_ in capture.tensors}


def bits(module, dtype):
    return {
        key: value.detach().contiguous().view(-1).view(torch.int32 if dtype is torch.float32 else torch.int16).tolist()
        for key, value in module.state_dict().items()
    }


CONFIGS = {
    "lora": {},
    "dora": {"use_dora": True, "target_modules": ["up", "down"]},
    "lora with bias": {"lora_bias": True, "target_modules": ["up"]},
    "a head that is trained whole": {"modules_to_save": ["head"]},
}


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_F5_adapters_are_merged_as_peft_merges_them_and_the_base_keeps_its_bits(config, dtype):
    model = adapted(dtype, **CONFIGS[config])
    if "modules_to_save" in CONFIGS[config]:
        with torch.no_grad():
            model.base_model.model.head.modules_to_save["default"].weight.add_(1)
    merged = copy.deepcopy(model).merge_and_unload()
    before = bits(model, dtype)
    addresses = {name: parameter.data_ptr() for name, parameter in model.named_parameters()}

    first, second = taken(model, dtype), taken(model, dtype)
    assert first == second
    assert bits(model, dtype) == before
    assert {name: parameter.data_ptr() for name, parameter in model.named_parameters()} == addresses
    for key, value in merged.state_dict().items():
        flat = value.detach().reshape(-1)
        expected = flat.tolist() if dtype is torch.float32 else flat.view(torch.uint16).tolist()
        assert first[key] == expected, key
    assert not any(getattr(module, "merged", False) for module in model.modules())


def test_F5_a_model_that_is_merged_already_is_taken_as_it_is():
    model = adapted(torch.bfloat16)
    unmerged = taken(model, torch.bfloat16)
    model.merge_adapter()
    assert taken(model, torch.bfloat16) == unmerged


def test_disabled_adapters_leave_the_base():
    model = adapted(torch.float32)
    base = taken(model, torch.float32)
    with model.disable_adapter():
        plain = taken(model, torch.float32)
    assert plain["up.weight"] == model.base_model.model.up.base_layer.weight.detach().reshape(-1).tolist()
    assert plain["up.weight"] != base["up.weight"]


def test_F5_a_quantised_base_is_refused_by_name():
    model = adapted(torch.bfloat16, target_modules=["down"])
    layer = model.base_model.model.down.base_layer
    layer.weight.quant_state = object()  # what bitsandbytes' Params4bit has
    with pytest.raises(Unsupported, match="down.weight: the base is quantised .*bf16 or fp32"):
        taken(model, torch.bfloat16)


def test_names_are_checked_without_merging():
    model = adapted(torch.float32)
    wanted = checkpoint(torch.float32)
    check(RecordingCapture(wanted), Weights(model), Names())
    del wanted["down.weight"]
    with pytest.raises(NamesDiffer) as caught:
        check(RecordingCapture(wanted), Weights(model), Names())
    assert caught.value.unmapped == ["base_model.model.down.weight"]
