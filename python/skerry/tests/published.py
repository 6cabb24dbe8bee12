"""A small model, its checkpoint, and what readers of a board get of it."""

from __future__ import annotations

import hashlib
import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from skerry import Board, Publisher


class Model(torch.nn.Module):
    """fp32 masters; bf16 is served, but for a router that stays in F32."""

    def __init__(self, seed=0, width=64):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.embed = torch.nn.Embedding(97, width)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width, bias=False) for _ in range(3))
        self.router = torch.nn.Linear(width, 3)
        for parameter in self.parameters():
            parameter.data.normal_(0, 0.02, generator=generator)

    def forward(self, ids):
        hidden = self.embed(ids)
        for layer in self.layers:
            hidden = hidden + layer(hidden)
        return self.router(hidden)


def served(model):
    """The checkpoint's tensors as they are now: what torch itself makes of the masters."""
    return {
        name: tensor.clone().to(torch.float32 if name.startswith("router") else torch.bfloat16)
        for name, tensor in model.state_dict().items()
    }


def save_checkpoint(model, folder):
    folder.mkdir()
    save_file(served(model), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "test"}))
    return folder


def perturb(model, share=0.01, seed=1, scale=1.0):
    """What an optimizer step might do: some elements move."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            chosen = torch.rand(parameter.shape, generator=generator) < share
            parameter.add_(torch.randn(parameter.shape, generator=generator) * scale * chosen)


def pulled(board, run, folder, version=None):
    """The tensors of a version as an island gets them."""
    with Board(str(board)) as opened:
        opened.pull(run, folder, version=version)
    return load_file(folder / "model.safetensors")


def same(found, wanted):
    """Bit for bit."""
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape, name
        assert torch.equal(found[name].contiguous().view(torch.uint8), tensor.contiguous().view(torch.uint8)), name
    return True


def digest_of(folder):
    """SHA-256 of all files below, by name."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def base(model, tmp_path):
    return save_checkpoint(model, tmp_path / "base")


@pytest.fixture
def publisher(tmp_path, base):
    with Publisher(tmp_path / "board", "grpo-1", base=base, state=tmp_path / "state") as made:
        yield made


def reopened(publisher, tmp_path, **options):
    """Another publisher of the same run."""
    return Publisher(publisher.board, publisher.run, **({"state": tmp_path / "state"} | options))


def read(publisher, tmp_path, version=None):
    """The tensors of a version of its run."""
    return pulled(publisher.board, publisher.run, tmp_path / f"island-{version}", version)
