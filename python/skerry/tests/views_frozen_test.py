"""Scales over versions: which stay, which are others, and that no weight clips."""

import pytest

torch = pytest.importorskip("torch")
for library in ("transformers", "compressed_tensors", "bitsandbytes"):
    pytest.importorskip(library)

from views_references import QUANTISED, REACH, bits, meaning, reference, worst_rounding  # noqa: E402

from skerry.views import View  # noqa: E402

MODULE = "model.layers.3.self_attn.q_proj"
NAME = f"{MODULE}.weight"
# Blocks are cut at the edges: 128 x 128 in both directions, and the last of nf4.
SHAPE = (136, 160)
SHAPES = {"nf4": (135, 162)}
SCALE_NAMES = ("weight_scale_inv", "weight_scale", "weight.absmax")


def weights(view, seed, spread=0.05):
    shape = SHAPES.get(view, SHAPE)
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * spread


def scale_grid(tensors):
    (grid,) = [tensor for name, tensor in tensors.items() if name.removeprefix(MODULE + ".") in SCALE_NAMES]
    return grid.reshape(-1).view(torch.uint8).reshape(grid.numel(), -1)


def drifts(shape, seed):
    """How weights may move from version to version, from a step of training to whatever a user does."""
    generator = torch.Generator().manual_seed(seed)
    noise = lambda: torch.randn(shape, generator=generator)  # noqa: E731
    return {
        "a step": lambda w: w + 1e-6 * noise(),
        "many steps": lambda w: w + 1e-3 * noise(),
        "growth": lambda w: w * 1.02,
        "strong growth": lambda w: w * 30,
        "shrinking": lambda w: w / 30,
        "one weight": lambda w: w.clone().index_put_((torch.tensor(7), torch.tensor(11)), torch.tensor(9.0)),
        "one row": lambda w: torch.cat([w[:5] * 50, w[5:]]),
        "new weights": lambda w: noise() * torch.rand(1, generator=generator),
        "all zero": lambda w: w * 0,
    }


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("view", QUANTISED)
def test_frozen_scales_never_clip_and_others_than_before_are_counted(view, seed):
    quantizer, weight = View(view), weights(view, seed)
    made = quantizer.quantize(NAME, weight)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(seed)).tolist()
    steps = drifts(weight.shape, seed)
    kept = 0
    for title in ["a step", *[list(steps)[index] for index in order]]:
        weight = steps[title](weight)
        before, made = made, quantizer.quantize(NAME, weight, made.tensors.__getitem__)
        codes, scales = meaning(view, MODULE, made.tensors, weight.shape)
        exact = weight.double() / scales
        # A block whose scale is the library's own may round by more: its scales are rounded themselves.
        recomputed = View(view, scales="recompute").quantize(NAME, weight).tensors
        own = meaning(view, MODULE, recomputed, weight.shape)[1] == scales
        within = exact.abs() <= REACH[view] * (1 + 1e-6)
        assert (within | own).all(), (title, exact.abs().max())
        error = (codes - exact).abs()
        assert ((error <= worst_rounding(view, exact) * (1 + 1e-6) + 1e-7) | own).all(), title
        differ = (scale_grid(made.tensors) != scale_grid(before.tensors)).any(dim=1)
        shared = f"{MODULE}.weight_global_scale"
        if shared in made.tensors and made.tensors[shared] != before.tensors[shared]:
            assert made.rescaled == made.blocks
        else:
            assert made.rescaled == int(differ.sum())
        assert made.blocks == len(differ)
        kept += made.blocks - made.rescaled
    assert kept > 0


@pytest.mark.parametrize("view", QUANTISED)
def test_a_step_of_training_changes_no_frozen_scale_and_recompute_changes_most(view):
    weight = weights(view, 5)
    stepped = weight + 1e-6 * weights(view, 6, spread=1.0)
    frozen, recompute = View(view), View(view, scales="recompute")
    first = frozen.quantize(NAME, weight).tensors
    assert frozen.quantize(NAME, stepped, first.__getitem__).rescaled == 0
    if view in ("fp8-tensor", "fp8-channel", "fp8-block", "nf4"):
        made = recompute.quantize(NAME, stepped, first.__getitem__)
        assert made.rescaled > made.blocks / 2
        assert bits(made.tensors) == bits(recompute.quantize(NAME, stepped).tensors)


@pytest.mark.parametrize("view", QUANTISED)
def test_where_every_scale_has_to_go_frozen_is_the_library_s_own(view):
    weight = weights(view, 7)
    small = View(view).quantize(NAME, weight * 1e-6)
    made = View(view).quantize(NAME, weight, small.tensors.__getitem__)
    assert made.rescaled == made.blocks
    assert bits(made.tensors) == bits({f"{MODULE}.{name}": tensor for name, tensor in reference(view, weight).items()})


@pytest.mark.parametrize("view", QUANTISED)
def test_unchanged_weights_keep_every_byte(view):
    for weight in (weights(view, 8), weights(view, 8).bfloat16()):
        first = View(view).quantize(NAME, weight)
        again = View(view).quantize(NAME, weight, first.tensors.__getitem__)
        assert again.rescaled == 0 and bits(again.tensors) == bits(first.tensors)


