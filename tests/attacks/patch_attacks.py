"""Broken patches for one small model: {name: (bytes, exit status)}. Each is the good patch with one thing wrong, and
all checksums right again, so that it is this thing that a reader must find."""

import copy
import hashlib
import json
import struct

import zstandard

import craft
import skerry_reference as reference
from craft import Block, Classes, Parts, Strand, blocks_of, compressed, over_long_varint, set_blocks, set_info, text, varint
from golden_models import shard
from reference_checkpoint import DTYPES, Checkpoint, Layout, model_digest, running_digest
from skerry_reference import DIRECTORY, INFO, LAYOUT, NAMES, SIDE_FILES, TABLES

CORRUPT = 4  # the exit status that every one of them gets
WIDE = 70_000  # units of tensor b: two cells
SKIPPABLE = struct.pack("<II", 0x184D2A50, 4) + b"junk"


# ---------------------------------------------------------------------------------------------------------------------
# The model and the good patch


def tensors(step: int):
    b = bytearray(b"\x00\x3c" * WIDE)
    for position in range(0, WIDE, 997):
        b[2 * position] += step
    a = bytes((i + (step if i % 7 == 0 else 0)) % 256 for i in range(300))
    # All of small, most of middle and few of large magnitude.
    d = bytes((37 * i + step * (37 * i % 128 < 32 or (37 * i % 128 < 64 and i % 4 != 0) or i % 9 == 0)) % 256
              for i in range(400))  # fmt: skip
    e = bytes((29 * i + 16 * step * (i % 10 == 0) + step * (i % 15 == 0)) % 256 for i in range(100))
    g = bytes((5 * i + (step if i % 6 == 1 else 0)) % 256 for i in range(50))
    return {"a": ("U8", [300], a), "b": ("BF16", [WIDE], bytes(b)),
            "c": ("F32", [16], bytes(i + 9 * step for i in range(64))), "d": ("F8_E4M3", [400], d), "e": ("F4", [200], e),
            "g.0": ("F8_E5M2", [20], g[:20]), "g.1": ("F8_E5M2", [30], g[20:]), "z": ("U8", [0], b"")}  # fmt: skip


def files(step: int) -> dict[str, bytes]:
    return {"model.safetensors": shard(tensors(step)), "config.json": b'{"step": %d}\n' % step}


def checkpoint(model_files) -> Checkpoint:
    raw = model_files["model.safetensors"]
    size = int.from_bytes(raw[:8], "little")
    layout = Layout([("model.safetensors", raw[8 : 8 + size].decode())])
    data = raw[8 + size :]
    side_files = {name: content for name, content in model_files.items() if name != "model.safetensors"}
    return Checkpoint(layout, [data[t.begin : t.end] for t in layout.tensors], side_files)


BASE, TARGET = checkpoint(files(0)), checkpoint(files(1))
# Cells stand in the order of dtypes: U8, BF16, F32, F8_E4M3, F8_E5M2, F4. Blocks: 0 is sparse-flat in a, 1 and 2 in b (a
# cell each), 3 is dense in c, 4 is sparse-magnitude in d, 5 is sparse-flat over g.0 and g.1, 6 is sparse-magnitude in e.
D, G, E = 4, 5, 6
CLASSES = {"F8_E4M3": Classes([0, 32, 64], frozenset({2})), "F4": Classes([0, 3])}
GOOD = craft.encode_patch(BASE, TARGET, cells_per_block={"F8_E5M2": 2}, dense={"c"}, classes=CLASSES,
                          spanning=True).assemble()  # fmt: skip


def good() -> Parts:
    return copy.deepcopy(craft.take_apart(GOOD))


def edited(edit) -> bytes:
    """The good patch after `edit(parts)`."""
    parts = good()
    edit(parts)
    return parts.assemble()


def with_block(number: int, edit) -> bytes:
    """The good patch with `edit(block)` done to one block; the counts in section info follow."""
    parts, blocks = good(), blocks_of(GOOD)
    edit(blocks[number])
    set_blocks(parts, blocks)
    return parts.assemble()


def with_payload(number: int, payload: bytes) -> bytes:
    return with_block(number, lambda block: setattr(block, "payload", payload))


# ---------------------------------------------------------------------------------------------------------------------
# The file


def container():
    parts = good()
    payload_end = 24 + len(parts.payloads)
    ends = {"header": 24, "payloads": payload_end}
    at = payload_end
    for kind, content in parts.sections:
        at += len(content)
        ends[reference.SECTION_NAMES[kind].replace(" ", "_")] = at
    ends["section_table"] = at + 17 * len(parts.sections)

    attacks = {f"truncated_after_{name}": GOOD[:end] for name, end in ends.items()}
    attacks |= {f"a_byte_missing_at_the_end_of_{name}": GOOD[: end - 1] + GOOD[end:] for name, end in ends.items()}
    # The next byte moves into the feature bits.
    attacks["a_byte_missing_at_the_end_of_header"] = GOOD[:23] + GOOD[24:]
    attacks |= {f"a_byte_too_many_after_{name}": GOOD[:end] + b"\0" + GOOD[end:] for name, end in ends.items()}
    attacks |= {
        "no_bytes": b"",
        "one_byte": GOOD[:1],
        "only_header_and_footer": GOOD[:24] + GOOD[-28:],
        "one_byte_too_few": GOOD[:-1],
        "one_byte_too_many": GOOD + b"\0",
        "twice_in_one_file": GOOD + GOOD,
        "wrong_magic": b"\x8aSKERRX\n" + GOOD[8:],
        "magic_after_a_text_mode_transfer": GOOD.replace(b"\n", b"\r\n"),
        "magic_after_a_seven_bit_transfer": b"\x0a" + GOOD[1:],
        "wrong_end_magic": GOOD[:-1] + b"\x0a",
        "reserved_field_is_one": edited(lambda p: setattr(p, "zero", 1)),
        "wrong_checksum_of_the_table": edited(lambda p: setattr(p, "table_checksum", 0)),
    }
    for name, value in {"one_more": len(parts.payloads) + 1, "one_less": len(parts.payloads) - 1, "zero": 0,
                        "2_to_the_64_minus_1": 2**64 - 1, "wraps_to_zero": 2**64 - 24}.items():  # fmt: skip
        attacks[f"blocks_bytes_{name}"] = edited(lambda p, value=value: setattr(p, "blocks_bytes", value))
    count = len(parts.sections)
    for name, value in {"zero": 0, "one_less": count - 1, "one_more": count + 1, "2_to_the_32_minus_1": -1}.items():
        attacks[f"section_count_{name}"] = edited(lambda p, value=value: setattr(p, "section_count", value))
    return attacks


