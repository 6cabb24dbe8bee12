"""Patches written by earlier builds are read for ever, by the product and by the reference reader, to the same bytes.

SKERRY_BINARY names the product; without it, it is the dev preset's.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import golden_files
import golden_models
import pytest
from golden_files import HERE

import skerry_reference as reference
from reference_checkpoint import Refused, read_checkpoint

EXPECTED = json.loads((HERE / "expected.json").read_text())
PATCHES = [f"{name}/{path.name}" for name in EXPECTED for path in sorted((HERE / name).glob("*.skerry"))]
MUST_FAIL = sorted((HERE / "must_fail").glob("*.skerry"))
BINARY = Path(os.environ.get("SKERRY_BINARY", HERE.parents[1] / "build/dev/apps/skerry/skerry")).resolve()


@pytest.fixture(scope="module")
def base_of(tmp_path_factory):
    """Unpacks a golden base once."""
    unpacked = {}

    def unpack(name):
        if name not in unpacked:
            unpacked[name] = golden_files.unpack(HERE / name / "base", tmp_path_factory.mktemp("base") / name)
        return unpacked[name]

    return unpack


@pytest.mark.parametrize("patch", PATCHES)
def test_the_reference_reader_rebuilds_every_file(patch, base_of, tmp_path):
    name = patch.split("/")[0]
    reference.apply_files(base_of(name), HERE / patch, tmp_path / "out")
    assert golden_files.hashes(golden_files.read_files(tmp_path / "out")) == EXPECTED[name]["files"]


@pytest.mark.parametrize("patch", PATCHES)
def test_the_product_rebuilds_every_file(patch, base_of, tmp_path):
    name = patch.split("/")[0]
    base = base_of(name)
    before = golden_files.hashes(golden_files.read_files(base))
    done = subprocess.run([BINARY, "apply", base, HERE / patch, "-o", tmp_path / "out"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert golden_files.hashes(golden_files.read_files(tmp_path / "out")) == EXPECTED[name]["files"]
    assert golden_files.hashes(golden_files.read_files(base)) == before


@pytest.mark.parametrize("patch", PATCHES)
def test_section_info_says_what_was_counted(patch):
    read, expected = reference.read_patch((HERE / patch).read_bytes()), EXPECTED[patch.split("/")[0]]["info"]
    for key in ("base_model", "target_model", "base_layout", "target_layout", "base_tensors"):
        assert getattr(read, key).hex() == expected[key], key
    for key in ("units", "changes", "structural"):  # every unit of a new tensor is a change
        assert getattr(read, key) == expected[key], key


@pytest.mark.parametrize("path", MUST_FAIL, ids=lambda path: path.stem)
def test_what_a_later_version_wrote_is_refused_by_name(path, base_of, tmp_path):
    base = base_of("A1_nan_payloads")
    number = re.fullmatch(r"(?:feature_bit|version)_(\d+)", path.stem).group(1)
    with pytest.raises(Refused, match=rf"\b{number}\b"):
        reference.read_patch(path.read_bytes())

    done = subprocess.run([BINARY, "apply", base, path, "-o", tmp_path / "out"], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    named = rf"feature bits 0x{1 << int(number):x}\b" if "bit" in path.stem else rf"version {number}\b"
    assert re.search(named, done.stderr), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_A1_exactly_the_changed_bits_are_in_the_patch(base_of):
    """A NaN that stays the same is no change, although it is unequal to itself."""
    patch = reference.read_patch((HERE / "A1_nan_payloads" / "patch.skerry").read_bytes())
    base = read_checkpoint(base_of("A1_nan_payloads"))
    (placed,) = reference.place(patch, base.layout)
    positions, values = reference.decode_block(placed, base.layout.tensors[0].dtype, base.tensors[0], patch)
    changes = {p: v for p, v in zip(positions, values) if base.tensors[0][2 * p : 2 * p + 2] != v}
    assert changes == {0: b"\xc1\x7f", 2: b"\x80\x3f", 3: b"\xc1\xff"}


def in_one_file(directory, destination):
    """The same tensors in one file without an index, in another order."""
    checkpoint = read_checkpoint(directory)
    tensors = {t.name: (t.dtype.name, t.shape, data) for t, data in zip(checkpoint.layout.tensors, checkpoint.tensors)}
    files = golden_models.single(dict(reversed(tensors.items())), {"config.json": b"{}"})
    destination.mkdir()
    for name, content in files.items():
        (destination / name).write_bytes(content)
    return destination


@pytest.mark.parametrize("patch", ["C5_other_shards/patch.skerry", "C5_other_shards/foreign.skerry"])
def test_C5_a_patch_with_a_layout_makes_its_files_from_the_same_tensors_in_other_shards(patch, base_of, tmp_path):
    base = in_one_file(base_of("C5_other_shards"), tmp_path / "base")
    done = subprocess.run([BINARY, "apply", base, HERE / patch, "-o", tmp_path / "out"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    reference.apply_files(base, HERE / patch, tmp_path / "reference")
    for out in ("out", "reference"):
        assert golden_files.hashes(golden_files.read_files(tmp_path / out)) == EXPECTED["C5_other_shards"]["files"]


def test_C5_a_patch_without_a_layout_keeps_the_shards_of_the_base_that_it_is_applied_to(base_of, tmp_path):
    base = in_one_file(base_of("every_dtype"), tmp_path / "base")
    patch = HERE / "every_dtype" / "patch.skerry"
    done = subprocess.run([BINARY, "apply", base, patch, "-o", tmp_path / "out"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    reference.apply_files(base, patch, tmp_path / "reference")
    assert golden_files.read_files(tmp_path / "out") == golden_files.read_files(tmp_path / "reference")
    out = read_checkpoint(tmp_path / "out")
    assert out.layout.digest() == read_checkpoint(base).layout.digest()
    assert reference.model_digest(out.layout, out.tensors).hex() == EXPECTED["every_dtype"]["info"]["target_model"]


def test_every_golden_pair_is_still_what_the_generator_makes():
    for make in golden_models.NON_STRUCTURAL + golden_models.STRUCTURAL:
        assert golden_files.hashes(make()[1]) == EXPECTED[make.__name__]["files"], make.__name__
