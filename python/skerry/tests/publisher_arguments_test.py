"""What a Publisher refuses, when, and by which name."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from published import Model, base, model, publisher  # noqa: E402, F401
from skerry import Publisher  # noqa: E402
from skerry.errors import Invalid, NotFound  # noqa: E402
from skerry.names import NamesDiffer  # noqa: E402


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"board": None}, "board"),
        ({"board": ""}, "board"),
        ({"board": "s3://"}, "board"),
        ({"board": "s3:///prefix"}, "board"),
        ({"run": ""}, "run"),
        ({"run": None}, "run"),
        ({"run": "a b"}, "run"),
        ({"state": ""}, "state"),
        ({"level": "best"}, "level"),
        ({"threads": -1}, "threads"),
        ({"threads": True}, "threads"),
        ({"on_conflict": "win"}, "on_conflict"),
        ({"anchor_tail": -0.5}, "anchor_tail"),
        ({"anchor_tail": float("nan")}, "anchor_tail"),
        ({"base_mode": "move"}, "base_mode"),
        ({"frozen": [1]}, "frozen"),
        ({"rename": 3}, "rename"),
        ({"sign_key": 3}, "sign_key"),
        ({"trust_keys": 3}, "trust_keys"),
        ({"base": 3}, "base"),
    ],
)
def test_J2_what_makes_no_sense_is_refused_when_the_publisher_is_made_and_named(arguments, field, tmp_path):
    made = {"board": tmp_path / "board", "run": "r"} | arguments
    with pytest.raises(Invalid, match=f"^{field}: "):
        Publisher(made.pop("board"), made.pop("run"), **made)
    assert not (tmp_path / "board").exists()


def test_J2_a_run_that_is_not_there_needs_a_base(tmp_path, base):
    with pytest.raises(NotFound, match="run r is not on .*base="):
        Publisher(tmp_path / "board", "r")
    with pytest.raises(NotFound, match="run other is not on .*base="):
        Publisher(tmp_path / "board", "r", base=base, state=tmp_path / "s").close()
        Publisher(tmp_path / "board", "other")


@pytest.mark.parametrize("step", [-1, 1.5, True, "7"])
def test_J2_a_step_that_is_none_is_refused_before_anything_is_read(publisher, step):
    with pytest.raises(Invalid, match="^step: "):
        publisher.publish(iter(()), step=step)


def test_a_model_of_other_shapes_is_refused_with_both_sides(publisher):
    with pytest.raises(NamesDiffer, match=r"embed.weight: given with shape \[97, 32\], the checkpoint has \[97, 64\]"):
        publisher.publish(Model(width=32))


def test_an_array_of_numpy_as_wide_as_bf16_but_of_another_dtype_is_refused(publisher, model):
    given = {name: tensor.detach().numpy() for name, tensor in model.named_parameters()}
    given["embed.weight"] = given["embed.weight"].astype(np.float16)
    with pytest.raises(NamesDiffer, match="embed.weight: given as F16, the checkpoint has BF16"):
        publisher.publish(given)
