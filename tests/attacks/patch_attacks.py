"""Broken patches for one small model: {name: (bytes, exit status)}. Each is the good patch with one thing wrong, and
all checksums right again, so that it is this thing that a reader must find."""

import hashlib
import json
import struct

import zstandard

import block_attacks
import code_attacks
import craft
import skerry_reference as reference
from craft import Block, Strand, blocks_of, compressed, over_long_varint, set_blocks, set_info, text, varint
from good_patch import BASE, CLASSES, GOOD, SKIPPABLE, TARGET, U8, U8_TABLE, D, E, G, edited, good, rest, with_block
from reference_checkpoint import Layout, model_digest, running_digest
from skerry_reference import DIRECTORY, INFO, LAYOUT, NAMES, SIDE_FILES, TABLES

CORRUPT = 4  # the exit status that every one of them gets


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


def two_dtypes(dense: bool) -> bytes:
    """One block over d, g.0 and g.1, which would be right if they were of one dtype."""
    before, after = (b"".join(model.tensors[BASE.layout.tensors.index(t)] for t in BASE.layout.tensors
                              if t.name in ("d", "g.0", "g.1")) for model in (BASE, TARGET))  # fmt: skip
    at = craft.differing(before, after, 1)
    blocks = blocks_of(GOOD)
    if dense:
        block = Block(0, 3, reference.DENSE, len(at), craft.encode_dense(after, U8), reference.xxh3(after) & 0xFFFFFFFF)
    else:
        values = [after[i : i + 1] for i in at]
        tokens = [craft.token(before[i], after[i], 8, signed_view=True) for i in at]
        payload = craft.encode_sparse_flat(len(after), at, tokens, U8_TABLE)
        block = Block(0, 3, reference.SPARSE_FLAT, len(at), payload, craft.sparse_checksum(at, values))
    parts, good_patch = good(), reference.read_patch(GOOD)
    set_blocks(parts, [*blocks[:D], block, *blocks[E:]])
    models = {14: (CLASSES["F8_E4M3"], good_patch.models[14].tables), 19: (CLASSES["F4"], good_patch.models[19].tables)}
    tables = dict(sorted((good_patch.tables | {14: U8_TABLE, 15: U8_TABLE}).items()))
    parts.set(TABLES, craft.encode_tables(tables, models))
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
            lambda p: (p.remove(NAMES), set_blocks(p, [*blocks[:D], Block(0, 2, *rest(blocks[G])), *blocks[E:]]))),
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
    half_block = Block(1, 1, reference.DENSE, len(half), craft.encode_dense(half, U8),
                       reference.xxh3(half) & 0xFFFFFFFF)  # fmt: skip
    eight = {"dtype": "U8", "shape": [8], "bytes": 8}
    new = bytes([0, 0, 0, 1, 0, 0, 0, 0])
    digest = running_digest(new)
    both = BASE.tensors[0] + new
    dense_both = Block(0, 2, reference.DENSE, 308, craft.encode_dense(both, U8), reference.xxh3(both) & 0xFFFFFFFF)
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
    for group in (container, sections, info, directory, *block_attacks.GROUPS, code_attacks.packed_bytes, compression,
                  names, side_files, layouts):  # fmt: skip
        for name, attack in group().items():
            assert name not in attacks, name
            attacks[name] = (attack, CORRUPT)
    assert model_digest(TARGET.layout, TARGET.tensors) == reference.read_patch(GOOD).target_model
    return attacks
