#!/usr/bin/env python3
"""Makes the golden files anew. Do this only when the format changes; what is committed must stay readable.

    python make_golden.py --binary build/release/apps/skerry/skerry

For each pair of golden_models.py: `NAME/base/`, and `NAME/patch.skerry` by the binary; `NAME/fast.skerry` where level
`fast` makes another one; for some also `NAME/foreign.skerry` by the encoder in tests/reference, which writes what the
format allows and the binary never does.
`must_fail/` holds patches for `A1_nan_payloads` that every reader of version 1 refuses. `expected.json` holds the
SHA-256 of each file of each target, and the numbers that section info must show, counted without the binary's help.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import golden_files
import golden_models
from golden_files import HERE

import craft
import skerry_reference as reference
from craft import Classes
from reference_checkpoint import DTYPES, model_digest, read_checkpoint

U8 = DTYPES[1]
SIXTEEN = Classes([0, *(1 << i for i in range(15))], frozenset({2, 3, 9, 15}))

# How the second encoder does it.
FOREIGN = {
    "every_dtype": dict(
        cells_per_block=64, dense={"layer.f64", "layer.f8_e4m3"}, escape_every=3,
        classes={"F16": SIXTEEN, "BF16": Classes([0]), "F32": Classes([0, 1 << 30, (1 << 31) - 1]),
                 "F8_E8M0": Classes([0, 1, 255]), "F4": Classes([*range(8)], frozenset({1, 4, 5}))}),
    "A8_gaps_around_two_to_the_16": dict(cells_per_block=2),
    "A19_empty_and_scalar_tensors": dict(classes={"F32": Classes([0, 1])}),
    "C5_other_shards": dict(dense={"layer.3.weight"}),
    "every_step_size": dict(escape_every=10, classes={"F32": Classes([0, 0x3C000100])}),
    "several_blocks": dict(dense={"sparse"}, classes={"F32": Classes([0]), "BF16": Classes([0, 0x3C00])}),
    "more_than_64_cells": dict(cells_per_block=64),
    "side_files": dict(),
    "magnitudes": dict(
        escape_every=4,
        classes={"F64": Classes([0, 1, 2**63 - 1]), "F8_E5M2": Classes([0, *range(1, 16)], frozenset(range(1, 16)))}),
    "small_tensors": dict(cells_per_block=7, spanning=True, dense={"experts.5.down", "experts.6.down"},
                          classes={"BF16": Classes([0, 8000, 20000], frozenset({1}))}),
    "small_and_large_tensors": dict(cells_per_block=3, spanning=True, classes={"F8_E5M2": Classes([0, 127])}),
    "packed_bytes": dict(cells_per_block=64, spanning=True, escape_every=5, classes={"U8": Classes([*range(16)])}),
    "most_change": dict(dense={"I32"}, classes={"F32": Classes([0])}, escape_every=9),
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True)
    binary = parser.parse_args().binary.resolve()

    expected = {}
    for make in golden_models.NON_STRUCTURAL + golden_models.STRUCTURAL:
        structural = make in golden_models.STRUCTURAL
        expected[make.__name__] = make_case(make, structural, binary)
    make_must_fail()
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")


def make_case(make, structural: bool, binary: Path) -> dict:
    name = make.__name__
    old, new = make()
    shutil.rmtree(HERE / name, ignore_errors=True)
    golden_files.store(HERE / name / "base", old)
    with tempfile.TemporaryDirectory() as temporary:
        base, target = Path(temporary) / "base", Path(temporary) / "target"
        for directory, files in ((base, old), (target, new)):
            for path, content in files.items():
                (directory / path).parent.mkdir(parents=True, exist_ok=True)
                (directory / path).write_bytes(content)
        command = [binary, "diff", base, target] + ["--structural"] * structural
        for patch, level in (("patch", "compact"), ("fast", "fast")):
            out = HERE / name / f"{patch}.skerry"
            subprocess.run([*command, "-o", out, "--level", level], check=True, stdout=subprocess.DEVNULL)
        if out.read_bytes() == (HERE / name / "patch.skerry").read_bytes():
            out.unlink()
        before, after = read_checkpoint(base), read_checkpoint(target)
    foreign = HERE / name / "foreign.skerry"
    if name in FOREIGN:
        foreign.write_bytes(craft.encode_patch(before, after, names=False, **FOREIGN[name]).assemble())
    elif structural:
        foreign.write_bytes(with_new_tensors_in_one_block((HERE / name / "patch.skerry").read_bytes(), after))
    return {"files": golden_files.hashes(new), "info": info_of(before, after)}


def with_new_tensors_in_one_block(patch: bytes, after) -> bytes:
    """The new tensors of U8, which our encoder gives a block a cell, in one block."""
    parts, blocks, layout = craft.take_apart(patch), craft.blocks_of(patch), after.layout
    placed = reference.place(reference.read_patch(patch), layout)
    data, merged = b"", []
    for i, (block, (run,)) in enumerate(zip(blocks, (p.runs for p in placed))):
        tensor = layout.tensors[run.ordinal]
        if tensor.dtype.name == "U8" and block.method == reference.DENSE:
            data += after.tensors[run.ordinal][run.first_unit : run.first_unit + run.units]
            merged.append(i)
    assert merged == list(range(merged[0], merged[-1] + 1)) and len({placed[i].runs[0].ordinal for i in merged}) > 1
    one = craft.Block(blocks[merged[0]].gap, len(merged), reference.DENSE, len(data), craft.encode_dense(data, U8),
                      reference.xxh3(data) & 0xFFFFFFFF)  # fmt: skip
    craft.set_blocks(parts, blocks[: merged[0]] + [one] + blocks[merged[-1] + 1 :])
    return parts.assemble()


def info_of(before, after) -> dict:
    old_of = {tensor.type(): data for tensor, data in zip(before.layout.tensors, before.tensors)}
    changes, structural = 0, before.layout.tensors_digest() != after.layout.tensors_digest()
    for tensor, new in zip(after.layout.tensors, after.tensors):
        old = old_of.get(tensor.type())
        changes += tensor.units if old is None else len(craft.differing(old, new, tensor.dtype.unit))
    return {
        "base_model": model_digest(before.layout, before.tensors).hex(),
        "target_model": model_digest(after.layout, after.tensors).hex(),
        "base_layout": before.layout.digest().hex(),
        "target_layout": after.layout.digest().hex(),
        "base_tensors": before.layout.tensors_digest().hex(),
        "units": after.layout.units,
        "changes": changes,
        "structural": structural,
    }


def make_must_fail() -> None:
    patch = (HERE / "A1_nan_payloads" / "patch.skerry").read_bytes()
    folder = HERE / "must_fail"
    folder.mkdir(exist_ok=True)
    for bit in (3, 7, 63):
        parts = craft.take_apart(patch)
        parts.features |= 1 << bit
        (folder / f"feature_bit_{bit}.skerry").write_bytes(parts.assemble())
    for version in (0, 2, 4711):
        parts = craft.take_apart(patch)
        parts.version = version
        (folder / f"version_{version}.skerry").write_bytes(parts.assemble())
    reference.read_patch(patch)


if __name__ == "__main__":
    sys.exit(main())
