"""Expands tests/data/chain into Hugging Face directories OUT/v000 … OUT/v010.

usage: chain.py OUT
"""

import json
import sys
from pathlib import Path

import numpy as np

from checkpoint_files import bf16, write_checkpoint

DATA = Path(__file__).parents[1] / "data" / "chain" / "chain.npz"
VERSIONS = 11
SIDE_FILE_CHANGES_AT = 4


def side_files(version):
    """A config, a tokenizer, and a file that is replaced at one version, as when somebody edits sampling defaults."""
    temperature = 0.7 if version < SIDE_FILE_CHANGES_AT else 1.0
    vocabulary = {chr(byte): byte for byte in range(32, 127)}
    return {
        "config.json": json.dumps({"architectures": ["ChainLM"], "torch_dtype": "bfloat16"}, indent=2),
        "tokenizer.json": json.dumps({"version": "1.0", "model": {"type": "BPE", "vocab": vocabulary}}),
        "generation_config.json": json.dumps({"temperature": temperature, "max_new_tokens": 64}),
    }


def expand(out, versions=VERSIONS):
    """Writes the first `versions` versions and returns their directories."""
    data = np.load(DATA)
    current = {key[5:]: data[key].copy() for key in data.files if key.startswith("base/")}
    directories = []
    for version in range(versions):
        for name, tensor in current.items():
            if f"{version:02d}/i/{name}" in data.files:
                tensor.reshape(-1)[data[f"{version:02d}/i/{name}"]] = data[f"{version:02d}/v/{name}"]
        tensors = {name: bf16(tensor) for name, tensor in current.items()}
        directories.append(write_checkpoint(Path(out) / f"v{version:03d}", tensors, 2, side_files(version)))
    return directories


if __name__ == "__main__":
    for directory in expand(sys.argv[1]):
        print(directory)
