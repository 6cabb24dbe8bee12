"""A model of a few tensors whose versions change what a real one changes: weights and their scales, side files."""

import numpy as np

from checkpoint_files import Tensor, bf16, write_checkpoint

SHAPE = (300, 256)  # two cells
SHARD1, SHARD2 = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def tensors(version):
    """Version 0, or 0 with what steps 1 … version changed. Weight and scales are in different shards of two."""
    random = np.random.default_rng(7)
    weight = random.integers(0x3C00, 0x3F00, SHAPE, dtype=np.uint16)
    scales = random.random(64, dtype=np.float32)
    norm = np.full(256, 0x3F80, dtype=np.uint16)
    for step in range(1, version + 1):
        random = np.random.default_rng(step)
        weight.reshape(-1)[random.choice(weight.size, 900, replace=False)] += 1
        scales[random.choice(scales.size, 5, replace=False)] *= np.float32(1.01)
        norm[random.choice(norm.size, 3, replace=False)] += 1
    return {
        "layers.0.w": bf16(weight),
        "layers.0.w_scale_inv": Tensor("F32", scales.shape, scales.tobytes()),
        "norm.weight": bf16(norm),
    }


def side_files(version):
    """One file that each version replaces, one that only even versions have, one that never changes."""
    files = {"tokenizer.json": '{"vocab": ["a", "b"]}', "generation_config.json": f'{{"seed": {version}}}'}
    if version % 2 == 0:
        files["chat/template.jinja"] = f"{{{{ messages }}}} {version}"
    return files


def write(directory, version, shards=2):
    return write_checkpoint(directory, tensors(version), shards, side_files(version))
