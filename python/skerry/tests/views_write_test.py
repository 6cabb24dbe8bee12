"""Whole served checkpoints: files, config, and that they hold what `quantize` makes."""

import json
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
for library in ("transformers", "compressed_tensors", "bitsandbytes"):
    pytest.importorskip(library)

from safetensors import safe_open  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from views_models import linears, save, tiny_llama  # noqa: E402
from views_references import QUANTISED, bits  # noqa: E402

import skerry  # noqa: E402
from skerry.errors import Conflict, Corrupt, Invalid, NotFound, Unsupported  # noqa: E402
from skerry.views import NAMES, View  # noqa: E402
from skerry.views.__main__ import main  # noqa: E402


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    return save(tiny_llama(tied=True), tmp_path_factory.mktemp("single") / "ckpt")


@pytest.fixture(scope="module")
def sharded(tmp_path_factory):
    return save(tiny_llama(dtype=torch.float32), tmp_path_factory.mktemp("sharded") / "ckpt", max_shard_size="400KB")


def tensors_of(folder):
    return {name: tensor for file in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(file).items()}


def side_files(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".safetensors" and path.name not in ("config.json", INDEX)
    }


INDEX = "model.safetensors.index.json"


@pytest.mark.parametrize("view", NAMES)
@pytest.mark.parametrize("kind", ["single", "sharded"])
def test_a_checkpoint_holds_what_quantize_makes_of_each_tensor(view, kind, request, tmp_path):
    source, out = request.getfixturevalue(kind), tmp_path / "served"
    quantizer = View(view, dtype=None if view in ("bf16", "fp16") else "bf16")
    told = []
    written = quantizer.write(source, out, progress=lambda *report: told.append(report))
    given, made = tensors_of(source), tensors_of(out)
    wanted = {}
    for name, tensor in given.items():
        wanted.update(quantizer.quantize(name, tensor).tensors)
    assert bits(made) == bits(wanted)
    opened = skerry.Checkpoint(out)
    assert opened.nbytes == written.nbytes and len(opened) == written.tensors and not opened.warnings
    assert side_files(out) == side_files(source)
    assert sorted(path.name for path in out.glob("*.safetensors")) == sorted(
        path.name for path in source.glob("*.safetensors")
    )
    config = json.loads((out / "config.json").read_text())
    assert config["dtype"] == ("float16" if view == "fp16" else "bfloat16")
    assert ("quantization_config" in config) == (view in QUANTISED)
    assert written.converted == (14 if view in QUANTISED else 0) and written.rescaled == 0
    assert told[0] == ("write", 0, written.source_nbytes)
    assert told[-1] == ("write", written.source_nbytes, written.source_nbytes)
    assert [path.name for path in tmp_path.iterdir()] == ["served"]


def test_shards_stay_as_they_are_cut_and_the_index_names_all(sharded, tmp_path):
    out = tmp_path / "served"
    written = View("nvfp4").write(sharded, out)
    before, after = (json.loads((folder / INDEX).read_text()) for folder in (sharded, out))
    assert written.files == len(set(before["weight_map"].values())) > 2
    assert after["metadata"] == {**before["metadata"], "total_size": written.nbytes}
    for name, file in before["weight_map"].items():
        for served in View("nvfp4").layout([(name, "F32", tensors_of(sharded)[name].shape)])[name]:
            assert after["weight_map"][served] == file
    for file in set(after["weight_map"].values()):
        with safe_open(out / file, "pt") as opened:
            assert opened.metadata() == {"format": "pt"}
            assert {name for name, where in after["weight_map"].items() if where == file} == set(opened.keys())


def test_a_frozen_view_keeps_the_scales_of_the_version_before(single, tmp_path):
    model = tiny_llama(tied=True)
    with torch.no_grad():
        for module in linears(model).values():
            module.weight.add_(torch.randn(module.weight.shape) * 1e-3)
        model.model.layers[1].mlp.up_proj.weight[3, 5] = 50
    moved = save(model, tmp_path / "moved")
    view = View("fp8-block")
    first = view.write(single, tmp_path / "v0")
    second = view.write(moved, tmp_path / "v1", previous=tmp_path / "v0")
    assert first.rescaled == 0 and second.rescaled == 1 and second.blocks == first.blocks
    v0, v1 = tensors_of(tmp_path / "v0"), tensors_of(tmp_path / "v1")
    for name, scale in v0.items():
        if name.endswith("_scale_inv"):
            differing = int((scale != v1[name]).sum())
            assert differing == (1 if name == "model.layers.1.mlp.up_proj.weight_scale_inv" else 0)
    recomputed = View("fp8-block", scales="recompute").write(moved, tmp_path / "v1r", previous=tmp_path / "v0")
    assert recomputed.rescaled > 1


