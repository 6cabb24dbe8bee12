"""Random small models whose versions change some elements of some tensors, and now and then a side file."""

import numpy as np

from checkpoint_files import Tensor, bf16, write_checkpoint

MOST_TENSORS = 6
MOST_ELEMENTS = 9000  # of a tensor
MOST_SHARDS = 3


class RandomModel:
    """The same seed gives the same versions, each different from all others."""

    def __init__(self, seed):
        self.seed = seed
        random = np.random.default_rng(seed)
        self.shards = int(random.integers(1, MOST_SHARDS + 1))
        self.base = {}
        for i in range(int(random.integers(self.shards, MOST_TENSORS + 1))):
            rows, columns = int(random.integers(1, 60)), int(random.integers(1, MOST_ELEMENTS // 60))
            bits = random.integers(0x3B00, 0x3F00, (rows, columns), dtype=np.uint16)
            self.base[f"layers.{i}.w"] = bits if random.random() < 0.7 else bits.astype(np.uint32) << 16

    def arrays(self, version):
        arrays = {name: bits.copy() for name, bits in self.base.items()}
        for step in range(1, version + 1):
            random = np.random.default_rng((self.seed, step))
            for n, bits in enumerate(arrays.values()):
                if n > 0 and random.random() < 0.3:
                    continue
                count = min(bits.size, 1 + bits.size // 50)
                bits.reshape(-1)[random.choice(bits.size, count, replace=False)] += 1
        return arrays

    def side_files(self, version):
        files = {
            "tokenizer.json": f'{{"seed": {self.seed}}}',
            "generation_config.json": f'{{"version": {version // 3}}}',
        }
        if (version + self.seed) % 4 == 0:
            files["chat/template.jinja"] = f"{{{{ messages }}}} {version}"
        return files

    def write(self, directory, version):
        tensors = {
            name: bf16(bits) if bits.dtype == np.uint16 else Tensor("F32", bits.shape, bits.astype("<u4").tobytes())
            for name, bits in self.arrays(version).items()
        }
        return write_checkpoint(directory, tensors, self.shards, self.side_files(version))
