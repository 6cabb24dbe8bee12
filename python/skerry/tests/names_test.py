"""How a trainer's names become the checkpoint's. No torch: arrays of numpy."""

import pickle

import numpy as np
import pytest

from recording_capture import RecordingCapture
from skerry.errors import Invalid
from skerry.names import Names, NamesDiffer, stripped_names
from skerry.weights import Weights, check, take

CHECKPOINT = {
    "model.embed_tokens.weight": ("F32", (2, 3)),
    "model.layers.0.mlp.weight": ("BF16", (3,)),
    "model.norm.weight": ("F32", ()),
}


def arrays(prefix="", **changes):
    made = {
        "model.embed_tokens.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
        "model.layers.0.mlp.weight": np.ones(3, np.float32),
        "model.norm.weight": np.array(7, np.float32),
    }
    return {prefix + name: array for name, array in (made | changes).items() if array is not None}


def taken(weights, names=None, checkpoint=CHECKPOINT):
    capture = RecordingCapture(checkpoint)
    take(capture, Weights(weights), names or Names())
    return capture


def refused(weights, names=None, checkpoint=CHECKPOINT):
    capture = RecordingCapture(checkpoint)
    with pytest.raises(NamesDiffer) as caught:
        take(capture, Weights(weights), names or Names())
    return caught.value, capture


@pytest.mark.parametrize(
    "given",
    [
        "model.layers.0.mlp.weight",
        "module.model.layers.0.mlp.weight",
        "_orig_mod.module.model.layers.0.mlp.weight",
        "module._orig_mod.model.layers.0._orig_mod.mlp.weight",
        "_fsdp_wrapped_module.model.layers.0._fsdp_wrapped_module._checkpoint_wrapped_module.mlp.weight",
        "base_model.model.model.layers.0.mlp.weight",
        "module.base_model.model._orig_mod.model.layers.0.mlp.weight",
    ],
)
def test_prefixes_of_wrappers_are_stripped(given):
    weights = arrays(**{"model.layers.0.mlp.weight": None}) | {given: np.ones(3, np.float32)}
    assert taken(weights).taken_names == set(CHECKPOINT)


def test_a_name_that_only_looks_like_a_wrappers_is_kept():
    assert stripped_names("model._orig_module.weight") == ["model._orig_module.weight"]
    assert stripped_names("encoder.module.weight") == ["encoder.module.weight"]
    checkpoint = {"module.weight": ("F32", (1,)), "weight": ("F32", (1,))}
    capture = taken({"module.weight": np.float32([1]), "weight": np.float32([2])}, checkpoint=checkpoint)
    assert capture.values("module.weight") == [1.0] and capture.values("weight") == [2.0]


@pytest.mark.parametrize(
    "rename",
    [
        lambda name: name.replace("transformer.", "model."),
        {"transformer.norm.weight": "model.norm.weight"},
    ],
)
def test_rename_is_applied_after_the_prefixes_are_stripped(rename):
    weights = arrays(**{"model.norm.weight": None}) | {"module.transformer.norm.weight": np.array(7, np.float32)}
    assert taken(weights, Names(rename=rename)).values("model.norm.weight") == [7.0]


def test_F13_missing_and_unmapped_names_are_listed_together_and_nothing_is_read():
    base = {f"t{i}": ("F32", (1,)) for i in range(10)}
    given = {f"t{i}": np.float32([i]) for i in range(7)} | {"extra": np.float32([1])}
    error, capture = refused(given, checkpoint=base)
    assert error.missing == ["t7", "t8", "t9"] and error.unmapped == ["extra"]
    assert "3 not given: t7, t8, t9" in str(error) and "1 not in the checkpoint: extra" in str(error)
    assert "frozen=" in str(error) and "ignore=" in str(error)
    assert capture.calls == []
    again = pickle.loads(pickle.dumps(error))
    assert again.missing == error.missing and str(again) == str(error) and isinstance(again, Invalid)


def test_F13_declared_frozen_tensors_stay_and_are_not_read_even_where_they_are_given():
    base = {"visual.a": ("F32", (1,)), "visual.b": ("F32", (1,)), "text": ("F32", (1,))}
    given = {"text": np.float32([1]), "visual.a": np.float32([2])}
    assert taken(given, Names(frozen=["visual.*"]), base).taken_names == {"text"}


def test_ignored_names_are_left_out_only_where_the_checkpoint_lacks_them():
    weights = arrays() | {"rotary.inv_freq": np.float32([1])}
    assert taken(weights, Names(ignore="*")).taken_names == set(CHECKPOINT)
    error, _ = refused(weights, Names(ignore=["other.*"]))
    assert error.unmapped == ["rotary.inv_freq"] and not error.missing


def test_a_declared_tie_works_in_both_directions():
    tied = {"lm_head.weight": "model.embed_tokens.weight"}
    # The checkpoint has both, the trainer gives one.
    both = CHECKPOINT | {"lm_head.weight": ("F32", (2, 3))}
    error, _ = refused(arrays(), checkpoint=both)
    assert error.missing == ["lm_head.weight"]
    capture = taken(arrays(), Names(tied=tied), both)
    assert capture.values("lm_head.weight") == capture.values("model.embed_tokens.weight") == [0, 1, 2, 3, 4, 5]
    # The trainer gives both, the checkpoint has one.
    weights = arrays() | {"lm_head.weight": np.zeros((2, 3), np.float32)}
    error, _ = refused(weights)
    assert error.unmapped == ["lm_head.weight"]
    assert taken(weights, Names(tied=tied)).taken_names == set(CHECKPOINT)
    # Both have both.
    assert taken(weights, Names(tied=tied), both).taken_names == set(both)


