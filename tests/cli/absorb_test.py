"""skerry absorb: predictions from a checkpoint, beside what a small trainer then really changes."""

import json
import re

import numpy as np
import pytest

from checkpoint_files import Tensor, bf16, write_checkpoint
from program import CORRUPT, FAILED, OK, USAGE, skerry

LR = 1e-5
VIEWS = "bf16 fp16 fp8-tensor fp8-channel fp8-block mxfp8 mxfp4 nvfp4 nf4".split()
SHAPES = {
    "model.embed_tokens.weight": (256, 128),
    "model.layers.0.self_attn.q_proj.weight": (256, 256),
    "model.layers.0.mlp.up_proj.weight": (512, 256),
    "model.norm.weight": (256,),
}
WEIGHTS = sum(int(np.prod(shape)) for shape in SHAPES.values())


def rounded(masters):
    """Bits of BF16: to the nearest, ties to even."""
    bits = masters.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


class Trainer:
    """Adam on F32 masters that begin at the served numbers; half of each gradient is the same at every step."""

    def __init__(self):
        self.random = np.random.default_rng(1)
        self.masters, self.signal, self.momentum, self.square = {}, {}, {}, {}
        for name, shape in SHAPES.items():
            first = self.random.normal(1 if "norm" in name else 0, 0.02, shape).astype(np.float32)
            self.masters[name] = (rounded(first).astype(np.uint32) << 16).view(np.float32)
            self.signal[name] = self.random.normal(size=shape)
            self.momentum[name], self.square[name] = np.zeros(shape), np.zeros(shape)
        self.steps = 0

    def step(self):
        self.steps += 1
        for name, masters in self.masters.items():
            gradient = self.signal[name] + self.random.normal(size=masters.shape)
            self.momentum[name] = 0.9 * self.momentum[name] + 0.1 * gradient
            self.square[name] = 0.999 * self.square[name] + 0.001 * gradient**2
            mean, square = self.momentum[name] / (1 - 0.9**self.steps), self.square[name] / (1 - 0.999**self.steps)
            masters -= (LR * mean / np.sqrt(square)).astype(np.float32)

    def served(self):
        return {name: rounded(masters) for name, masters in self.masters.items()}

    def write(self, directory):
        write_checkpoint(directory, {name: bf16(bits) for name, bits in self.served().items()})
        return directory


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """A base, a board whose run has 12 versions of one step each, and how many weights of each tensor they changed."""
    directory = tmp_path_factory.mktemp("absorb")
    trainer, changed = Trainer(), []
    skerry("init", directory / "board", "--run", "grpo-1", "--base", trainer.write(directory / "base"))
    for step in range(1, 13):
        before = trainer.served()
        trainer.step()
        changed.append({name: int((bits != before[name]).sum()) for name, bits in trainer.served().items()})
        skerry("publish", directory / "board", trainer.write(directory / f"step-{step}"), "--run", "grpo-1", "--state",
               directory / "state", "--step", step)  # fmt: skip
    return directory, changed


def absorb(*arguments, expect=OK):
    ran = skerry("absorb", *arguments, "--json", expect=expect)
    return json.loads(ran.out)


def test_every_view_is_predicted_step_by_step(stage):
    directory, _ = stage
    report = absorb(directory / "base", "--lr", "1e-6")
    assert report["weights"] == WEIGHTS
    assert report["settings"]["masters"] == "served" and report["settings"]["steps"] == [10, 30]
    assert [view["view"] for view in report["views"]] == VIEWS
    for view in report["views"]:
        assert [step["step"] for step in view["steps"]] == list(range(1, 31))
        late = [step["density"] for step in view["steps"][9:]]
        assert view["mean"]["density"] == pytest.approx(np.mean(late))
        assert all(0 < step["density"] < 1 and step["patch_bytes"] > 235 for step in view["steps"])
        assert sum(kind["weights"] for kind in view["kinds"].values()) == WEIGHTS
        assert view["mean"]["patch_seconds"] == pytest.approx(view["mean"]["patch_bytes"] * 8 / 1e9)
        assert view["mean"]["checkpoint_seconds"] == pytest.approx(view["checkpoint_bytes"] * 8 / 1e9)
    assert report["measured"] == []