@pytest.mark.parametrize("view", QUANTISED)
def test_config_is_what_the_libraries_read(view, sharded, tmp_path):
    """Each parses it to what it writes itself for such a model."""
    from transformers import AutoConfig, BitsAndBytesConfig, CompressedTensorsConfig, FineGrainedFP8Config

    View(view, skip=("lm_head", "k_proj")).write(sharded, tmp_path / "served")
    config = AutoConfig.from_pretrained(tmp_path / "served").quantization_config
    left_alone = ["lm_head", "model.embed_tokens", *(f"model.layers.{layer}.self_attn.k_proj" for layer in (0, 1))]
    if view == "fp8-block":
        wanted = FineGrainedFP8Config(modules_to_not_convert=left_alone, weight_block_size=[128, 128]).to_dict()
        assert FineGrainedFP8Config.from_dict(config).to_dict() == wanted
        assert config["quant_method"] == "fp8" and config["fmt"] == "e4m3"
    elif view == "nf4":
        wanted = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_compute_dtype="bfloat16",
            llm_int8_skip_modules=left_alone,
        ).to_dict()
        assert BitsAndBytesConfig.from_dict(config).to_dict() == wanted
    else:
        parsed = CompressedTensorsConfig.from_dict(config).quantization_config
        assert parsed.ignore == left_alone and parsed.quantization_status == "compressed"
        (group,) = parsed.config_groups.values()
        assert group.targets == ["Linear"] and group.format == parsed.format
        assert (group.input_activations is not None) == view.startswith("fp8")
        assert group.weights.num_bits == (8 if "8" in view else 4)


def test_power_of_two_scales_are_named_in_the_config(single, tmp_path):
    View("fp8-block", scales="power-of-two").write(single, tmp_path / "served")
    config = json.loads((tmp_path / "served" / "config.json").read_text())["quantization_config"]
    assert config["scale_fmt"] == "ue8m0"
    scales = [t for name, t in tensors_of(tmp_path / "served").items() if name.endswith("_scale_inv")]
    assert scales and all(scale.dtype == torch.float8_e8m0fnu for scale in scales)


def test_what_can_not_be_written_is_refused_and_leaves_nothing(single, tmp_path):
    view = View("fp8-block")
    (tmp_path / "there").mkdir()
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "model.safetensors").write_bytes((single / "model.safetensors").read_bytes())
    with pytest.raises(Conflict, match="there is there already"):
        view.write(single, tmp_path / "there")
    with pytest.raises(Invalid, match="bare has no config.json"):
        view.write(bare, tmp_path / "out")
    (bare / "config.json").write_text("{")
    with pytest.raises(Corrupt, match="bare/config.json"):
        view.write(bare, tmp_path / "out")
    with pytest.raises(Invalid, match="model.safetensors is no directory"):
        view.write(single / "model.safetensors", tmp_path / "out")
    with pytest.raises(NotFound):
        view.write(single, tmp_path / "no" / "such" / "out")
    view.write(single, tmp_path / "served")
    with pytest.raises(Unsupported, match="quantised already, by fp8"):
        View("nf4").write(tmp_path / "served", tmp_path / "out")
    with pytest.raises(NotFound, match="weight_scale_inv"):
        view.write(single, tmp_path / "out", previous=single)
    model = tiny_llama(tied=True)
    model.model.layers[1].mlp.up_proj.weight.data[2, 3] = float("nan")
    with pytest.raises(Invalid, match=r"model.layers.1.mlp.up_proj.weight: the weight at \[2, 3\] is nan"):
        view.write(save(model, tmp_path / "nan"), tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bare", "nan", "served", "there"]


def test_the_command_writes_says_what_and_has_exit_codes(single, tmp_path, capsys):
    def command(*arguments):
        status = main([*map(str, arguments), "--json"])
        return status, *capsys.readouterr()

    status, out, err = command(single, "--view", "fp8-block", "-o", tmp_path / "served")
    said = json.loads(out)
    assert status == 0 and said["converted"] == 14 and said["path"] == str(tmp_path / "served") and not err
    View("fp8-block").write(single, tmp_path / "same")
    assert bits(tensors_of(tmp_path / "served")) == bits(tensors_of(tmp_path / "same"))
    status, out, err = command(single, "--view", "fp8-block", "-o", tmp_path / "served")
    assert status == 3 and json.loads(out)["error"]["code"] == "conflict" and "is there already" in err
    kept = ("--scales", "frozen", "--previous", tmp_path / "served", "--skip", "lm_head", "--skip", "layers.1")
    status, out, _ = command(single, "--view", "fp8-block", "-o", tmp_path / "other", *kept)
    assert status == 0 and json.loads(out)["converted"] == 7 and json.loads(out)["rescaled"] == 0
    status, _, err = command(single, "--view", "bf16", "--dtype", "fp16", "-o", tmp_path / "x")
    assert status == 2 and "fp16 for the view bf16" in err
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "config.json").write_text("{}")
    (tmp_path / "torn" / "model.safetensors").write_bytes((single / "model.safetensors").read_bytes()[:-1])
    assert command(tmp_path / "torn", "--view", "bf16", "-o", tmp_path / "x")[0] == 4
    assert main([str(single), "--view", "bf16", "-o", str(tmp_path / "bf16")]) == 0
    line = capsys.readouterr().out
    assert line.startswith(f"{tmp_path / 'bf16'}: bf16, 0 weights quantised") and "1.000 of the source's" in line


def test_the_command_helps():
    done = subprocess.run([sys.executable, "-m", "skerry.views", "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "Example:\n  python -m skerry.views ckpt/base --view fp8-block" in done.stdout
    for option in ("--view", "--scales", "--previous", "--skip", "--dtype", "--json"):
        assert option in done.stdout
    wrong = subprocess.run([sys.executable, "-m", "skerry.views", "x", "--view", "fp7"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "invalid choice: 'fp7'" in wrong.stderr