def sections():
    def swap(parts, i, j):
        parts.sections[i], parts.sections[j] = parts.sections[j], parts.sections[i]

    attacks = {}
    kinds = {kind: name.replace(" ", "_") for kind, name in reference.SECTION_NAMES.items()}
    present = [kind for kind, _ in good().sections]
    for kind in present:
        size = len(good().get(kind))
        attacks[f"wrong_checksum_of_{kinds[kind]}"] = edited(lambda p, k=kind: p.section_checksums.update({k: 1}))
        attacks[f"a_trailing_byte_in_{kinds[kind]}"] = edited(lambda p, k=kind: p.set(k, p.get(k) + b"\0"))
        attacks[f"a_byte_missing_in_{kinds[kind]}"] = edited(lambda p, k=kind: p.set(k, p.get(k)[:-1]))
        attacks[f"an_empty_{kinds[kind]}"] = edited(lambda p, k=kind: p.set(k, b""))
        for name, lie in {"larger": size + 1, "smaller": size - 1, "2_to_the_64_minus_1": 2**64 - 1}.items():
            attacks[f"size_of_{kinds[kind]}_{name}"] = edited(lambda p, k=kind, v=lie: p.section_sizes.update({k: v}))
    return attacks | {
        "sections_in_another_order": edited(lambda p: swap(p, 1, 2)),
        "info_is_not_first": edited(lambda p: swap(p, 0, 1)),
        "a_section_twice": edited(lambda p: p.sections.insert(1, p.sections[0])),
        "the_last_section_twice": edited(lambda p: p.sections.append(p.sections[-1])),
        "section_0": edited(lambda p: p.sections.insert(0, (0, b""))),
        "section_7": edited(lambda p: p.sections.append((7, b"future"))),
        "section_255": edited(lambda p: p.sections.append((255, b""))),
        "no_sections": edited(lambda p: setattr(p, "sections", [])),
        "no_info": edited(lambda p: p.remove(INFO)),
        "no_tables": edited(lambda p: p.remove(TABLES)),
        "no_directory": edited(lambda p: p.remove(DIRECTORY)),
        "info_larger_than_its_limit": edited(lambda p: p.set(INFO, p.get(INFO) + bytes(256))),
        "tables_larger_than_their_limit": edited(lambda p: p.set(TABLES, p.get(TABLES) + bytes(64 << 10))),
    }


# ---------------------------------------------------------------------------------------------------------------------
# Counts and directory


def info():
    fields = craft.info_fields(good().get(INFO))
    attacks = {}
    for key in ("units", "changes", "blocks"):
        for name, value in {"one_more": fields[key] + 1, "one_less": fields[key] - 1, "zero": 0,
                            "2_to_the_63": 2**63, "2_to_the_64_minus_1": 2**64 - 1}.items():  # fmt: skip
            attacks[f"{key}_{name}"] = edited(lambda p, k=key, v=value: set_info(p, **{k: v}))
    digests = good().get(INFO)[:160]
    counts = [fields["units"], fields["changes"], fields["blocks"]]
    for i, key in enumerate(("units", "changes", "blocks")):
        raw = b"".join(over_long_varint(value) if j == i else varint(value) for j, value in enumerate(counts))
        attacks[f"over_long_varint_of_{key}"] = edited(lambda p, raw=raw: p.set(INFO, digests + raw))
        raw = b"".join(b"\xff" * 9 + b"\x02" if j == i else varint(value) for j, value in enumerate(counts))
        attacks[f"varint_of_65_bits_for_{key}"] = edited(lambda p, raw=raw: p.set(INFO, digests + raw))
        raw = b"".join(b"\x80" * 10 + b"\x01" if j == i else varint(value) for j, value in enumerate(counts))
        attacks[f"varint_of_11_bytes_for_{key}"] = edited(lambda p, raw=raw: p.set(INFO, digests + raw))
    return attacks | {
        "wrong_target_digest": edited(lambda p: set_info(p, target_model=bytes(32))),
        "target_digest_is_the_base_digest": edited(lambda p: set_info(p, target_model=fields["base_model"])),
        "target_layout_that_is_not_there": edited(lambda p: set_info(p, target_layout=bytes(32))),
    }


def rest(block: Block) -> tuple:
    """All but where it is."""
    return block.method, block.changes, block.payload, block.checksum


def two_dtypes(dense: bool) -> bytes:
    """One block over d, g.0 and g.1, which would be right if they were of one dtype."""
    before, after = (b"".join(model.tensors[BASE.layout.tensors.index(t)] for t in BASE.layout.tensors
                              if t.name in ("d", "g.0", "g.1")) for model in (BASE, TARGET))  # fmt: skip
    at = craft.differing(before, after, 1)
    blocks = blocks_of(GOOD)
    if dense:
        block = Block(0, 3, reference.DENSE, len(at), craft.encode_dense(after, 1), reference.xxh3(after) & 0xFFFFFFFF)
    else:
        values = [after[i : i + 1] for i in at]
        tokens = [craft.token(before[i], after[i], 8, signed_view=True) for i in at]
        payload = craft.encode_sparse_flat(len(after), at, tokens, U8_TABLE)
        block = Block(0, 3, reference.SPARSE_FLAT, len(at), payload, craft.sparse_checksum(at, values))
    parts, good_patch = good(), reference.read_patch(GOOD)
    set_blocks(parts, [*blocks[:D], block, *blocks[E:]])
    models = {14: (CLASSES["F8_E4M3"], good_patch.models[14].tables), 19: (CLASSES["F4"], good_patch.models[19].tables)}
    parts.set(TABLES, craft.encode_tables(good_patch.tables | {14: U8_TABLE, 15: U8_TABLE}, models))
    return parts.assemble()


def directory():
    def replaced(number, **values):
        def edit(block):
            for key, value in values.items():
                setattr(block, key, value)

        return with_block(number, edit)

    def raw(number, entry: bytes) -> bytes:
        parts, entries = good(), [block.entry() for block in blocks_of(GOOD)]
        entries[number] = entry
        parts.set(DIRECTORY, b"".join(entries))
        return parts.assemble()

    def sizes(first, second) -> bytes:
        entries = []
        for number, block in enumerate(blocks_of(GOOD)):
            size = len(block.payload) + {0: first, 1: second}.get(number, 0)
            entries.append(entry(block, payload=size % 2**64))
        return edited(lambda p: p.set(DIRECTORY, b"".join(entries)))

    def entry(block, gap=None, cells=None, method=None, changes=None, payload=None):
        return ((varint(block.gap) if gap is None else gap)
                + bytes([block.cells - 1 if cells is None else cells, block.method if method is None else method])
                + varint(block.changes if changes is None else changes)
                + varint(len(block.payload) if payload is None else payload)
                + struct.pack("<I", block.checksum))  # fmt: skip

    blocks = blocks_of(GOOD)
    without_last = edited(lambda p: set_blocks(p, blocks[:-1]))
    attacks = {
        "k_is_zero": replaced(0, changes=0),
        "k_is_zero_in_a_dense_block": replaced(3, changes=0),
        "k_is_larger_than_n": replaced(0, changes=301),
        "k_is_larger_than_n_in_a_dense_block": replaced(3, changes=17),
        "k_is_2_to_the_32_plus_the_right_one": replaced(0, changes=blocks[0].changes + 2**32),
        "k_is_2_to_the_64_minus_1": replaced(0, changes=2**64 - 1),
        "k_is_one_more_than_the_payload_holds": replaced(0, changes=blocks[0].changes + 1),
        "k_is_one_less_than_the_payload_holds": replaced(0, changes=blocks[0].changes - 1),
        "method_3": replaced(0, method=3),
        "method_7": replaced(0, method=7),
        "method_255": replaced(0, method=255),
        "a_sparse_block_called_dense": replaced(0, method=0),
        "a_dense_block_called_sparse": replaced(3, method=1),
        "a_sparse_block_of_an_integer_called_magnitude": replaced(0, method=2),
        "a_sparse_block_called_magnitude": replaced(1, method=2),
        "a_magnitude_block_called_sparse": replaced(D, method=1),
        "a_magnitude_block_called_dense": replaced(D, method=0),
        "a_dense_block_called_magnitude": replaced(3, method=2),
        "a_block_over_the_end_of_its_dtype": edited(
            lambda p: set_blocks(p, [Block(0, 2, *rest(blocks[0])), *blocks[2:]])),
        "a_dense_block_of_two_dtypes_of_one_unit": two_dtypes(dense=True),
        "a_sparse_block_of_two_dtypes_of_one_unit": two_dtypes(dense=False),
        "a_block_of_one_of_its_two_tensors": replaced(G, cells=1),
        "a_block_of_two_cells_that_begins_a_cell_early": edited(
            lambda p: set_blocks(p, [*blocks[:D], Block(0, 2, *rest(blocks[G])), *blocks[E:]])),
        "a_block_over_the_end_of_the_model": replaced(E, cells=2),
        "a_block_of_65_cells": replaced(0, cells=65),
        "a_block_of_256_cells": replaced(0, cells=256),
        "a_block_behind_the_model": replaced(E, gap=1),
        "a_block_far_behind_the_model": replaced(E, gap=2**63),
        "a_gap_that_wraps_around": replaced(1, gap=2**64 - 1),
        "blocks_swapped": edited(lambda p: set_blocks(p, [blocks[1], blocks[0], *blocks[2:]])),
        "a_block_twice": edited(lambda p: set_blocks(p, [*blocks[:1], *blocks])),
        "a_block_left_out": without_last,
        "payload_sizes_shifted_by_one": sizes(1, -1),
        "payload_size_one_more": sizes(1, 0),
        "payload_size_one_less": sizes(-1, 0),
        "payload_size_2_to_the_64_minus_1": sizes(2**64 - 1 - len(blocks[0].payload), 0),
        "payload_sizes_that_wrap_around": sizes(2**63, -(2**63)),
        "wrong_checksum_of_a_sparse_block": replaced(0, checksum=blocks[0].checksum ^ 1),
        "wrong_checksum_of_a_dense_block": replaced(3, checksum=blocks[3].checksum ^ 0x80000000),
        "over_long_varint_of_a_gap": raw(1, entry(blocks[1], gap=over_long_varint(0))),
        "a_directory_entry_cut_off": edited(lambda p: p.set(DIRECTORY, p.get(DIRECTORY)[:-3])),
        "a_directory_of_a_million_announced_blocks": edited(lambda p: set_info(p, blocks=10**6)),
    }
    return attacks