def test_the_boundary_is_half_a_unit_and_what_shows_falls_with_the_exponent(stage):
    directory, _ = stage
    view = absorb(directory / "base", "--lr", "1e-6", "--masters", "settled", "--view", "bf16")["views"][0]
    common = [one for one in view["exponents"] if one["weights"] > 2000 and one["exponent"] > -11]
    assert len(common) >= 4
    for one in common:
        assert one["boundary"] == pytest.approx(2.0 ** (one["exponent"] - 8))
    for one, next_one in zip(common, common[1:]):
        assert one["mean"] / next_one["mean"] == pytest.approx(2, rel=0.03)


def test_more_precision_shows_more(stage):
    directory, _ = stage
    views = absorb(directory / "base", "--lr", "1e-6", "--masters", "settled")["views"]
    density = {view["view"]: view["mean"]["density"] for view in views}
    assert density["fp16"] > 4 * density["bf16"] > 16 * density["fp8-block"] > 16 * density["mxfp4"] > 0


def test_options_reach_the_model(stage):
    directory, _ = stage

    def density(*options):
        return absorb(directory / "base", "--view", "bf16", *options)["views"][0]["mean"]["density"]

    usual = density("--lr", "1e-6", "--masters", "settled")
    assert density("--lr", "2e-6", "--masters", "settled") == pytest.approx(1.9 * usual, rel=0.1)  # small weights change anyway
    assert density("--lr", "1e-6", "--masters", "settled", "--signal", "1") > 1.5 * usual
    assert density("--lr", "1e-6", "--masters", "settled", "--beta1", "0.5") > 1.8 * usual
    assert density("--lr", "1e-6", "--masters", "settled", "--warmup", "60") < 0.6 * usual
    assert density("--lr", "1e-6", "--masters", "settled", "--steps", "1-5") > 1.5 * usual
    assert density("--lr", "1e-6", "--masters", "settled", "--eps", "1", "--gradient-norm", "1") < usual
    assert density("--lr", "1e-6", "--masters", "settled", "--optimizer", "adam") == usual


def test_codes_are_made_of_served_numbers_unless_told_otherwise(stage):
    directory, _ = stage

    def first(view, *options):
        return absorb(directory / "base", "--lr", "1e-6", "--view", view, *options)["views"][0]["steps"][0]

    # A served number seldom moves, and masters that begin on a boundary leave it with their first step.
    assert first("mxfp8", "--views-of", "masters")["quantised_changed"] > 10 * first("mxfp8")["quantised_changed"]
    assert first("bf16", "--views-of", "masters") == first("bf16")


def test_a_run_is_measured_beside_the_prediction_by_version_kind_and_exponent(stage):
    directory, changed = stage
    report = absorb(directory / "base", "--lr", LR, "--board", directory / "board", "--run", "grpo-1", "--view", "bf16")
    (run,) = report["measured"]
    assert (run["run"], run["view"]) == ("grpo-1", "bf16")
    assert [version["version"] for version in run["versions"]] == list(range(1, 13))
    for version, truth in zip(run["versions"], changed):
        assert version["changed"] == sum(truth.values())
        assert version["density"] == pytest.approx(sum(truth.values()) / WEIGHTS)
        assert version["kinds"]["MLP"]["density"] == pytest.approx(truth["model.layers.0.mlp.up_proj.weight"] / 512 / 256)
        assert version["kinds"]["norm"]["density"] == truth["model.norm.weight"] / 256
        assert sum(one["changed"] for one in version["exponents"]) <= version["changed"]
        assert version["predicted_density"] == pytest.approx(version["density"], rel=0.15)
        assert version["predicted_bytes"] < 1.3 * version["patch_bytes"]


