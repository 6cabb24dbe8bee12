"""Broken patches whose block of U8 is of codes, two a byte: {name: patch}."""

import craft
import skerry_reference as reference
from craft import Classes, Parts, blocks_of, set_blocks, varint
from good_patch import BASE, CLASSES, GOOD, TARGET, edited
from reference_checkpoint import DTYPES
from skerry_reference import NAMES, TABLES

U8 = DTYPES[reference.U8_CODE]
CODES = Classes([0, 8])
A = 0  # the tensor, and its block


def good_codes() -> Parts:
    """The good patch with codes in a."""
    return craft.encode_patch(BASE, TARGET, cells_per_block={"F8_E5M2": 2}, dense={"c"},
                              classes={"U8": CODES} | CLASSES, spanning=True)  # fmt: skip


def with_models(edit) -> bytes:
    """`edit` is given the models by dtype code, as craft.encode_tables takes them."""
    parts = good_codes()
    patch = reference.read_patch(parts.assemble())
    classes = {dtype.code: ({"U8": CODES} | CLASSES).get(dtype.name) for dtype in DTYPES}
    models = {code: (classes[code], patch.models[code].tables) for code in patch.models}
    edit(models)
    parts.set(TABLES, craft.encode_tables(patch.tables, models))
    return parts.assemble()


def rank_beyond_a_code() -> bytes:
    """A step of rank 16, by a table that can code it."""
    table = [4096 - 30] + [1] * 30 + [0]
    strands = craft.strands_of(craft.PlannedBlock(0, 1, U8, False, BASE.tensors[A], TARGET.tensors[A]), CODES, 0)
    for strand in strands:
        strand.changed, strand.tokens, strand.value_table = [], [], table
    strands[0].changed, strands[0].tokens = [0], [(16, 0, 4)]
    raw = with_models(lambda models: models.update({reference.U8_CODE: (CODES, [table, table])}))
    parts, blocks = craft.take_apart(raw), blocks_of(raw)
    blocks[A].changes, blocks[A].payload = 1, craft.encode_sparse_magnitude(strands)
    blocks[A].checksum = craft.sparse_checksum([0], [b"\0"])
    set_blocks(parts, blocks)
    parts.remove(NAMES)  # they count more changes
    return parts.assemble()


def packed_bytes() -> dict[str, bytes]:
    patch = good_codes().assemble()
    assert reference.apply_patch(reference.read_patch(patch), BASE).tensors == TARGET.tensors
    block = blocks_of(patch)[A]
    strands = craft.strands_of(craft.PlannedBlock(0, 1, U8, False, BASE.tensors[A], TARGET.tensors[A]), CODES, 0)
    counts = [len(strand.changed) for strand in strands]
    head = b"".join(map(varint, counts))
    assert block.payload.startswith(head) and block.changes < sum(counts), "some bytes change both codes"
    stream = block.payload[len(head) :]

    def changed(**values) -> bytes:
        parts, blocks = good_codes(), blocks_of(patch)
        for key, value in values.items():
            setattr(blocks[A], key, value)
        set_blocks(parts, blocks)
        return parts.assemble()

    def without_the_bit(parts: Parts) -> bytes:
        parts.features = 0
        return parts.assemble()

    return {
        "codes_of_U8_without_the_feature_bit": without_the_bit(good_codes()),
        "the_feature_bit_codes_without_a_model_of_U8": edited(lambda p: setattr(p, "features", reference.CODES)),
        "codes_of_U8_without_a_model": with_models(lambda models: models.pop(reference.U8_CODE)),
        "a_class_of_U8_beyond_its_4_bits": with_models(
            lambda models: models.update({reference.U8_CODE: (Classes([0, 16]), models[reference.U8_CODE][1])})),
        "codes_of_U8_in_other_classes": with_models(
            lambda models: models.update({reference.U8_CODE: (Classes([0, 9]), models[reference.U8_CODE][1])})),
        "codes_of_U8_in_a_flat_block": changed(method=reference.SPARSE_FLAT),
        "bytes_of_U8_in_a_block_of_codes": changed(payload=blocks_of(GOOD)[A].payload),
        "k_of_U8_that_counts_codes": changed(changes=sum(counts)),
        "k_of_U8_of_one_less": changed(changes=block.changes - 1),
        "k_c_of_U8_above_the_members": changed(payload=varint(strands[0].members + 1) + varint(counts[1]) + stream),
        "k_c_of_U8_that_count_bytes": changed(payload=varint(block.changes - counts[1]) + varint(counts[1]) + stream),
        "a_rank_of_U8_beyond_a_code": rank_beyond_a_code(),
    }  # fmt: skip
