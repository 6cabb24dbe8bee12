"""Recomputed scales: each view's bytes are those of the library that it names."""

import pytest

torch = pytest.importorskip("torch")
for library in ("transformers", "compressed_tensors", "bitsandbytes"):
    pytest.importorskip(library)

from views_references import GROUP, QUANTISED, bits, reference  # noqa: E402

from skerry.views import View  # noqa: E402

NAME = "model.layers.0.mlp.up_proj"
TINY, HUGE = 1e-40, 1e38  # subnormal; half of what groups of 32 can hold


def random(rows, columns, seed=1, spread=0.05):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * spread


def spiky(rows, columns):
    """Magnitudes over 30 binades, as no layer has them."""
    exponents = torch.randint(-25, 5, (rows, columns), generator=torch.Generator().manual_seed(2)).float()
    return random(rows, columns, 3, 1.0) * torch.exp2(exponents)


def halves_of_zero(rows, columns):
    """Blocks, rows and groups of zeros of both signs among others."""
    weight = random(rows, columns, 4)
    weight[: rows // 2, : columns // 2] = 0
    weight[rows // 2 :, columns // 2 :] = -0.0
    return weight


def ties(rows, columns):
    """Multiples of 1/16 up to 448: many are half way between two codes."""
    count = rows * columns
    return (torch.arange(count) % 7169).sub(3584).div(8).reshape(rows, columns).contiguous()


WEIGHTS = {
    "like an attention matrix of SmolLM2": random(192, 576),
    "like a wide matrix of SmolLM2": random(576, 1536, 5),
    "in bf16": random(128, 192, 6).bfloat16(),
    "in fp16": random(64, 192, 7).half(),
    "all zero": torch.zeros(64, 96),
    "zeros of both signs": halves_of_zero(256, 384),
    "huge": random(64, 96, 8, 0.1) * HUGE,
    "small": random(64, 96, 9) * 1e-30,
    "subnormal": random(64, 96, 10, 1.0) * TINY,
    "subnormal among others": torch.cat([random(64, 96, 11), random(64, 96, 12, 1.0) * TINY]),
    "one row": random(1, 192, 13),
    "one group": random(1, 32, 14),
    "ties": ties(96, 160),
    "spiky": spiky(160, 224),
    "not contiguous": random(192, 128, 15).t(),
    "odd sizes": random(37, 54, 16),
    "one weight more": random(3, 43 * 2, 17),
}


def fits(view, weight):
    return weight.shape[1] % GROUP.get(view, 1) == 0


CASES = [(view, title) for view in QUANTISED for title, weight in WEIGHTS.items() if fits(view, weight)]


def reference_is_no_number(view, title):
    return view == "fp8-block" and title in ("subnormal", "subnormal among others")


@pytest.mark.parametrize("scales", ["recompute", "frozen"])
@pytest.mark.parametrize("view, title", [case for case in CASES if not reference_is_no_number(*case)])
def test_bytes_are_the_library_s_own(view, title, scales):
    weight = WEIGHTS[title]
    made = View(view, scales=scales).quantize(f"{NAME}.weight", weight)
    wanted = {f"{NAME}.{name}": tensor for name, tensor in reference(view, weight.float()).items()}
    assert bits(made.tensors) == bits(wanted)
    assert made.rescaled == 0


@pytest.mark.parametrize("view, title", CASES)
def test_the_layout_says_ahead_what_is_made(view, title):
    weight = WEIGHTS[title]
    quantizer = View(view)
    (layout,) = quantizer.layout([(f"{NAME}.weight", "F32", weight.shape)]).values()
    made = quantizer.quantize(f"{NAME}.weight", weight).tensors
    assert list(layout) == list(made)
    for name, form in layout.items():
        assert tuple(made[name].shape) == form.shape and made[name].nbytes == form.nbytes
        assert made[name].is_contiguous() and made[name].device.type == "cpu"


@pytest.mark.parametrize("title", ["subnormal", "subnormal among others", "small"])
def test_fp8_blocks_too_small_for_the_library_become_zeros_and_not_no_numbers(title):
    weight = WEIGHTS[title].clone()
    codes = View("fp8-block").quantize(f"{NAME}.weight", weight).tensors[f"{NAME}.weight"]
    assert not codes.float().isnan().any()
    tiny = weight.abs() < 1e-36
    assert (codes.float()[tiny] == 0).all()
    if title == "subnormal":
        weight[0, :9] = 0
        assert reference("fp8-block", weight)["weight"].float().isnan().any(), "the library is mended: call it"


@pytest.mark.parametrize("title", [title for title, weight in WEIGHTS.items() if fits("fp8-block", weight)])
def test_fp8_blocks_with_powers_of_two_are_those_of_ue8m0(title):
    weight = WEIGHTS[title]
    made = View("fp8-block", scales="power-of-two").quantize(f"{NAME}.weight", weight).tensors
    wanted = reference("fp8-block", weight.float(), power_of_two=True)
    assert bits(made) == bits({f"{NAME}.{name}": tensor for name, tensor in wanted.items()})


@pytest.mark.parametrize("view", QUANTISED)
def test_bf16_and_the_same_weights_in_f32_give_the_same(view):
    weight = random(96, 160, 18).bfloat16()
    quantizer = View(view)
    assert bits(quantizer.quantize(f"{NAME}.weight", weight).tensors) == bits(
        quantizer.quantize(f"{NAME}.weight", weight.float()).tensors
    )


@pytest.mark.parametrize("view", QUANTISED)
def test_the_number_of_threads_and_the_bands_change_nothing(view, monkeypatch):
    weight = random(300, 704, 19)
    before = torch.get_num_threads()
    made = []
    try:
        for threads, elements in ((1, 1 << 20), (3, 1 << 20), (1, 20000)):
            monkeypatch.setattr("skerry.views.formats._BAND_ELEMENTS", elements)
            torch.set_num_threads(threads)
            made.append(bits(View(view).quantize(f"{NAME}.weight", weight).tensors))
    finally:
        torch.set_num_threads(before)
    assert made[0] == made[1] == made[2]


@pytest.mark.parametrize("view, dtype", [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_bf16_and_fp16_round_to_nearest_even_and_quantise_nothing(view, dtype):
    weight = random(65, 33, 20)
    made = View(view).quantize(f"{NAME}.weight", weight)
    assert bits(made.tensors) == bits({f"{NAME}.weight": weight.to(dtype)}) and made.blocks == 0
    norm = View(view).quantize("model.norm.weight", torch.ones(33))
    assert norm.tensors["model.norm.weight"].dtype == dtype


@pytest.mark.parametrize("view", ["mxfp8", "mxfp4"])
def test_every_exponent_of_a_group_keeps_its_scale_byte(view):
    exponents = torch.arange(-149, 127).float()
    weight = torch.exp2(exponents.double()).float().reshape(-1, 1).expand(-1, 32)
    first = View(view).quantize(f"{NAME}.weight", weight)
    again = View(view).quantize(f"{NAME}.weight", weight, first.tensors.__getitem__)
    assert bits(first.tensors) == bits(again.tensors)
    assert bits(first.tensors) == bits({f"{NAME}.{name}": tensor for name, tensor in reference(view, weight).items()})