def test_versions_can_be_chosen_and_left_unfetched(stage):
    directory, changed = stage
    report = absorb(
        directory / "base", "--lr", LR, "--board", directory / "board", "--run", "grpo-1", "--versions", "3-4", "--totals"
    )
    versions = report["measured"][0]["versions"]
    assert [(version["version"], version["steps"]) for version in versions] == [(3, [2, 3]), (4, [3, 4])]
    assert all("kinds" not in version for version in versions)
    assert versions[0]["changed"] == sum(changed[2].values())


def test_nothing_is_left_in_the_folder_for_temporary_files(stage, tmp_path, monkeypatch):
    directory, _ = stage
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    absorb(directory / "base", "--lr", LR, "--board", directory / "board", "--run", "grpo-1")
    assert list(tmp_path.iterdir()) == []


def test_tables_name_views_kinds_and_versions(stage):
    directory, _ = stage
    out = skerry("absorb", directory / "base", "--lr", LR, "--board", directory / "board", "--run", "grpo-1").out
    for text in (*VIEWS, "embedding", "attention", "MLP", "norm", "boundary", "steps 10-30", "predicted/measured", "2^-7"):
        assert text in out, text
    assert re.search(r"^mean .* x", out, re.M)


def test_the_report_is_one_file_that_asks_for_no_other(stage, tmp_path):
    directory, _ = stage
    page = tmp_path / "absorb.html"
    skerry("absorb", directory / "base", "--lr", LR, "--board", directory / "board", "--run", "grpo-1", "--html", page)
    html = page.read_text()
    assert html.count("<svg") == html.count("</svg>") == 3
    assert not re.search(r"(src|href|url|@import|https?:)", html)
    assert "nan" not in html and "inf" not in html.replace("information", "")
    assert html.count("<circle") > 12
    assert ">100 %<" in html and ">1000 %<" not in html
    for text in (*VIEWS, "bf16, measured", "Run grpo-1"):
        assert text in html, text


WRONG = {
    "no learning rate": ([], "--lr"),
    "a learning rate of nothing": (["--lr", "0"], "learning rate"),
    "a learning rate that is none": (["--lr", "fast"], "--lr"),
    "an unknown view": (["--lr", "1e-6", "--view", "fp3"], "fp3"),
    "an unknown optimizer": (["--lr", "1e-6", "--optimizer", "sgd"], "--optimizer"),
    "steps backwards": (["--lr", "1e-6", "--steps", "30-10"], "--steps"),
    "step zero": (["--lr", "1e-6", "--steps", "0-10"], "--steps"),
    "too many steps": (["--lr", "1e-6", "--steps", "1-1000"], "--steps"),
    "a link without unit": (["--lr", "1e-6", "--link", "100"], "--link"),
    "a board without run": (["--lr", "1e-6", "--board", "b"], "--run"),
    "versions without board": (["--lr", "1e-6", "--versions", "1-2"], "--versions"),
    "a beta of one": (["--lr", "1e-6", "--beta1", "1"], "betas"),
}


@pytest.mark.parametrize("use", WRONG)
def test_a_wrong_use_exits_with_2_and_names_what_is_wrong(use, stage):
    arguments, named = WRONG[use]
    ran = skerry("absorb", stage[0] / "base", *arguments, expect=USAGE)
    assert named in ran.err


def test_what_can_not_be_read_is_named(stage, tmp_path):
    directory, _ = stage
    assert "nowhere" in skerry("absorb", tmp_path / "nowhere", "--lr", "1e-6", expect=FAILED).err
    codes = np.zeros((4, 4), np.uint8)
    write_checkpoint(tmp_path / "codes", {"w": Tensor("U8", codes.shape, codes.tobytes())})
    assert "BF16, F16 or F32" in skerry("absorb", tmp_path / "codes", "--lr", "1e-6", expect=FAILED).err
    other = ["--lr", "1e-6", "--board", directory / "board", "--run", "other"]
    assert "other" in skerry("absorb", directory / "base", *other, expect=FAILED).err
    late = ["--lr", "1e-6", "--board", directory / "board", "--run", "grpo-1", "--versions", "12-13"]
    assert "13" in skerry("absorb", directory / "base", *late, expect=FAILED).err
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{")
    skerry("absorb", tmp_path / "broken", "--lr", "1e-6", expect=CORRUPT)