def test_a_tie_of_a_name_that_nobody_knows_is_an_error():
    with pytest.raises(Invalid, match="no tensor 'model.embed.weight'"):
        taken(arrays(), Names(tied={"model.norm.weight": "model.embed.weight"}))


def test_a_tensor_that_is_given_twice_is_an_error():
    error, _ = refused(arrays() | {"module.model.norm.weight": np.array(8, np.float32)})
    assert error.unlike == [
        "model.norm.weight was given twice, as 'model.norm.weight' and as 'module.model.norm.weight'"
    ]


def test_other_shapes_and_dtypes_are_all_listed_with_both_sides():
    weights = arrays(
        **{
            "model.embed_tokens.weight": np.zeros((3, 2), np.float32),
            "model.layers.0.mlp.weight": np.zeros(3, np.float16),
            "model.norm.weight": np.zeros((), np.float64),
        }
    )
    error, capture = refused(weights)
    assert error.unlike == [
        "model.embed_tokens.weight: given with shape [3, 2], the checkpoint has [2, 3]",
        "model.layers.0.mlp.weight: given as F16, the checkpoint has BF16",
        "model.norm.weight: given as F64, the checkpoint has F32",
    ]
    assert not error.missing and capture.calls == []


def test_names_of_another_depth_come_with_the_rename_that_would_fit():
    error, _ = refused({name.removeprefix("model."): array for name, array in arrays().items()})
    assert "rename=lambda name: 'model.' + name would fit 3 of them" in str(error)
    error, _ = refused(arrays("policy."))
    assert "rename=lambda name: name.removeprefix('policy.') would fit 3 of them" in str(error)


def test_a_long_list_of_names_is_shortened_in_the_message_and_whole_in_the_field():
    error, _ = refused({}, checkpoint={f"t{i}": ("F32", (1,)) for i in range(1000)})
    assert len(error.missing) == 1000 and "1000 not given: t0, t1," in str(error) and "and 980 more" in str(error)
    assert len(str(error)) < 1000


def test_an_iterator_is_read_once_and_its_names_are_checked_at_its_end():
    read = []

    def pairs():
        for name, array in arrays(**{"model.norm.weight": None}).items():
            read.append(name)
            yield name, array

    error, capture = refused(pairs())
    assert len(read) == 2 and error.missing == ["model.norm.weight"]
    assert "tied" in str(error)  # what named_parameters() leaves out
    assert capture.taken_names == set(read)


def test_check_finds_the_same_and_reads_no_array():
    capture = RecordingCapture(CHECKPOINT)
    check(capture, Weights(arrays()), Names())
    with pytest.raises(NamesDiffer, match="1 not given: model.norm.weight"):
        check(capture, Weights(arrays(**{"model.norm.weight": None})), Names())
    assert capture.calls == []


@pytest.mark.parametrize(
    "weights", [None, 7, np.zeros(3), b"abc", [("a", 1)], [np.zeros(3)], [(1, np.zeros(3))], ["ab"]]
)
def test_what_is_no_weights_is_refused_by_its_kind(weights):
    with pytest.raises(Invalid):
        taken(weights)


def test_rules_that_make_no_sense_are_refused_when_they_are_made():
    with pytest.raises(Invalid, match="^frozen: 7 "):
        Names(frozen=[7])
    with pytest.raises(Invalid, match="^ignore: ''"):
        Names(ignore=[""])
    with pytest.raises(Invalid, match="^rename: int"):
        Names(rename=7)
    with pytest.raises(Invalid, match="^rename: made None of"):
        taken(arrays(), Names(rename=lambda name: None))


@pytest.mark.parametrize("shape", [(5, 7, 3), (64,), (1, 1), (0, 4), ()])
def test_numpy_arrays_of_any_strides_arrive_in_row_major_order(shape, monkeypatch):
    monkeypatch.setattr("skerry.weights._PIECE_BYTES", 40)
    dense = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    forms = [dense, np.broadcast_to(dense, shape), dense.astype(">f4")]
    if dense.ndim > 1:
        forms.append(np.asfortranarray(dense))
        forms.append(np.repeat(dense, 2, axis=-1)[..., ::2])
        forms.append(np.ascontiguousarray(dense[::-1])[::-1])
    for form in forms:
        capture = taken({"a": form}, checkpoint={"a": ("F32", shape)})
        assert capture.values("a") == dense.reshape(-1).tolist()
        assert all(elements * 4 <= 40 for _, _, elements, _ in capture.calls) or form.flags.c_contiguous


def test_numpy_arrays_that_are_not_rounded_arrive_as_bits():
    checkpoint = {"h": ("F16", (2,)), "b": ("BOOL", (2,)), "i": ("I64", (1,))}
    weights = {"h": np.float16([1, -0.0]), "b": np.array([True, False]), "i": np.array([-1])}
    capture = taken(weights, checkpoint=checkpoint)
    assert capture.values("h") == [0x3C00, 0x8000]
    assert capture.values("b") == [1, 0]
    assert capture.values("i") == [0xFFFFFFFFFFFFFFFF]
