"""What the libraries themselves make of weights, by other ways than skerry.views takes where there are any; and what
stored tensors stand for.
"""

import types

import torch

FP4 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
# How far above the largest code a weight may be, in scales: half of the step below it.
REACH = {
    "fp8-tensor": 464,
    "fp8-channel": 464,
    "fp8-block": 464,
    "mxfp8": 464,
    "mxfp4": 7,
    "nvfp4": 7,
    "nf4": 1.1385208,
}
QUANTISED = tuple(REACH)
# Rows must be multiples of it.
GROUP = {"mxfp8": 32, "mxfp4": 32, "nvfp4": 16}


def bits(tensors):
    """By name: dtype, shape and bytes, so that signs of zero and numbers that are none count."""
    return {
        name: (str(tensor.dtype), tuple(tensor.shape), bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy()))
        for name, tensor in tensors.items()
    }


def reference(view, weight, power_of_two=False):
    """The library's tensors, by their names without the module's, of a float32 weight."""
    if view == "fp8-block":
        return _by_transformers(weight, power_of_two)
    if view == "nf4":
        return _by_bitsandbytes(weight)
    return _by_compressed_tensors(view, weight)


def _by_transformers(weight, power_of_two):
    from transformers import FineGrainedFP8Config
    from transformers.integrations.finegrained_fp8 import Fp8Quantize

    rows, columns = weight.shape
    padded = torch.zeros(-(-rows // 128) * 128, -(-columns // 128) * 128)
    padded[:rows, :columns] = weight
    config = FineGrainedFP8Config(scale_fmt="ue8m0" if power_of_two else "float")
    made = Fp8Quantize(types.SimpleNamespace(quantization_config=config)).convert({"m.weight": padded})
    return {"weight": made["m.weight"][:rows, :columns], "weight_scale_inv": made["m.weight_scale_inv"]}


def _by_bitsandbytes(weight):
    """As a module of bitsandbytes quantises itself when it is moved, and says its state."""
    import bitsandbytes

    layer = bitsandbytes.nn.Linear4bit(
        weight.shape[1], weight.shape[0], bias=False, compress_statistics=False, quant_type="nf4"
    )
    layer.weight = bitsandbytes.nn.Params4bit(weight.clone(), compress_statistics=False, quant_type="nf4")
    layer = layer.to("cpu")
    layer.weight.quant_state.dtype = torch.bfloat16  # it says to what weights are unpacked, and here came from float32
    return layer.state_dict()


_PRESETS = {
    "fp8-tensor": "FP8",
    "fp8-channel": "FP8_DYNAMIC",
    "mxfp8": "MXFP8A16",
    "mxfp4": "MXFP4A16",
    "nvfp4": "NVFP4A16",
}


def compressed_by_library(view, model, ignore=()):
    """Compresses the linear layers of a model in float32 by the library's path for whole models: applies a
    configuration, sets the modules' scales, compresses. Returns the ModelCompressor.
    """
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config
    from compressed_tensors.quantization.quant_scheme import preset_name_to_scheme
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

    scheme = preset_name_to_scheme(_PRESETS[view], ["Linear"])
    if view == "fp8-tensor":
        scheme.input_activations = preset_name_to_scheme("FP8_DYNAMIC", ["Linear"]).input_activations
    apply_quantization_config(model, QuantizationConfig(config_groups={"group_0": scheme}, ignore=list(ignore)))
    for module in model.modules():
        if not hasattr(module, "quantization_scheme"):
            continue
        weight = module.weight.data
        if view == "fp8-tensor":
            blocks = weight.reshape(1, -1)
        else:
            blocks = weight if view == "fp8-channel" else weight.reshape(weight.shape[0], -1, GROUP[view])
        global_scale = None
        if view == "nvfp4":
            global_scale = generate_gparam(weight.min(), weight.max())
            module.weight_global_scale.data = global_scale
        scale, _ = calculate_qparams(blocks.amin(-1), blocks.amax(-1), scheme.weights, global_scale=global_scale)
        module.weight_scale.data = scale.reshape(module.weight_scale.shape)
    compressor = ModelCompressor.from_pretrained_model(model)
    # Compiled, as it is by default, its rounding gives the same; a test need not have a compiler.
    with torch.compiler.set_stance("force_eager"):
        compressor.compress_model(model)
    return compressor


def _by_compressed_tensors(view, weight):
    model = torch.nn.Sequential(torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False))
    model[0].weight.data = weight.clone()
    compressed_by_library(view, model)
    return {name.removeprefix("0."): tensor for name, tensor in model.state_dict().items()}


def meaning(view, module, tensors, shape):
    """(codes as numbers, scales), of each weight, in float64."""
    get = lambda name: tensors[f"{module}.{name}"]  # noqa: E731
    rows, columns = shape
    if view == "fp8-block":
        scales = get("weight_scale_inv").double().repeat_interleave(128, 0).repeat_interleave(128, 1)
        return get("weight").double(), scales[:rows, :columns]
    if view in ("fp8-tensor", "fp8-channel"):
        return get("weight").double(), get("weight_scale").double().reshape(-1, 1).expand(shape)
    if view == "nf4":
        codes = get("weight").reshape(-1)
        codes = torch.stack([codes >> 4, codes & 15], 1).reshape(-1)
        table, absmax = get("weight.quant_map").double(), get("weight.absmax").double()
        return table[codes.int()].reshape(shape), absmax.repeat_interleave(64)[: rows * columns].reshape(shape)
    if view == "nvfp4":
        scales = get("weight_scale").double() / get("weight_global_scale").double()
    else:
        scales = torch.exp2(get("weight_scale").double() - 127)
    scales = scales.repeat_interleave(GROUP[view], 1)
    if view == "mxfp8":
        return get("weight").double(), scales
    codes = get("weight_packed")
    codes = torch.stack([codes & 15, codes >> 4], 2).reshape(shape).int()
    return FP4.double()[codes & 7] * torch.where(codes >= 8, -1.0, 1.0), scales


def worst_rounding(view, scaled):
    """How far a code may be from a weight, both in scales."""
    if view == "nf4":
        return torch.full_like(scaled, 0.1519037)  # half of the step from -1 to the next code, the widest
    if view in ("mxfp4", "nvfp4"):
        return torch.where(scaled.abs() <= 2, 0.25, torch.where(scaled.abs() <= 4, 0.5, 1.0)).double()
    return torch.maximum(scaled.abs() / 16, torch.full_like(scaled, 2.0**-10))