def test_fp8_weights_on_the_boundary_of_two_codes_keep_the_one_they_have():
    """BF16 weights lie there now and then; the factor that blocks are multiplied by is not quite the same later. It is
    where the largest weight is 132 or 240 times a power of two, and then three quarters of it are on a boundary.
    """
    weight = weights("fp8-block", 13).bfloat16()
    weight[3, 5], weight[20:100, 7] = 240 / 256, 180 / 256
    first = View("fp8-block").quantize(NAME, weight).tensors
    codes, scale = first[NAME], first[f"{MODULE}.weight_scale_inv"]
    factors = (1.0 / scale).repeat_interleave(128, 0).repeat_interleave(128, 1)[: SHAPE[0], : SHAPE[1]]
    without_memory = (weight.float() * factors).clamp(-448, 448).to(torch.float8_e4m3fn)
    ties = without_memory.view(torch.uint8) != codes.view(torch.uint8)
    assert ties[20:100, 7].all(), "the weights above tell nothing any more"
    moved = torch.where(ties, weight.float() * 1.001, weight.float())
    back = torch.where(ties, weight.float() * 0.999, weight.float())
    for one in (moved, back):  # a weight that leaves the boundary has the code of its side
        made = View("fp8-block").quantize(NAME, one, first.__getitem__).tensors[NAME]
        assert torch.equal(made.float(), (one * factors).clamp(-448, 448).to(torch.float8_e4m3fn).float())


@pytest.mark.parametrize("view", QUANTISED)
def test_weights_that_were_zero_do_not_vanish_under_the_scale_of_zeros(view):
    weight = weights(view, 9, spread=1e-4)
    zeros = View(view).quantize(NAME, torch.zeros_like(weight))
    made = View(view).quantize(NAME, weight, zeros.tensors.__getitem__)
    assert bits(made.tensors) == bits({f"{MODULE}.{name}": tensor for name, tensor in reference(view, weight).items()})
    back = View(view).quantize(NAME, torch.zeros_like(weight), made.tensors.__getitem__)
    assert back.rescaled == 0, "zeros fit every scale"


@pytest.mark.parametrize("view", QUANTISED)
def test_a_scale_that_is_none_is_made_anew(view):
    weight = weights(view, 10)
    first = View(view).quantize(NAME, weight).tensors
    broken = dict(first)
    for name, tensor in first.items():
        if name.removeprefix(MODULE + ".") in SCALE_NAMES:
            flat = tensor.clone().reshape(-1)
            flat[0] = 255 if tensor.dtype == torch.uint8 else float("nan")
            broken[name] = flat.reshape(tensor.shape)
    made = View(view).quantize(NAME, weight, broken.__getitem__)
    grids = scale_grid(made.tensors), scale_grid(first)
    assert made.rescaled == 1 and torch.equal(*grids)


@pytest.mark.parametrize("view", QUANTISED)
def test_powers_of_two_are_such_and_no_less_than_the_library_s_and_do_not_depend_on_the_past(view):
    rows = torch.Generator().manual_seed(1)
    weight = weights(view, 11)
    weight *= torch.exp2(torch.randint(-9, 9, (weight.shape[0], 1), generator=rows).float())
    quantizer = View(view, scales="power-of-two")
    made = quantizer.quantize(NAME, weight)
    codes, scales = meaning(view, MODULE, made.tensors, weight.shape)
    mantissa = torch.frexp(scales)[0]
    assert (mantissa == 0.5).all()
    exact = weight.double() / scales
    assert (exact.abs() <= REACH[view] * (1 + 1e-6)).all()
    assert ((codes - exact).abs() <= worst_rounding(view, exact) * (1 + 1e-6)).all()
    if view not in ("nvfp4",):  # whose global scale is another
        own = meaning(view, MODULE, View(view, scales="recompute").quantize(NAME, weight).tensors, weight.shape)[1]
        assert (scales >= own * (1 - 1e-6)).all() and (scales < own * 2).all()
    other = quantizer.quantize(NAME, weight * 3)
    after = quantizer.quantize(NAME, weight, other.tensors.__getitem__)
    assert bits(after.tensors) == bits(made.tensors)
    assert after.rescaled == after.blocks


def test_nvfp4_keeps_its_global_scale_while_groups_have_room_and_scales_all_anew_beyond():
    weight = weights("nvfp4", 12)
    first = View("nvfp4").quantize(NAME, weight)
    shared = f"{MODULE}.weight_global_scale"
    larger = View("nvfp4").quantize(NAME, weight * 1.1, first.tensors.__getitem__)
    assert larger.tensors[shared] == first.tensors[shared] and larger.rescaled < larger.blocks
    beyond = View("nvfp4").quantize(NAME, weight * 1.2, first.tensors.__getitem__)
    assert beyond.tensors[shared] < first.tensors[shared] and beyond.rescaled == beyond.blocks
    wanted = {f"{MODULE}.{name}": tensor for name, tensor in reference("nvfp4", weight * 1.2).items()}
    assert bits(beyond.tensors) == bits(wanted)
