"""Masters that are made FP8 in blocks and compared in one pass: the bytes are those of the view, and so torch's own."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from published import pulled, same  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from skerry import Publisher  # noqa: E402
from skerry.errors import Invalid  # noqa: E402
from skerry.views import View  # noqa: E402

POLICIES = ["frozen", "recompute", "power-of-two"]
WEIGHT, SCALE = "w.weight", "w.weight_scale_inv"


class Served:
    """A checkpoint of one matrix in FP8, and captures against it."""

    def __init__(self, tensors, folder):
        self.tensors = tensors
        (folder / "base").mkdir()
        save_file(tensors, folder / "base" / "model.safetensors")
        self._publisher = Publisher(folder / "board", "r", base=folder / "base", state=folder / "state")

    def capture(self):
        return self._publisher._snapshot()

    def taken(self, masters, policy):
        """The tensors after these masters, and how many blocks were scaled anew."""
        capture = self.capture()
        names = [name for name, _, _ in capture.tensors]
        rescaled = capture.take_fp8_block(names.index(WEIGHT), names.index(SCALE), masters, policy)
        assert capture.untaken == []
        return {name: bytes(capture.read(ordinal)) for ordinal, name in enumerate(names)}, rescaled


def bytes_of(tensors):
    return {name: tensor.contiguous().view(torch.uint8).numpy().tobytes() for name, tensor in tensors.items()}


def quantised(weight, policy, before=None):
    made = View("fp8-block", scales=policy).quantize(WEIGHT, weight, None if before is None else before.__getitem__)
    return made.tensors, made.rescaled


def edges():
    """Matrices of sizes that fill no block, with blocks of all kinds of numbers."""
    generator = torch.Generator().manual_seed(7)
    for rows, columns in ((300, 450), (1, 257), (129, 128), (128, 1), (576, 192)):
        weight = torch.randn(rows, columns, generator=generator) * 0.02
        weight[:128, :128] = 0
        weight[-1, -1] = -0.0
        weight[:40, 128:256] *= 2.0**-120
        weight[:, 256:384] *= 1e30
        yield weight
    on_boundary = torch.randn(136, 160, generator=generator) * 0.05
    on_boundary[3, 5], on_boundary[20:100, 7] = 240 / 256, 180 / 256  # views_frozen_test.py
    yield on_boundary
    yield torch.full((130, 140), -3.3e38)
    yield torch.full((130, 140), 1e-42)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("policy", POLICIES)
def test_bytes_are_those_of_the_view_before_and_after_steps(policy, dtype, tmp_path):
    generator = torch.Generator().manual_seed(8)
    for number, weight in enumerate(edges()):
        (folder := tmp_path / str(number)).mkdir()
        masters = weight.to(dtype)
        served = Served(quantised(masters, policy)[0], folder)
        assert served.taken(masters, policy) == (bytes_of(served.tensors), 0)
        for size in (1e-4, 0.1, 3.0):
            masters = (masters.float() * (1 + size * torch.rand(masters.shape, generator=generator))).to(dtype)
            masters = masters.nan_to_num(posinf=3e38, neginf=-3e38)
            tensors, rescaled = quantised(masters, policy, served.tensors)
            changed, count = served.taken(masters, policy)
            assert changed == bytes_of(tensors), (number, size)
            assert count == (tensors[SCALE].float() != served.tensors[SCALE].float()).sum()
            assert policy != "frozen" or count == rescaled


@pytest.mark.parametrize("policy", POLICIES)
def test_a_run_s_matrices_go_this_way_and_come_out_as_by_the_other(policy, tmp_path, monkeypatch):
    generator = torch.Generator().manual_seed(10)
    weights = {WEIGHT: torch.randn(300, 450, generator=generator) * 0.02, "norm.weight": torch.ones(450)}
    weights[WEIGHT][3, 5], weights[WEIGHT][20:100, 7] = 240 / 256, 180 / 256  # on the boundary of two codes
    weights = {name: tensor.bfloat16() for name, tensor in weights.items()}
    (tmp_path / "base").mkdir()
    save_file(weights, tmp_path / "base" / "model.safetensors")
    (tmp_path / "base" / "config.json").write_text(json.dumps({"model_type": "llama"}))
    view, board = View("fp8-block", scales=policy), tmp_path / "board"
    with Publisher(board, "r", base=tmp_path / "base", state=tmp_path / "state", views=[view]) as publisher:
        before = pulled(board, "r/fp8-block", tmp_path / "island")
        weights[WEIGHT] = weights[WEIGHT] * (1 + 0.02 * torch.rand(300, 450, generator=generator)).bfloat16()
        weights[WEIGHT][290, 440] = 3.0
        expected = view.quantize(WEIGHT, weights[WEIGHT], before.__getitem__)
        assert 0 < expected.rescaled <= expected.blocks

        def refuse(*_):
            raise AssertionError("the matrix was quantised before it was compared")

        monkeypatch.setattr("skerry.views.fp8_block.Fp8Block.quantize", refuse)
        receipt = publisher.publish(weights).views["fp8-block"]
    assert (receipt.blocks, receipt.rescaled) == (expected.blocks, expected.rescaled)
    found = pulled(board, "r/fp8-block", tmp_path / "island")
    assert same(found, {**expected.tensors, "norm.weight": weights["norm.weight"]})


def test_every_bfloat16_that_fits_is_rounded_as_torch_rounds_it(tmp_path):
    every = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    fitting = every[every.abs() <= 464 * 2.0]
    masters = torch.nn.functional.pad(fitting, (0, -fitting.numel() % 1024)).reshape(-1, 1024)
    grid = [-(-size // 128) for size in masters.shape]
    codes = torch.zeros(masters.shape).to(torch.float8_e4m3fn)
    served = Served({WEIGHT: codes, SCALE: torch.full(grid, 2.0)}, tmp_path)
    expected = (masters.float() * 0.5).clamp(-448, 448).to(torch.float8_e4m3fn)
    tensors, rescaled = served.taken(masters, "frozen")
    assert rescaled == 0
    assert tensors == bytes_of({WEIGHT: expected, SCALE: served.tensors[SCALE]})


def test_powers_of_two_are_rounded_up_as_transformers_does_it_next_to_one_too(tmp_path):
    # One weight a block: 448 times a power of two, and units of its last place beside it.
    weights = []
    for exponent in range(-120, 118):
        bits = torch.tensor([448.0 * 2.0**exponent]).view(torch.int32) + torch.arange(-3, 40, dtype=torch.int32)
        weights.append(bits.view(torch.float32))
    masters = torch.zeros(1, 128 * sum(one.numel() for one in weights))
    masters[0, ::128] = torch.cat(weights)
    tensors, _ = quantised(masters, "power-of-two")
    served = Served({WEIGHT: torch.zeros_like(tensors[WEIGHT]), SCALE: tensors[SCALE]}, tmp_path)
    assert served.taken(masters, "power-of-two") == (bytes_of(tensors), 0)


def test_masters_come_as_floats_of_numpy_or_torch_or_as_bits(tmp_path):
    masters = (torch.randn(200, 300, generator=torch.Generator().manual_seed(9)) * 0.02).to(torch.bfloat16)
    served = Served(quantised(masters, "frozen")[0], tmp_path)
    expected = bytes_of(served.tensors), 0
    assert served.taken(masters, "frozen") == expected
    assert served.taken(masters.view(torch.uint16).numpy(), "frozen") == expected
    assert served.taken(masters.float(), "frozen") == expected
    assert served.taken(masters.float().numpy(), "frozen") == expected
    read_only = masters.float().numpy()
    read_only.flags.writeable = False
    assert served.taken(read_only, "frozen") == expected


def test_what_does_not_fit_is_named_and_nothing_is_taken(tmp_path):
    masters = torch.ones(200, 300)
    served = Served(quantised(masters, "power-of-two")[0], tmp_path)
    capture = served.capture()
    weight, scale = (([name for name, _, _ in capture.tensors]).index(name) for name in (WEIGHT, SCALE))

    def refused(match, *arguments):
        with pytest.raises(Invalid, match=match):
            capture.take_fp8_block(*arguments)
        assert capture.untaken == [0, 1]

    refused("policy: 'warm' is none of", weight, scale, masters, "warm")
    refused("values: neither float32 nor bfloat16", weight, scale, masters.double(), "frozen")
    transposed = masters.T.contiguous()
    refused(r"w.weight' is F8_E4M3 \[200, 300\]: an array of \[300, 200\]", weight, scale, transposed, "frozen")
    refused(r"w.weight' is F8_E4M3 \[200, 300\]: an array of \[60000\]", weight, scale, masters.reshape(-1), "frozen")
    refused("tensor 5 of a model that has 2", 5, scale, masters, "frozen")
    refused("w.weight_scale_inv' is F8_E8M0", scale, weight, torch.ones(2, 3), "frozen")
    refused("w.weight_scale_inv' is F8_E8M0 .* need F32", weight, scale, masters, "recompute")
    for wrong in (float("nan"), float("inf"), -float("inf")):
        masters[130, 7] = wrong
        refused(r"w.weight': element \[130, 7\] is NaN or infinite", weight, scale, masters, "frozen")
    with pytest.raises(TypeError):
        capture.take_fp8_block(weight, scale, np.ones((300, 200), np.float32).T, "frozen")
    capture.take_fp8_block(weight, scale, torch.ones(200, 300), "frozen")
    with pytest.raises(Invalid, match="w.weight.*' is given twice"):
        capture.take_fp8_block(weight, scale, torch.ones(200, 300), "frozen")
