"""Patches written by earlier builds are read for ever, by the product and by the reference reader, to the same bytes.

SKERRY_BINARY names the product; without it, it is the dev preset's.
"""

import functools
import json
import os
import random
import re
import subprocess
from pathlib import Path

import golden_files
import golden_models
import pytest
from golden_files import HERE

import craft
import reference_checkpoint
import skerry_reference as reference
from reference_checkpoint import DTYPES, Refused, read_checkpoint

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


# What the patches must show, together: each method on each dtype that may have it, by the product and by the second
# encoder; blocks of one and of several tensors; the entropy coder with one and two pairs of states, each kind of gap
# table in each method, and all escapes.
SPARSE = ("sparse-flat", "sparse-magnitude")
FEATURES = (
    {f"sparse-flat {dtype.name}" for dtype in DTYPES}
    | {f"sparse-magnitude {dtype.name}" for dtype in DTYPES if dtype.magnitude_bits > 0}
    | {f"{method} over several tensors" for method in ("dense", *SPARSE)}
    | {f"{method} with {pairs} pairs" for method in SPARSE for pairs in (1, 2)}
    | {f"{method} where {gaps}" for method in SPARSE for gaps in ("all change", "most change", "few change")}
    | {f"{method}: escaped {what}" for method in SPARSE for what in ("gap, few change", "gap, most change", "value")}
    | {"sparse-magnitude where a class has no members", "sparse-magnitude where a class has no changes"}
    | {f"{tables} value tables of {classes} classes" for tables, classes in ((1, 1), (2, 3), (1, 16), (12, 16))}
)


def features_of(patch, layout, base, monkeypatch):
    """Decodes the sparse blocks, and takes notes."""
    notes = set()
    escape_of_table, gap_model, take = {}, reference.gap_model, reference.EntropyDecoder.take

    def noting_gap_model(members, changes):
        table, low_bits, escape = gap_model(members, changes)
        escape_of_table[id(table)] = escape
        kind = "all change" if members == changes else "most change" if escape == 7 else "few change"
        notes.add(f"{method} where {kind}")
        return table, low_bits, escape

    def noting_take(coder, which, table):
        symbol = take(coder, which, table)
        notes.add(f"{method} with {len(coder.states) // 2} pairs")
        if symbol == escape_of_table.get(id(table), 31):
            kind = {7: "gap, most change", 31: "gap, few change", None: "value"}[escape_of_table.get(id(table))]
            notes.add(f"{method}: escaped {kind}")
        return symbol

    monkeypatch.setattr(reference, "gap_model", noting_gap_model)
    monkeypatch.setattr(reference.EntropyDecoder, "take", noting_take)
    for placed in reference.place(patch, layout):
        block, dtype = placed.block, layout.tensors[placed.runs[0].ordinal].dtype
        method = reference.METHOD_NAMES[block.method]
        notes.add(f"{method} {dtype.name}")
        if len(placed.runs) > 1:
            notes.add(f"{method} over several tensors")
        if block.method == reference.DENSE:
            continue
        old = b"".join(base.tensors[run.ordinal][run.first_unit * dtype.unit :][: run.units * dtype.unit]
                       for run in placed.runs)  # fmt: skip
        reference.decode_block(placed, dtype, old, patch)
        if block.method == reference.SPARSE_MAGNITUDE:
            model, mask = patch.models[dtype.code], (1 << dtype.magnitude_bits) - 1
            cursor = reference.Cursor(block.payload, "payload")
            changes = [cursor.varint() for _ in model.lowest]
            members = {model.class_of(bits & mask) for bits in reference.values_of(old, dtype.magnitude_width)}
            if len(members) < len(changes):
                notes.add("sparse-magnitude where a class has no members")
            if any(changes[c] == 0 for c in members):
                notes.add("sparse-magnitude where a class has no changes")
            tables = len({id(table) for table in model.tables})
            notes.add(f"{tables} value tables of {len(changes)} classes")
    return notes


def test_the_golden_patches_cover_the_format(base_of, monkeypatch):
    seen, by_product = set(), set()
    for patch_name in PATCHES:
        name = patch_name.split("/")[0]
        patch = reference.read_patch((HERE / patch_name).read_bytes())
        base = read_checkpoint(base_of(name))
        if patch.structural:  # its tensors are others; what blocks it has
            for placed in reference.place(patch, reference.target_layout(patch, base.layout)):
                if len(placed.runs) > 1:
                    seen.add(f"{reference.METHOD_NAMES[placed.block.method]} over several tensors")
            continue
        with monkeypatch.context() as context:
            notes = features_of(patch, reference.target_layout(patch, base.layout), base, context)
        seen |= notes
        if not patch_name.endswith("foreign.skerry"):
            by_product |= notes
    assert FEATURES - seen == set()
    assert {f for f in FEATURES if re.match(r"sparse-\w+ [A-Z]", f)} - by_product == set()


