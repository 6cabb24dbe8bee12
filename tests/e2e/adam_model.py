"""A model whose weights move as in RL post-training: fp32 masters, steps of one learning rate each in directions that
persist, and a bf16 view of them, of which about 1 % changes a step."""

import numpy as np

from checkpoint_files import bf16, write_safetensors

LEARNING_RATE = np.float32(1e-6)
TURNS = 0.1  # of the directions, each step
SHAPES = {"embed": (2000, 192), "layers.0.w": (768, 512), "layers.1.w": (512, 768), "norm": (768,)}


def to_bf16(masters):
    """Rounded to nearest, ties to even."""
    bits = masters.view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


class AdamModel:
    def __init__(self, directory, seed=5):
        self.directory = directory
        self.random = np.random.default_rng(seed)
        self.masters, self.directions = {}, {}
        for name, shape in SHAPES.items():
            magnitudes = np.exp(self.random.normal(np.log(0.02), 1.0, shape))
            self.masters[name] = (magnitudes * self._signs(shape)).astype(np.float32)
            self.directions[name] = self._signs(shape)
        directory.mkdir()
        (directory / "config.json").write_text('{"architectures": ["AdamLM"]}')
        self.write()

    def _signs(self, shape):
        return self.random.choice(np.array([-1, 1], np.int8), shape)

    def step(self):
        for name, masters in self.masters.items():
            directions = self.directions[name]
            directions[self.random.random(directions.shape, np.float32) < TURNS] *= -1
            masters += LEARNING_RATE * directions
        self.write()

    def write(self):
        tensors = {name: bf16(to_bf16(masters)) for name, masters in self.masters.items()}
        write_safetensors(self.directory / "model.safetensors", tensors)