def tables_apart() -> tuple[list, bytes]:
    """Pairs of dtype code and listed frequencies, and the bytes of the models."""
    cursor = reference.Cursor(good().get(TABLES), "section tables")
    entries = []
    for _ in range(cursor.varint()):
        code = cursor.unsigned(1)
        entries.append((code, [cursor.varint() for _ in range(cursor.unsigned(1))]))
    return entries, cursor.rest()


def tables():
    (a, b, g), models = tables_apart()

    def section(*entries, count=None) -> bytes:
        raw = varint(len(entries) if count is None else count)
        for code, frequencies in entries:
            raw += bytes([code, len(frequencies)]) + b"".join(varint(f) for f in frequencies)
        return edited(lambda p: p.set(TABLES, raw + models))

    assert section(a, b, g) == GOOD
    wrong = {
        "sum_4097": [4096, 1], "sum_4097_in_31_symbols": [4067] + [1] * 30, "31_zeros": [0] * 31, "no_symbols": [],
        "32_symbols": [4065] + [1] * 31, "33_symbols": [4064] + [1] * 32, "255_symbols": [1] * 255,
        "wrap_around_16_bits": [4096 + 65536], "wrap_around_64_bits": [2**64 - 1, 4097], "31_symbols_of_4096": [4096] * 31,
    }  # fmt: skip
    attacks = {f"frequencies_{name}": section(a, (b[0], frequencies), g) for name, frequencies in wrong.items()}
    return attacks | {
        "tables_in_descending_order": section(b, a, g),
        "a_table_twice": section(a, b, b, g),
        "a_table_of_an_unknown_dtype": section(a, b, g, (22, [4096])),
        "a_table_missing": section(a, g),
        "more_tables_announced": section(a, b, g, count=4),
        "fewer_tables_announced": section(a, b, g, count=2),
        "2_to_the_64_minus_1_tables_announced": section(a, b, g, count=2**64 - 1),
        "a_table_that_gives_other_values": section(a, (b[0], [2048, 2048]), g),
        "over_long_varint_of_a_frequency": edited(
            lambda p: p.set(TABLES, bytes([1, a[0], 1]) + over_long_varint(4096) + models)),
    }  # fmt: skip


def magnitude_models():
    """Model d has the classes 0, 32, 64, of which the last one uses the table of the one before; model e 0 and 3."""
    good_patch = reference.read_patch(GOOD)
    table_d, table_e = (
        [craft.encode_frequencies(table) for table in good_patch.models[code].tables] for code in (14, 19)
    )
    flat = craft.encode_tables(good_patch.tables)[:-1]

    def model(code, distances, shared, tables, classes=None) -> bytes:
        classes = len(distances) + 1 if classes is None else classes
        distances = [varint(distance) if isinstance(distance, int) else distance for distance in distances]
        shared = varint(shared) if isinstance(shared, int) else shared
        return bytes([code, classes - 1]) + b"".join(distances) + shared + b"".join(tables)

    d, e = model(14, [32, 32], 4, table_d[:2]), model(19, [3], 0, table_e)

    def section(*models, count=None) -> bytes:
        raw = flat + varint(len(models) if count is None else count) + b"".join(models)
        return edited(lambda p: p.set(TABLES, raw))

    def other_d(distances=(32, 32), shared=4, tables=table_d[:2], **options) -> bytes:
        return section(model(14, distances, shared, tables, **options), e)

    assert section(d, e) == GOOD
    share = [b"\x01" + varint(4096)]  # a table that codes symbol 0 alone
    attacks = {f"a_magnitude_model_for_{dtype.name}": section(*sorted([d, e, model(dtype.code, [], 0, share)]))
               for dtype in DTYPES if dtype.magnitude_bits == 0}  # fmt: skip
    return attacks | {
        "no_magnitude_models": section(),
        "no_count_of_magnitude_models": edited(lambda p: p.set(TABLES, flat)),
        "a_magnitude_model_missing": section(e),
        "magnitude_models_in_descending_order": section(e, d),
        "a_magnitude_model_twice": section(d, d, e),
        "a_magnitude_model_of_an_unknown_dtype": section(d, e, model(22, [], 0, share)),
        "more_magnitude_models_announced": section(d, e, count=3),
        "fewer_magnitude_models_announced": section(d, e, count=1),
        "2_to_the_64_minus_1_magnitude_models_announced": section(d, e, count=2**64 - 1),
        "an_over_long_count_of_magnitude_models": edited(
            lambda p: p.set(TABLES, flat + over_long_varint(2) + d + e)),
        "17_classes": other_d([1] * 16, 0, share * 17),
        "256_classes": other_d([0] * 255, 0, share * 256),
        "256_classes_announced": other_d(classes=256),
        "a_class_that_begins_at_0": other_d([0, 64]),
        "a_class_that_begins_where_the_last_one_does": other_d([64, 0]),
        "a_class_beyond_the_greatest_magnitude": other_d([32, 96]),
        "a_class_far_beyond_the_greatest_magnitude": other_d([32, 2**32]),
        "a_class_that_wraps_around_64_bits": other_d([32, 2**64 - 1]),
        "a_class_that_wraps_around_to_a_higher_one": other_d([32, 2**64 - 32 + 64]),
        "a_class_of_F4_beyond_its_3_bits": section(d, model(19, [8], 0, table_e)),
        "a_class_of_F64_beyond_its_63_bits": section(model(12, [2**63], 0, share * 2), d, e),
        "a_class_of_F64_that_wraps_around": section(model(12, [2**63 - 1, 2**63 + 2], 0, share * 3), d, e),
        "16_classes_of_F64_that_wrap_around": section(model(12, [2**63 - 1] * 15, 0, share * 16), d, e),
        "a_class_of_E8M0_beyond_its_8_bits": section(d, model(16, [256], 0, share * 2), e),
        "an_over_long_distance_of_classes": other_d([over_long_varint(32), 32]),
        "the_first_class_shares_a_table": other_d(shared=5, tables=table_d[:1]),
        "a_class_that_there_is_not_shares_a_table": other_d(shared=4 | 8),
        "class_63_shares_a_table": other_d(shared=4 | 2**63),
        "all_64_classes_share_a_table": other_d(shared=2**64 - 1, tables=table_d[:1]),
        "shared_of_65_bits": other_d(shared=b"\xff" * 9 + b"\x02"),
        "an_over_long_shared": other_d(shared=over_long_varint(4)),
        "a_table_of_a_class_too_few": other_d(tables=table_d[:1]),
        "a_table_of_a_class_too_many": other_d(tables=table_d[:2] + share),
        "no_class_shares_a_table": other_d(shared=0),
        "all_classes_share_a_table": other_d(shared=6),
        "a_magnitude_model_cut_off": section(d, e[:-1]),
        "a_magnitude_model_of_two_bytes": edited(lambda p: p.set(TABLES, flat + b"\x01\x0e")),
        "a_class_with_frequencies_that_sum_to_4097": other_d(tables=[b"\x02" + varint(4096) + varint(1), table_d[1]]),
        "a_class_with_32_listed_symbols": other_d(
            tables=[b"\x20" + varint(4065) + b"\x01" * 31, table_d[1]]),
        "a_class_with_a_frequency_that_wraps_around": other_d(
            tables=[b"\x02" + varint(2**64 - 1) + varint(4097), table_d[1]]),
        "a_class_bound_of_one_more": other_d([33, 31]),
        "a_class_bound_of_one_less": other_d([31, 33]),
        "tables_of_classes_swapped": other_d(tables=table_d[1::-1]),
        "one_class_where_blocks_have_three": other_d([], 0, share),
    }  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# Payloads