# Patches small enough that every bit can be turned, and others of which some are.
EVERY_BIT = ["example_dense/patch", "example_sparse_flat/patch", "example_sparse_magnitude/patch",
             "example_packed_codes/patch", "A19_empty_and_scalar_tensors/foreign"]  # fmt: skip
SOME_BITS = ["every_dtype/foreign", "small_tensors/patch", "small_tensors/foreign", "magnitudes/patch",
             "packed_bytes/patch", "packed_bytes/foreign", "A14_dtype_and_A16_shape_change/foreign",
             "escaped_values/patch", "most_change/patch"]  # fmt: skip


def refused_or_the_same(damaged, base, files):
    """What a reader makes of a damaged patch; True where it refuses it."""
    try:
        made = reference.apply_patch(reference.read_patch(damaged), base)
    except Refused:
        return True
    assert reference.checkpoint_files(made) == files
    return False


def with_cached_digests(monkeypatch):
    """The digests of a base are the same each time."""
    monkeypatch.setattr(reference_checkpoint, "running_digest", functools.cache(reference_checkpoint.running_digest))


@pytest.mark.parametrize("name", EVERY_BIT + SOME_BITS)
def test_a_patch_with_one_bit_turned_is_refused_or_leads_to_the_same_bytes(name, base_of, monkeypatch):
    with_cached_digests(monkeypatch)
    base = read_checkpoint(base_of(name.split("/")[0]))
    patch = (HERE / f"{name}.skerry").read_bytes()
    files = reference.checkpoint_files(reference.apply_patch(reference.read_patch(patch), base))
    bits = range(8 * len(patch))
    if name in SOME_BITS:
        bits = random.Random(name).sample(bits, 200 if len(patch) < 2000 else 60)
    refused = 0
    for bit in bits:
        damaged = bytearray(patch)
        damaged[bit // 8] ^= 1 << bit % 8
        refused += refused_or_the_same(bytes(damaged), base, files)
    assert refused > 0.97 * len(bits)  # a zstd frame has a few that don't matter


@pytest.mark.parametrize("name", EVERY_BIT)
def test_a_bit_turned_below_right_checksums_is_refused_or_leads_to_the_same_bytes(name, base_of, monkeypatch):
    """Info, tables and directory; only the checksums of the blocks and the model digest are left to find it."""
    with_cached_digests(monkeypatch)
    base = read_checkpoint(base_of(name.split("/")[0]))
    patch = (HERE / f"{name}.skerry").read_bytes()
    files = reference.checkpoint_files(reference.apply_patch(reference.read_patch(patch), base))
    for kind in (reference.INFO, reference.TABLES, reference.DIRECTORY):
        content = dict(craft.take_apart(patch).sections).get(kind, b"")
        for bit in range(8 * len(content)):
            parts, damaged = craft.take_apart(patch), bytearray(content)
            damaged[bit // 8] ^= 1 << bit % 8
            parts.set(kind, bytes(damaged))
            refused_or_the_same(parts.assemble(), base, files)


@pytest.mark.parametrize(
    "name", ["example_sparse_flat", "example_dense", "example_sparse_magnitude", "example_packed_codes"]
)
def test_the_document_shows_the_bytes_that_the_program_writes(name):
    document = re.sub(" +", " ", (HERE.parents[1] / "docs/patch-format.md").read_text())
    parts = craft.take_apart((HERE / name / "patch.skerry").read_bytes())
    assert len(craft.blocks_of(parts.assemble())) == 1
    shown = [parts.payloads]
    if name != "example_dense":
        shown += [parts.get(reference.TABLES), parts.get(reference.DIRECTORY)]
    for content in shown:
        assert f"{content.hex(' ').upper()} " in document or f"{content.hex(' ').upper()}\n" in document
    if name == "example_sparse_flat":
        for digest in craft.info_fields(parts.get(reference.INFO)).values():
            if isinstance(digest, bytes):
                assert f"{digest[:2].hex(' ')} … {digest[-1:].hex()} ".upper() in document
        assert parts.assemble()[-28:].hex(" ").upper() in document


def test_every_golden_pair_is_still_what_the_generator_makes():
    for make in golden_models.NON_STRUCTURAL + golden_models.STRUCTURAL:
        assert golden_files.hashes(make()[1]) == EXPECTED[make.__name__]["files"], make.__name__
