"""Broken tables and payloads of blocks: what the decoders of the methods must find. See patch_attacks.py."""

import struct

import zstandard

import craft
import skerry_reference as reference
from craft import Block, Strand, blocks_of, over_long_varint, set_blocks, text, varint
from good_patch import (
    BASE,
    CLASSES,
    GOOD,
    SKIPPABLE,
    TARGET,
    U8_TABLE,
    D,
    E,
    edited,
    good,
    tables_apart,
    with_block,
    with_payload,
)
from reference_checkpoint import DTYPES
from skerry_reference import NAMES, TABLES

# ---------------------------------------------------------------------------------------------------------------------
# Tables


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
        "wrap_around_16_bits": [4096 + 65536], "wrap_around_64_bits": [2**64 - 1, 4097],
        "31_symbols_of_4096": [4096] * 31,
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
               for dtype in DTYPES if dtype.magnitude_bits == 0 or dtype.name == "U8"}  # fmt: skip
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
# sparse-flat


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
        "another_gap_state_where_all_change": sparse_block([*range(300)], [up] * 300, payload=all_change(65536 + 4096)),
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
    """A payload whose first gap has 20,000 escapes."""
    gap_table, low_bits, escape = reference.gap_model(units, changes)
    symbols = [(0, gap_table, escape)] * 20_000
    pairs = reference.pairs_of_states(changes)
    for i in range(changes):
        symbols += [(2 * (i % pairs), gap_table, 0), (2 * (i % pairs) + 1, U8_TABLE, 0)]
    states, words = craft.rans_encode(symbols, pairs=pairs)
    bits = craft.BitWriter()
    bits.put(0, changes * low_bits)
    return craft.change_stream(states, words, bits.bytes())


def all_change(gap_state=65536, words=(), bits=b"") -> bytes:
    """A payload of 300 changes among 300 units, whose gap states never change."""
    good_states, good_words, _ = craft.take_stream_apart(
        craft.encode_sparse_flat(300, [*range(300)], [(0, 0, 0)] * 300, U8_TABLE), 300
    )
    assert good_states[::2] == [65536, 65536]
    return craft.change_stream([gap_state, *good_states[1:]], good_words + list(words), bits)


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


# ---------------------------------------------------------------------------------------------------------------------
# sparse-magnitude


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

    def move_last(c, by=0):
        def edit(strands):
            strands[c].changed[-1] = strands[c].members + by

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
        "a_member_far_behind_its_class": other(move_last(1, by=2**16)),
        "one_more_member_behind_its_class": other(add(1, None), k=1),
        "one_more_member_behind_the_last_class": other(add(2, None), k=1),
        "a_member_that_is_not_meant": other(to_other_class),
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
    counts = b"".join(varint(len(strand.changed)) for strand in strands)
    return counts + craft.change_stream(states, words, bits.bytes())


def checksum_over_codes() -> int:
    before, after = (reference.values_of(model.tensors[4], 4) for model in (BASE, TARGET))
    at = [i for i, (one, other) in enumerate(zip(before, after)) if one != other]
    return craft.sparse_checksum(at, [bytes([after[i]]) for i in at])


# ---------------------------------------------------------------------------------------------------------------------
# dense


def dense_payloads():
    new = TARGET.tensors[2]
    planes = craft.planes_of(new, TARGET.layout.tensors[2].dtype)

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
        "planes_of_units_that_are_not_rotated": block(*(new[p::4] for p in range(4))),
    } | {f"wide_{name}": attack for name, attack in wide_dense(frame).items()}


def wide_dense(frame):
    """Tensor b's first block made dense, with planes that are frames."""
    after = TARGET.tensors[1][: 2 * 65536]
    low, high = craft.planes_of(after, TARGET.layout.tensors[1].dtype)

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


GROUPS = (tables, magnitude_models, sparse_payloads, magnitude_payloads, dense_payloads)