U8_TABLE = [4096 - 31] + [1] * 31


def sparse_block(positions, tokens, values=None, end=65536, payload=None) -> bytes:
    """The good patch with another first block (300 units of U8) and its value table."""
    payload = payload or craft.encode_sparse_flat(300, positions, tokens, U8_TABLE, end=end)
    checksum = craft.sparse_checksum(positions, values or [b"\0"] * len(positions))
    parts, blocks = good(), blocks_of(GOOD)
    blocks[0] = Block(0, 1, reference.SPARSE_FLAT, len(positions), payload, checksum)
    set_blocks(parts, blocks)
    parts.set(TABLES, craft.encode_tables(reference.read_patch(GOOD).tables | {1: U8_TABLE})[:-1] + tables_apart()[1])
    return parts.assemble()


def stream_of(number: int) -> tuple[list[int], list[int], bytes]:
    """States, words and raw bits of a sparse-flat block."""
    block = blocks_of(GOOD)[number]
    return craft.take_stream_apart(block.payload, block.changes)


def sparse_payloads():
    up = (0, 0, 0)  # the token of +1
    states, words, bits = stream_of(0)
    wide = stream_of(1)

    def first(states=states, words=words, bits=bits, count=None):
        payload = craft.change_stream(states, words, bits)
        if count is not None:
            payload = payload[:8] + count + payload[8 + len(varint(len(words))) :]
        return with_payload(0, payload)

    padded = bytearray(wide[2])
    padded[-1] |= 0x80
    assert bytes(padded) != wide[2], "the good patch has no padding to spoil"
    return {
        "A10_position_is_numel": sparse_block([299, 300], [up, up]),
        "A10_only_position_is_numel": sparse_block([300], [up]),
        "a_position_behind_the_block": sparse_block([5, 900], [up, up]),
        "a_gap_of_2_to_the_20": sparse_block([2**20], [up]),
        "a_gap_of_20000_escapes": sparse_block([0], [up], payload=many_escapes(300, 1)),
        "a_gap_of_20000_escapes_where_most_change": sparse_block(
            [*range(200)], [up] * 200, payload=many_escapes(300, 200)),
        "positions_behind_the_block_where_most_change": sparse_block([*range(100), *range(201, 301)], [up] * 200),
        "a_position_behind_the_block_where_all_change": sparse_block(
            [*range(300)], [up] * 300, payload=all_change([65536 + 4096, 0])),
        "a_word_where_all_change": sparse_block([*range(300)], [up] * 300, payload=all_change(words=[0])),
        "raw_bits_where_all_change": sparse_block([*range(300)], [up] * 300, payload=all_change(bits=b"\1")),
        "a_rank_of_2_to_the_w": sparse_block([0], [(20, 0, 8)], [b"\x01"]),
        "a_rank_far_above_2_to_the_w": sparse_block([0], [(30, 2**18 - 1, 18)], [b"\x00"]),
        "coder_ends_in_another_gap_state": sparse_block([3], [up], [b"\x04"], payload=other_end(0)),
        "coder_ends_in_another_value_state": sparse_block([3], [up], [b"\x04"], payload=other_end(1)),
        "coder_ends_in_other_states": sparse_block([3, 5], [up, up], [b"\x04", b"\x06"], end=65537),
        "a_state_below_65536": first(states=[65535, states[1]]),
        "both_states_zero": first(states=[0, 0]),
        "both_states_2_to_the_32_minus_1": first(states=[2**32 - 1] * 2),
        "states_swapped": first(states=states[::-1]),
        "a_word_too_many": first(words=words + [0]),
        "a_word_too_few": first(words=words[:-1]),
        "no_words": first(words=[]),
        "a_word_count_of_one_more": first(count=varint(len(words) + 1)),
        "a_word_count_of_one_less": first(count=varint(len(words) - 1)),
        "a_word_count_of_2_to_the_63": first(count=varint(2**63)),
        "a_word_count_of_2_to_the_64_minus_1": first(count=varint(2**64 - 1)),
        "an_over_long_word_count": first(count=over_long_varint(len(words))),
        "raw_bits_with_a_byte_too_many": with_payload(1, craft.change_stream(*wide[:2], wide[2] + b"\0")),
        "raw_bits_with_a_byte_too_few": with_payload(1, craft.change_stream(*wide[:2], wide[2][:-1])),
        "raw_bits_with_padding_of_one": with_payload(1, craft.change_stream(*wide[:2], bytes(padded))),
        "a_raw_bit_changed": with_payload(
            1, craft.change_stream(*wide[:2], bytes([wide[2][0] ^ 1]) + wide[2][1:])),
        "a_payload_of_no_bytes": with_payload(0, b""),
        "a_payload_of_three_bytes": with_payload(0, b"\0\0\1"),
        "a_payload_of_zeros": with_payload(0, bytes(64)),
        "a_payload_of_ones": with_payload(0, b"\xff" * 64),
    }


def many_escapes(units: int, changes: int) -> bytes:
    """A payload whose first gap is of 20,000 escapes and, if a reader adds them up in 16 bits, within the block."""
    gap_table, low_bits, escape = reference.gap_model(units, changes)
    symbols = [(0, gap_table, escape)] * 20_000
    pairs = reference.pairs_of_states(changes)
    for i in range(changes):
        symbols += [(2 * (i % pairs), gap_table, 0), (2 * (i % pairs) + 1, U8_TABLE, 0)]
    states, words = craft.rans_encode(symbols, pairs=pairs)
    bits = craft.BitWriter()
    bits.put(0, changes * low_bits)
    return craft.change_stream(states, words, bits.bytes())


def all_change(gap_states=(65536, 65536), words=(), bits=b"") -> bytes:
    """A payload of 300 changes among 300 units, which are all the same step: gaps need no bits, nor do values here."""
    good_states, good_words, _ = craft.take_stream_apart(
        craft.encode_sparse_flat(300, [*range(300)], [(0, 0, 0)] * 300, U8_TABLE), 300
    )
    assert good_states[::2] == [65536, 65536]
    states = [gap_states[0] or 65536, good_states[1], gap_states[1] or 65536, good_states[3]]
    return craft.change_stream(states, good_words + list(words), bits)


def other_end(which: int) -> bytes:
    """A payload of one change at 3 whose one state ends at 65537."""
    gap_table, low_bits, _ = reference.gap_model(300, 1)
    symbols = [(0, gap_table, 3 >> low_bits), (1, U8_TABLE, 0)]
    right, words = craft.rans_encode(symbols)
    wrong, other_words = craft.rans_encode(symbols, end=65537)
    assert words == other_words == []
    bits = craft.BitWriter()
    bits.put(3, low_bits)
    return craft.change_stream([wrong[i] if i == which else right[i] for i in (0, 1)], [], bits.bytes())


def strands_of(number: int) -> list[Strand]:
    """What the block of d or e tells of its classes."""
    name = {D: "d", E: "e"}[number]
    ordinal = [tensor.name for tensor in BASE.layout.tensors].index(name)
    tensor = BASE.layout.tensors[ordinal]
    block = craft.PlannedBlock(0, 1, tensor.dtype, False, BASE.tensors[ordinal], TARGET.tensors[ordinal])
    strands = craft.strands_of(block, CLASSES[tensor.dtype.name], 0)
    for strand, table in zip(strands, reference.read_patch(GOOD).models[tensor.dtype.code].tables):
        strand.value_table = table
    return strands


def magnitude_payloads():
    block_d, block_e = blocks_of(GOOD)[D], blocks_of(GOOD)[E]
    counts = [len(strand.changed) for strand in strands_of(D)]
    members = [strand.members for strand in strands_of(D)]
    head = b"".join(map(varint, counts))
    stream = block_d.payload[len(head) :]
    assert block_d.payload.startswith(head) and sum(counts) == block_d.changes >= 64
    states, words, bits = craft.take_stream_apart(stream, block_d.changes)
    codes = [len(strand.changed) for strand in strands_of(E)]
    head_e = b"".join(map(varint, codes))
    assert block_e.changes < sum(codes) < 64, "no byte of e changes both codes"

    def announcing(*k, number=D, tail=stream, **values) -> bytes:
        """Other k_c before the good stream."""
        raw = b"".join(varint(count) if isinstance(count, int) else count for count in k) + tail
        return changed(number, payload=raw, **values)

    def changed(number, **values) -> bytes:
        def edit(block):
            for key, value in values.items():
                setattr(block, key, value)

        return with_block(number, edit)

    def other(edit, number=D, end=65536, k=0) -> bytes:
        """The payload after `edit(strands)`, `k` changes more in the directory."""
        strands = strands_of(number)
        edit(strands)
        payload = craft.encode_sparse_magnitude(strands, end)
        return changed(number, payload=payload, changes=blocks_of(GOOD)[number].changes + k)

    def move_last(c, to=None, by=0):
        def edit(strands):
            strands[c].changed[-1] = strands[c].members + by if to is None else to

        return edit

    def add(c, number):
        def edit(strands):
            strands[c].changed.append(number if number is not None else strands[c].members)
            strands[c].tokens.append(strands[c].tokens[-1])

        return edit

    def retoken(c, i, token):
        return lambda strands: strands[c].tokens.__setitem__(i, token)

    def to_other_class(strands):
        """A change of the last class in the second one."""
        free = next(i for i in range(strands[1].members) if i not in strands[1].changed)
        strands[2].changed.pop()
        strands[2].tokens.pop()
        strands[1].changed = sorted([*strands[1].changed, free])
        strands[1].tokens.append((0, 0, 0))

    e_stream = block_e.payload[len(head_e) :]
    assert craft.encode_sparse_magnitude(strands_of(D)) == block_d.payload
    attacks = {
        "k_c_above_the_members_of_its_class": announcing(members[0] + 1, *counts[1:]),
        "k_c_above_the_members_with_the_right_sum": announcing(
            sum(counts) - members[1] - 1 - counts[2], members[1] + 1, counts[2]),
        "k_c_are_all_members": announcing(*members),
        "k_c_one_more": announcing(counts[0], counts[1] + 1, counts[2]),
        "k_c_one_less": announcing(counts[0], counts[1] - 1, counts[2]),
        "k_c_moved_to_another_class": announcing(counts[0] - 1, counts[1] + 1, counts[2]),
        "k_c_all_zero": announcing(0, 0, 0),
        "k_c_all_zero_without_a_stream": announcing(0, 0, 0, tail=b""),
        "k_c_in_another_order": announcing(*counts[::-1]),
        "k_c_2_to_the_64_minus_1": announcing(2**64 - 1, *counts[1:]),
        "k_c_that_wrap_around_to_the_right_sum": announcing(2**64 - 1, counts[0] + 1 + counts[1], counts[2]),
        "k_c_of_2_to_the_32_more": announcing(counts[0] + 2**32, *counts[1:]),
        "k_c_of_2_to_the_63_twice": announcing(2**63 + counts[0], 2**63 + counts[1], counts[2]),
        "k_c_over_long": announcing(over_long_varint(counts[0]), *counts[1:]),
        "k_c_of_65_bits": announcing(b"\xff" * 9 + b"\x02", *counts[1:]),
        "k_c_too_few": announcing(*counts[:2]),
        "k_c_too_many": announcing(*counts, 0),
        "k_c_and_nothing_else": announcing(*counts, tail=b""),
        "k_c_cut_off": changed(D, payload=head[:1]),
        "a_magnitude_payload_of_no_bytes": changed(D, payload=b""),
        "a_magnitude_payload_of_zeros": changed(D, payload=bytes(100)),
        "a_magnitude_payload_of_ones": changed(D, payload=b"\xff" * 100),
        "a_magnitude_block_with_k_of_one_more": changed(D, changes=block_d.changes + 1),
        "a_magnitude_block_with_k_of_one_less": changed(D, changes=block_d.changes - 1),
        "a_magnitude_block_with_a_wrong_checksum": changed(D, checksum=block_d.checksum ^ 1),
        "a_member_behind_the_second_class": other(move_last(1)),
        "a_member_behind_the_last_class": other(move_last(2)),
        "a_member_far_behind_its_class": other(move_last(1, by=2**20)),
        "one_more_member_behind_its_class": other(add(1, None), k=1),
        "one_more_member_behind_the_last_class": other(add(2, None), k=1),
        "a_member_that_is_not_meant": other(to_other_class),
        "a_member_of_2_to_the_32": other(move_last(2, to=2**32)),
        "many_escapes_in_a_class_where_most_change": changed(D, payload=escapes_in_class(1)),
        "many_escapes_in_a_class_where_few_change": changed(D, payload=escapes_in_class(2)),
        "a_magnitude_block_that_ends_in_other_states": other(lambda strands: None, end=65537),
        "a_magnitude_block_with_one_pair_of_states": announcing(
            *counts, tail=craft.change_stream(states[:2], words, bits)),
        "a_magnitude_block_with_three_pairs_of_states": announcing(
            *counts, tail=craft.change_stream(states + [65536] * 2, words, bits)),
        "a_magnitude_block_with_its_pairs_swapped": announcing(
            *counts, tail=craft.change_stream(states[2:] + states[:2], words, bits)),
        "a_magnitude_block_with_a_state_below_65536": announcing(
            *counts, tail=craft.change_stream([*states[:3], 65535], words, bits)),
        "a_magnitude_block_with_a_word_too_many": announcing(
            *counts, tail=craft.change_stream(states, words + [0], bits)),
        "a_magnitude_block_with_a_word_too_few": announcing(
            *counts, tail=craft.change_stream(states, words[:-1], bits)),
        "a_magnitude_block_with_a_word_count_of_2_to_the_63": announcing(
            *counts, tail=struct.pack("<4I", *states) + varint(2**63)),
        "a_magnitude_block_with_a_raw_byte_too_many": announcing(
            *counts, tail=craft.change_stream(states, words, bits + b"\0")),
        "a_magnitude_block_with_a_raw_byte_too_few": announcing(
            *counts, tail=craft.change_stream(states, words, bits[:-1])),
        "a_magnitude_block_of_a_class_with_another_step": other(retoken(1, 0, (1, 0, 0))),
        "a_codes_k_that_counts_codes": changed(E, changes=sum(codes)),
        "a_codes_k_of_one_less": changed(E, changes=block_e.changes - 1),
        "a_codes_k_of_one_more": changed(E, changes=block_e.changes + 1),
        "a_codes_k_of_less_than_half": changed(E, changes=(sum(codes) - 1) // 2),
        "k_c_of_codes_one_more": announcing(codes[0] + 1, codes[1], number=E, tail=e_stream),
        "k_c_of_codes_above_the_members": announcing(201, codes[1], number=E, tail=e_stream),
        "k_c_of_codes_below_k": announcing(1, 1, number=E, tail=e_stream),
        "a_code_behind_its_class": other(move_last(1), number=E),
        "a_code_of_another_byte": other(add(1, strands_of(E)[1].members - 1), number=E),
        "codes_with_a_checksum_over_codes": changed(E, checksum=checksum_over_codes()),
    }  # fmt: skip
    for name, number, token in (("F8", D, (20, 0, 8)), ("F8_by_far", D, (30, 2**18 - 1, 18)), ("F4", E, (16, 0, 4)),
                                ("F4_by_a_byte", E, (19, 100, 7))):  # fmt: skip
        attacks[f"a_magnitude_rank_beyond_{name}"] = rank_in_class_1(number, token)
    return attacks


def rank_in_class_1(number: int, token) -> bytes:
    """A block of d or e that changes the first member of class 1 alone, with a table that can code this token."""
    code, name = {D: (14, "F8_E4M3"), E: (19, "F4")}[number]
    table = [4096 - 30] + [1] * 30 + [0]
    strands = strands_of(number)
    for strand in strands:
        strand.changed, strand.tokens = [], []
    strands[1].changed, strands[1].tokens, strands[1].value_table = [0], [token], table
    blocks, parts, good_patch = blocks_of(GOOD), good(), reference.read_patch(GOOD)
    dtype = DTYPES[code]
    elements = reference.values_of(BASE.tensors[3 if number == D else 4], dtype.magnitude_width)
    mask = (1 << dtype.magnitude_bits) - 1
    first = next(i for i, bits in enumerate(elements) if good_patch.models[code].class_of(bits & mask) == 1)
    checksum = craft.sparse_checksum([first * dtype.magnitude_width // 8], [b"\0"])
    blocks[number] = Block(blocks[number].gap, 1, reference.SPARSE_MAGNITUDE, 1,
                           craft.encode_sparse_magnitude(strands), checksum)  # fmt: skip
    set_blocks(parts, blocks)
    models = {c: (CLASSES[n], good_patch.models[c].tables) for c, n in ((14, "F8_E4M3"), (19, "F4"))}
    models[code] = (CLASSES[name], [table for _ in models[code][1]])
    parts.set(TABLES, craft.encode_tables(good_patch.tables, models))
    parts.remove(NAMES)  # they count more changes
    return parts.assemble()


def escapes_in_class(c: int) -> bytes:
    """The payload of d with 20,000 escapes before the first gap of a class."""
    symbols, bits, i = [], craft.BitWriter(), 0
    strands = strands_of(D)
    for number, strand in enumerate(strands):
        table, low_bits, escape = reference.gap_model(strand.members, len(strand.changed))
        if number == c:
            symbols += [(2 * (i % 2), table, escape)] * 20_000
        next_member = 0
        for member, (symbol, extra, extra_bits) in zip(strand.changed, strand.tokens):
            gap = member - next_member
            assert gap >> low_bits < escape or table[0] == 4096
            symbols += [(2 * (i % 2), table, gap >> low_bits), (2 * (i % 2) + 1, strand.value_table, symbol)]
            bits.put(gap & ((1 << low_bits) - 1), low_bits)
            bits.put(extra, extra_bits)
            next_member, i = member + 1, i + 1
    states, words = craft.rans_encode(symbols, pairs=2)
    return b"".join(varint(len(strand.changed)) for strand in strands) + craft.change_stream(states, words, bits.bytes())


def checksum_over_codes() -> int:
    before, after = (reference.values_of(model.tensors[4], 4) for model in (BASE, TARGET))
    at = [i for i, (one, other) in enumerate(zip(before, after)) if one != other]
    return craft.sparse_checksum(at, [bytes([after[i]]) for i in at])


def dense_payloads():
    new = TARGET.tensors[2]
    planes = [new[p::4] for p in range(4)]

    def block(*packed) -> bytes:
        return with_payload(3, b"".join(text(plane) for plane in packed))

    def frame(raw, **options):
        return zstandard.ZstdCompressor(**options).compress(raw)

    return {
        "a_plane_too_few": block(*planes[:3]),
        "a_plane_too_many": block(*planes, planes[0]),
        "a_raw_plane_of_one_byte_less": block(planes[0][:-1], *planes[1:]),
        "a_raw_plane_of_one_byte_more": block(planes[0] + b"\0", *planes[1:]),
        "an_empty_plane": block(b"", *planes[1:]),
        "a_plane_that_is_no_frame": block(b"\x28\xb5\x2f\xfd\0\0", *planes[1:]),
        "a_plane_size_of_2_to_the_64_minus_1": with_payload(3, varint(2**64 - 1) + planes[0]),
        "a_dense_payload_of_no_bytes": with_payload(3, b""),
        "a_trailing_byte_after_the_last_plane": with_payload(3, b"".join(map(text, planes)) + b"\0"),
        "planes_in_another_order": block(*planes[::-1]),
    } | {f"wide_{name}": attack for name, attack in wide_dense(frame).items()}


def wide_dense(frame):
    """Tensor b's first block made dense, with planes that are frames."""
    after = TARGET.tensors[1][: 2 * 65536]
    low, high = after[0::2], after[1::2]

    def block(low_frame, high_frame=None) -> bytes:
        def edit(block):
            block.method, block.checksum = reference.DENSE, reference.xxh3(after) & 0xFFFFFFFF
            block.payload = text(low_frame) + text(frame(high) if high_frame is None else high_frame)

        return with_block(1, edit)

    good = frame(low)
    assert reference.apply_patch(reference.read_patch(block(good)), BASE).tensors == TARGET.tensors
    bomb = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(256 << 20))
    return {
        "plane_of_one_unit_less": block(frame(low[:-1])),
        "plane_of_one_unit_more": block(frame(low + b"\0")),
        "plane_of_one_unit_more_unstated": block(frame(low + b"\0", write_content_size=False)),
        "plane_with_bytes_after_the_frame": block(good + b"\0"),
        "plane_in_two_frames": block(frame(low[:100]) + frame(low[100:])),
        "plane_with_a_skippable_frame_behind": block(good + SKIPPABLE),
        "plane_with_a_skippable_frame_before": block(SKIPPABLE + good),
        "plane_with_an_empty_frame_behind": block(good + frame(b"")),
        "plane_of_256_mebibytes": block(bomb),
        "plane_cut_off": block(good[:-1]),
    }


# ---------------------------------------------------------------------------------------------------------------------
# Names, layout, side files


def framed(kind: int, section: bytes) -> bytes:
    return edited(lambda p: p.set(kind, section))


def compression():
    """The same damage to each compressed section."""
    attacks = {}
    contents = {NAMES: "names", SIDE_FILES: "side_files", LAYOUT: "layout"}
    for kind, name in contents.items():
        limit = reference.SECTION_LIMITS[kind]
        raw = BASE.layout.json() if kind == LAYOUT else reference.decompressed(good().get(kind), kind).rest()
        packed = zstandard.ZstdCompressor().compress(raw)
        size = varint(len(raw))
        unstated = zstandard.ZstdCompressor(write_content_size=False).compress(raw)
        stated_over_limit = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", limit + 1) + b"\x01\x00\x00"
        stated_far_over = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 2**63) + b"\x01\x00\x00"
        attacks |= {
            f"{name}_over_the_limit_decompressed": framed(kind, varint(limit + 1) + stated_over_limit),
            f"{name}_of_2_to_the_63_bytes_decompressed": framed(kind, varint(2**63) + stated_far_over),
            f"{name}_of_2_to_the_64_minus_1_bytes_decompressed": framed(kind, varint(2**64 - 1) + packed),
            f"{name}_with_another_size_than_the_frame": framed(kind, varint(len(raw) + 1) + packed),
            f"{name}_in_a_frame_without_a_size": framed(kind, size + unstated),
            f"{name}_in_a_frame_that_lies": framed(kind, varint(100) + lying_frame(100)),
            f"{name}_with_bytes_after_the_frame": framed(kind, size + packed + b"\0"),
            f"{name}_with_a_skippable_frame_behind": framed(kind, size + packed + SKIPPABLE),
            f"{name}_with_a_skippable_frame_before": framed(kind, size + SKIPPABLE + packed),
            f"{name}_with_an_empty_frame_behind": framed(
                kind, size + packed + zstandard.ZstdCompressor().compress(b"")),
            f"{name}_in_two_frames": framed(
                kind, size + b"".join(zstandard.ZstdCompressor().compress(part) for part in (raw[:3], raw[3:]))),
            f"{name}_in_a_damaged_frame": framed(kind, size + packed[:-2]),
            f"{name}_without_a_frame": framed(kind, size),
            f"{name}_not_compressed": framed(kind, size + raw),
            f"over_long_size_of_{name}": framed(kind, over_long_varint(len(raw)) + packed),
        }  # fmt: skip
    return attacks


def lying_frame(stated: int) -> bytes:
    """A zstd frame that states `stated` bytes and holds 128 KiB of zeros (one run-length block)."""
    block = (1 | 1 << 1 | (128 << 10) << 3).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", stated) + block


def names():
    def listed(*entries, count=None):
        return framed(NAMES, compressed(varint(len(entries) if count is None else count) + b"".join(entries)))

    a = varint(0) + text("a") + b"\1" + varint(1) + varint(300) + varint(43)
    return {
        "a_name_that_is_not_utf8": listed(varint(0) + text(b"\xff") + b"\1" + varint(1) + varint(300) + varint(1)),
        "a_name_of_an_unknown_dtype": listed(varint(0) + text("a") + b"\x16" + varint(1) + varint(300) + varint(1)),
        "a_name_of_rank_2_to_the_40": listed(varint(0) + text("a") + b"\1" + varint(2**40) + varint(300) + varint(1)),
        "a_name_of_2_to_the_62_bytes": listed(varint(0) + varint(2**62) + b"a"),
        "an_ordinal_that_wraps_around": listed(a, varint(2**64 - 1) + text("b") + b"\1" + varint(0) + varint(1)),
        "more_names_announced": listed(a, count=2),
        "2_to_the_64_minus_1_names_announced": listed(a, count=2**64 - 1),
        "fewer_names_announced": listed(a, a, count=1),
        "an_over_long_axis": listed(varint(0) + text("a") + b"\1" + varint(1) + over_long_varint(300) + varint(1)),
        "a_name_without_its_changes": listed(a[:-1]),
        "a_name_of_more_changes_than_there_are": listed(a[:-1] + varint(reference.read_patch(GOOD).changes + 1)),
        "a_name_of_2_to_the_64_minus_1_changes": listed(a[:-1] + varint(2**64 - 1)),
        "a_name_of_an_over_long_number_of_changes": listed(a[:-1] + over_long_varint(43)),
    }


def side_files():
    def listed(*entries, count=None):
        return framed(SIDE_FILES, compressed(varint(len(entries) if count is None else count) + b"".join(entries)))

    def file(path, content=b"x"):
        return text(path) + b"\1" + text(content)

    paths = {
        "parent": "../x", "absolute": "/abs", "hidden": ".hidden", "hidden_inside": "a/.hidden/b",
        "inside_and_out": "a/../../b", "dots": "..", "dot": ".", "dot_inside": "a/./b", "empty": "", "folder": "a/",
        "double_slash": "a//b", "backslash": "..\\x", "quote": 'a"b', "newline": "a\nb", "escape": "\x1b[31m",
        "delete": "a\x7f", "nul": "a\0b", "safetensors": "model-2.safetensors",
        "safetensors_inside": "sub/x.safetensors", "not_utf8": b"\xff", "overlong": b"\xc0\xae\xc0\xae/x",
        "state_folder": ".skerry/state.json",
    }  # fmt: skip
    attacks = {f"side_file_path_{name}": listed(file(path)) for name, path in paths.items()}
    attacks |= {f"removed_side_file_path_{name}": listed(text(path) + b"\0") for name, path in
                (("parent", "../x"), ("absolute", "/abs"), ("safetensors", "model.safetensors"))}  # fmt: skip
    return attacks | {
        "side_files_in_descending_order": listed(file("b"), file("a")),
        "a_side_file_twice": listed(file("a"), file("a")),
        "a_side_file_changed_and_removed": listed(file("a"), text("a") + b"\0"),
        "a_side_file_neither_there_nor_removed": listed(text("a") + b"\2" + text(b"x")),
        "a_side_file_larger_than_its_section": listed(text("a") + b"\1" + varint(2**40) + b"x"),
        "a_side_file_of_2_to_the_64_minus_1_bytes": listed(text("a") + b"\1" + varint(2**64 - 1) + b"x"),
        "more_side_files_announced": listed(file("a"), count=2),
        "fewer_side_files_announced": listed(file("a"), file("b"), count=1),
        "a_side_file_that_is_a_folder_of_another": listed(file("config.json"), file("config.json/x")),
        "a_side_file_below_a_file_of_the_base": listed(file("config.json/x")),
        "a_side_file_below_a_shard": listed(file("model.safetensors/x")),
    }


def layouts():
    header = BASE.layout.files[0][1]

    def carrying(raw: bytes, **values) -> bytes:
        """A patch that carries this layout and announces its digest."""
        def edit(parts):
            parts.set(LAYOUT, compressed(raw))
            set_info(parts, **({"target_layout": hashlib.sha256(raw).digest()} | values))

        return edited(edit)

    def of_files(*pairs) -> bytes:
        return Layout.json(FakeLayout(list(pairs)))

    names = {"parent": "../model.safetensors", "absolute": "/model.safetensors", "hidden": ".model.safetensors",
             "inside_and_out": "a/../../model.safetensors", "empty": "", "newline": "a\nb.safetensors",
             "of_a_side_file": "config.json", "of_no_shard": "model.txt"}  # fmt: skip
    attacks = {f"layout_file_name_{name}": carrying(of_files((path, header))) for name, path in names.items()}
    other = header.replace('"F32"', '"I32"')
    here = of_files(("model.safetensors", header))
    return attacks | {
        "layout_that_is_not_announced": edited(
            lambda p: p.set(LAYOUT, compressed(of_files(("x.safetensors", header))))),
        "layout_with_a_file_twice": carrying(of_files(("m.safetensors", header), ("m.safetensors", header))),
        "layout_with_a_tensor_in_two_files": carrying(of_files(("m.safetensors", header), ("n.safetensors", header))),
        "layout_with_files_out_of_order": carrying(
            of_files(("n.safetensors", header), ("m.safetensors", "{}"))),
        "layout_with_a_file_below_another": carrying(
            of_files(("m.safetensors", header), ("m.safetensors/n.safetensors", "{}"))),
        "layout_with_a_broken_header": carrying(of_files(("model.safetensors", header[:-1]))),
        "layout_with_other_tensors": carrying(of_files(("model.safetensors", other))),
        "layout_without_files": carrying(of_files()),
        "layout_with_white_space": carrying(here.replace(b":", b": ", 1)),
        "layout_with_another_key": carrying(here.replace(b'"format":1', b'"format":1,"x":1')),
        "layout_that_is_a_list": carrying(b"[]"),
        "layout_that_is_not_json": carrying(b"{"),
        "layout_nested_100000_deep": carrying(b'{"files":' + b"[" * 100_000),
        "layout_with_bytes_behind_a_nul": carrying(here + b"\0\xff"),
        "layout_header_with_bytes_behind_a_nul": carrying(of_files(("model.safetensors", header + "\0x"))),
    } | structural(carrying)  # fmt: skip


class FakeLayout:
    """Only the files of a layout, unchecked and in the given order."""

    def __init__(self, files):
        self.files = files


def structural(carrying):
    """Patches that say that the target has other tensors."""

    def with_new_tensor(new: dict, digest_of_new: bytes, block=None) -> bytes:
        """The base's tensors as they are, and one more named y, whose running digest is that of `digest_of_new`."""
        old = {name: {"dtype": t.dtype.name, "shape": t.shape, "data_offsets": [t.begin, t.end]}
               for name, t in ((t.name, t) for t in BASE.layout.tensors)}  # fmt: skip
        end = max(t.end for t in BASE.layout.tensors)
        size = new.pop("bytes")
        new["data_offsets"] = [end, end + size]
        header = json.dumps(old | {"y": new}, separators=(",", ":"))
        layout = Layout([("model.safetensors", header)])
        parts = good()
        parts.features = reference.STRUCTURAL
        parts.set(LAYOUT, compressed(layout.json()))
        parts.remove(NAMES)
        set_blocks(parts, [block] if block else [])
        digests = [running_digest(data) for data in BASE.tensors]
        digests.insert([tensor.name for tensor in layout.tensors].index("y"), digest_of_new)
        model = hashlib.sha256(b"skerry model 1\n" + layout.tensors_digest())
        for pair in digests:
            model.update(struct.pack("<QQ", *pair))
        set_info(parts, target_layout=layout.digest(), target_model=model.digest(), units=layout.units)
        return parts.assemble()

    # The only other cell of U8 is that of a, number 0.
    unit_block = Block(1, 1, reference.SPARSE_FLAT, 1, craft.encode_sparse_flat(8, [3], [(0, 0, 0)], U8_TABLE),
                       craft.sparse_checksum([3], [b"\1"]))  # fmt: skip
    half = bytes(65536)
    half_block = Block(1, 1, reference.DENSE, len(half), craft.encode_dense(half, 1), reference.xxh3(half) & 0xFFFFFFFF)
    eight = {"dtype": "U8", "shape": [8], "bytes": 8}
    new = bytes([0, 0, 0, 1, 0, 0, 0, 0])
    digest = running_digest(new)
    both = BASE.tensors[0] + new
    dense_both = Block(0, 2, reference.DENSE, 308, craft.encode_dense(both, 1), reference.xxh3(both) & 0xFFFFFFFF)
    sparse_both = Block(0, 2, reference.SPARSE_FLAT, 1, craft.encode_sparse_flat(308, [303], [(0, 0, 0)], U8_TABLE),
                        craft.sparse_checksum([303], [b"\1"]))  # fmt: skip
    eight_e4m3 = {"dtype": "F8_E4M3", "shape": [8], "bytes": 8}
    magnitude_block = Block(5, 1, reference.SPARSE_MAGNITUDE, 1, craft.encode_sparse_magnitude(
        [Strand(8, [3], [(0, 0, 0)], reference.read_patch(GOOD).models[14].tables[0]), *[Strand(0, [], [], [])] * 2]),
        craft.sparse_checksum([3], [b"\1"]))  # fmt: skip
    return {
        "a_new_tensor_in_a_magnitude_block": with_new_tensor(eight_e4m3, digest, magnitude_block),
        "a_dense_block_of_an_old_and_a_new_tensor": with_new_tensor(dict(eight), digest, dense_both),
        "a_sparse_block_of_an_old_and_a_new_tensor": with_new_tensor(dict(eight), digest, sparse_both),
        "structural_without_a_layout": edited(lambda p: setattr(p, "features", reference.STRUCTURAL)),
        "a_new_tensor_without_blocks": with_new_tensor(dict(eight), (0, 0)),
        "a_new_tensor_without_blocks_and_an_honest_digest": with_new_tensor(dict(eight), running_digest(bytes(8))),
        "a_new_tensor_in_a_sparse_block": with_new_tensor(dict(eight), digest, unit_block),
        "a_new_tensor_with_half_of_its_blocks": with_new_tensor(
            {"dtype": "U8", "shape": [65544], "bytes": 65544}, running_digest(bytes(65536)), half_block),
        "a_new_tensor_of_2_to_the_40_bytes": with_new_tensor(
            {"dtype": "U8", "shape": [2**40], "bytes": 2**40}, (0, 0)),
        "a_new_tensor_of_2_to_the_60_bytes": with_new_tensor(
            {"dtype": "U8", "shape": [2**60], "bytes": 2**60}, (0, 0)),
    }  # fmt: skip


def all_attacks() -> dict[str, tuple[bytes, int]]:
    attacks = {}
    for group in (container, sections, info, directory, tables, magnitude_models, sparse_payloads, magnitude_payloads, dense_payloads, compression, names,
                  side_files, layouts):  # fmt: skip
        for name, attack in group().items():
            assert name not in attacks, name
            attacks[name] = (attack, CORRUPT)
    assert model_digest(TARGET.layout, TARGET.tensors) == reference.read_patch(GOOD).target_model
    return attacks
