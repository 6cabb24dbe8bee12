#!/usr/bin/env python3
"""A slow, independent reader of Skerry patches, written from docs/patch-format.md alone.

It exists to keep that document honest: it shares no code with src/skerry, prefers the plain way to the fast one, and
follows the document from top to bottom. It needs Python 3.11, `zstandard` and `xxhash`; reference_checkpoint.py has the
part about checkpoints.

    python skerry_reference.py apply BASE PATCH OUT    writes the target checkpoint into the new directory OUT
    python skerry_reference.py show PATCH              prints what a patch says about itself
    python skerry_reference.py verify CHECKPOINT       prints the digests of a checkpoint directory

Everything that a reader must refuse raises `Refused`, and nothing has been written then.
"""

from __future__ import annotations

import functools
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import xxhash
import zstandard

from reference_checkpoint import (
    CELL_UNITS,
    DTYPES,
    MAX_NAME_BYTES,
    MAX_RANK,
    Checkpoint,
    DType,
    Layout,
    Refused,
    cells_of,
    check_relative_path,
    dtype_of_code,
    model_digest,
    parse_layout,
    read_checkpoint,
)

# ---------------------------------------------------------------------------------------------------------------------
# Terms


class Cursor:
    """Reads integers, varints and texts from the front of untrusted bytes."""

    def __init__(self, data: bytes, what: str):
        self.data, self.at, self.what = data, 0, what

    def raw(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise Refused(f"{self.what}: {size} bytes wanted at {self.at}, but it has {len(self.data)}")
        self.at += size
        return self.data[self.at - size : self.at]

    def unsigned(self, size: int) -> int:
        return int.from_bytes(self.raw(size), "little")

    def varint(self) -> int:
        value = 0
        for i in range(10):
            byte = self.unsigned(1)
            value |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                if byte == 0 and i > 0:
                    raise Refused(f"{self.what}: a varint before byte {self.at} is longer than it need be")
                if value >= 2**64:
                    raise Refused(f"{self.what}: a varint before byte {self.at} exceeds 64 bits")
                return value
        raise Refused(f"{self.what}: a varint before byte {self.at} is longer than 10 bytes")

    def text(self) -> str:
        raw = self.raw(self.varint())
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise Refused(f"{self.what}: the text {raw[:64]!r} is not UTF-8") from None

    def rest(self) -> bytes:
        return self.raw(len(self.data) - self.at)

    def end(self) -> None:
        if self.at != len(self.data):
            raise Refused(f"{self.what}: {len(self.data) - self.at} bytes too many")


# ---------------------------------------------------------------------------------------------------------------------
# File and sections

MAGIC, END_MAGIC = b"\x8aSKERRY\n", b"\nYRREKS\x8a"
VERSION = 1
HEADER_BYTES, FOOTER_BYTES, ENTRY_BYTES = 24, 28, 17
STRUCTURAL, BOXED, CODES = 1 << 0, 1 << 1, 1 << 2
INFO, TABLES, DIRECTORY, NAMES, LAYOUT, SIDE_FILES, BOXES = range(1, 8)
SECTION_NAMES = {INFO: "info", TABLES: "tables", DIRECTORY: "directory", NAMES: "names", LAYOUT: "layout",
                 SIDE_FILES: "side files", BOXES: "boxes"}  # fmt: skip
SECTION_LIMITS = {INFO: 256, TABLES: 64 << 10, DIRECTORY: 1 << 30, NAMES: 256 << 20, LAYOUT: 256 << 20,
                  SIDE_FILES: 256 << 20, BOXES: 32 << 20}  # fmt: skip
MAX_CELLS_PER_BLOCK = 64
MAX_CLASSES = 16
U8_CODE = 1  # of the dtype
DENSE, SPARSE_FLAT, SPARSE_MAGNITUDE = 0, 1, 2
METHOD_NAMES = {DENSE: "dense", SPARSE_FLAT: "sparse-flat", SPARSE_MAGNITUDE: "sparse-magnitude"}


@dataclass
class Block:
    first_cell: int
    cells: int
    method: int
    changes: int  # k
    payload: bytes
    checksum: int


@dataclass
class Run:
    """What a block holds of one tensor."""

    ordinal: int  # of the tensor in the target
    first_unit: int
    units: int


@dataclass
class PlacedBlock:
    block: Block
    runs: list[Run]

    @property
    def units(self) -> int:  # n
        return sum(run.units for run in self.runs)


@dataclass
class MagnitudeModel:
    lowest: list[int]  # magnitude of each class
    tables: list[list[int]]  # of each class

    def class_of(self, magnitude: int) -> int:
        return max(c for c, lowest in enumerate(self.lowest) if lowest <= magnitude)


@dataclass
class Box:
    """Of a tensor: along each axis, elements from `start` on, `size` of them."""

    ordinal: int  # of the tensor in the model
    start: list[int]
    size: list[int]


@dataclass
class Patch:
    structural: bool
    base_model: bytes = b""
    target_model: bytes = b""
    base_layout: bytes = b""
    target_layout: bytes = b""
    base_tensors: bytes = b""
    units: int = 0
    changes: int = 0
    block_count: int = 0
    tables: dict[int, list[int]] = field(default_factory=dict)  # dtype code -> 32 frequencies
    models: dict[int, MagnitudeModel] = field(default_factory=dict)  # dtype code -> model
    blocks: list[Block] = field(default_factory=list)
    names: list[tuple[int, str, DType, list[int], int]] = field(default_factory=list)
    layout: bytes | None = None
    side_files: dict[str, bytes | None] = field(default_factory=dict)  # None: removed
    boxes: list[Box] = field(default_factory=list)  # what the patch's tensors are, where they are boxes of a model's
    section_sizes: dict[str, int] = field(default_factory=dict)


def xxh3(data: bytes, seed: int = 0) -> int:
    return xxhash.xxh3_64_intdigest(data, seed)


def unzstd(frame: bytes, raw_size: int, what: str, must_state_size: bool) -> bytes:
    """Exactly one frame of `raw_size` bytes, which the caller has found reasonable."""
    try:
        stated = zstandard.get_frame_parameters(frame).content_size
        if stated != raw_size and (must_state_size or stated != zstandard.CONTENTSIZE_UNKNOWN):
            raise Refused(f"{what}: the zstd frame states {stated} bytes, expected {raw_size}")
        raw = zstandard.ZstdDecompressor().decompress(frame, max_output_size=raw_size, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise Refused(f"{what}: zstd: {error}") from None
    if len(raw) != raw_size:
        raise Refused(f"{what}: {len(raw)} bytes decompressed, expected {raw_size}")
    return raw


def read_patch(data: bytes) -> Patch:
    """All of a patch; the blocks' payloads are cut out but not decoded."""
    if len(data) < HEADER_BYTES + FOOTER_BYTES:
        raise Refused(f"the patch has {len(data)} bytes, at least {HEADER_BYTES + FOOTER_BYTES} are needed")
    header = Cursor(data[:HEADER_BYTES], "the patch's header")
    if header.raw(8) != MAGIC:
        raise Refused("not a Skerry patch: wrong magic")
    version, zero, features = header.unsigned(4), header.unsigned(4), header.unsigned(8)
    if version != VERSION:
        raise Refused(f"patch format version {version}; this reader knows {VERSION}")
    for bit in range(64):
        if features >> bit & 1 and not (STRUCTURAL | BOXED | CODES) >> bit & 1:
            raise Refused(f"unknown feature bit {bit}")
    if zero != 0:
        raise Refused(f"the header's reserved field is {zero}")

    footer = Cursor(data[-FOOTER_BYTES:], "the patch's footer")
    blocks_bytes, section_count, checksum = footer.unsigned(8), footer.unsigned(4), footer.unsigned(8)
    if footer.raw(8) != END_MAGIC:
        raise Refused("wrong magic at the end: truncated, or bytes were added")
    if section_count > len(SECTION_NAMES):
        raise Refused(f"{section_count} sections; there are at most {len(SECTION_NAMES)}")
    table_start = len(data) - FOOTER_BYTES - section_count * ENTRY_BYTES
    if table_start < HEADER_BYTES:
        raise Refused(f"{section_count} sections do not fit into {len(data)} bytes")
    table = data[table_start:-FOOTER_BYTES]
    if xxh3(data[:HEADER_BYTES] + table + data[-FOOTER_BYTES:][:12]) != checksum:
        raise Refused("the checksum of header, section table and footer is wrong")

    at, last_kind, sections = HEADER_BYTES + blocks_bytes, 0, {}
    entries = Cursor(table, "the section table")
    for _ in range(section_count):
        kind, size, section_checksum = entries.unsigned(1), entries.unsigned(8), entries.unsigned(8)
        if kind not in SECTION_NAMES:
            raise Refused(f"unknown section {kind}")
        name = SECTION_NAMES[kind]
        if kind <= last_kind:
            raise Refused(f"section {name} stands twice or out of order")
        if size > SECTION_LIMITS[kind]:
            raise Refused(f"section {name} has {size} bytes; the limit is {SECTION_LIMITS[kind]}")
        if size > table_start - at:
            raise Refused(f"section {name} of {size} bytes does not fit")
        sections[kind] = data[at : at + size]
        if xxh3(sections[kind]) != section_checksum:
            raise Refused(f"the checksum of section {name} is wrong")
        at, last_kind = at + size, kind
    if at != table_start:
        raise Refused(f"the sections end at byte {at}, but their table begins at {table_start}")
    if INFO not in sections:
        raise Refused("there is no section info")

    patch = Patch(bool(features & STRUCTURAL))
    patch.section_sizes = {"blocks": blocks_bytes} | {SECTION_NAMES[kind]: len(sections[kind]) for kind in sections}
    read_info(Cursor(sections[INFO], "section info"), patch)
    if TABLES in sections:
        read_tables(Cursor(sections[TABLES], "section tables"), patch)
    if DIRECTORY not in sections and patch.block_count > 0:
        raise Refused(f"there are {patch.block_count} blocks but no directory")
    read_directory(Cursor(sections.get(DIRECTORY, b""), "section directory"), patch,
                   data[HEADER_BYTES : HEADER_BYTES + blocks_bytes])  # fmt: skip
    if NAMES in sections:
        read_names(decompressed(sections[NAMES], NAMES), patch)
    if LAYOUT in sections:
        patch.layout = decompressed(sections[LAYOUT], LAYOUT).rest()
    if SIDE_FILES in sections:
        read_side_files(decompressed(sections[SIDE_FILES], SIDE_FILES), patch)
    if BOXES in sections:
        read_boxes(decompressed(sections[BOXES], BOXES), patch)
    if bool(features & BOXED) != bool(patch.boxes):
        raise Refused(f"{len(patch.boxes)} boxes, against feature bits {features:#x}")
    if bool(features & CODES) != (U8_CODE in patch.models):
        raise Refused(f"magnitude models for dtypes {[*patch.models]}, against feature bits {features:#x}")
    return patch


def decompressed(section: bytes, kind: int) -> Cursor:
    what = f"section {SECTION_NAMES[kind]}"
    cursor = Cursor(section, what)
    raw_size = cursor.varint()
    if raw_size > SECTION_LIMITS[kind]:
        raise Refused(f"{what} has {raw_size} bytes decompressed; the limit is {SECTION_LIMITS[kind]}")
    return Cursor(unzstd(cursor.rest(), raw_size, what, must_state_size=True), what)


def read_info(section: Cursor, patch: Patch) -> None:
    patch.base_model, patch.target_model = section.raw(32), section.raw(32)
    patch.base_layout, patch.target_layout = section.raw(32), section.raw(32)
    patch.base_tensors = section.raw(32)
    patch.units, patch.changes, patch.block_count = section.varint(), section.varint(), section.varint()
    section.end()


def read_frequencies(section: Cursor) -> list[int]:
    count = section.unsigned(1)
    if count > 31:
        raise Refused(f"{section.what}: a frequency table that lists {count} symbols")
    frequencies = [section.varint() for _ in range(count)] + [0] * (31 - count)
    if sum(frequencies) > 4096:
        raise Refused(f"{section.what}: frequencies sum to {sum(frequencies)}, which is more than 4096")
    return frequencies + [4096 - sum(frequencies)]


def read_model(section: Cursor, dtype: DType) -> MagnitudeModel:
    if dtype.magnitude_bits == 0:
        raise Refused(f"{section.what}: a magnitude model for {dtype.name}")
    classes = section.unsigned(1) + 1
    if classes > MAX_CLASSES:
        raise Refused(f"{section.what}: {classes} magnitude classes for {dtype.name}; the limit is {MAX_CLASSES}")
    lowest = [0]
    for c in range(1, classes):
        lowest.append(lowest[-1] + section.varint())
        if not lowest[-2] < lowest[-1] < 1 << dtype.magnitude_bits:
            raise Refused(f"{section.what}: class {c} of {dtype.name} begins at {lowest[-1]}, after {lowest[-2]}")
    shared = section.varint()
    if shared & 1 or shared >> classes != 0:
        raise Refused(f"{section.what}: the tables that {classes} classes of {dtype.name} share are {shared:#b}")
    tables = []
    for c in range(classes):
        tables.append(tables[-1] if shared >> c & 1 else read_frequencies(section))
    return MagnitudeModel(lowest, tables)


def read_tables(section: Cursor, patch: Patch) -> None:
    for entries, read in (
        (patch.tables, lambda dtype: read_frequencies(section)),
        (patch.models, lambda dtype: read_model(section, dtype)),
    ):
        last = -1
        for _ in range(section.varint()):
            code = section.unsigned(1)
            dtype = dtype_of_code(code, section.what)
            if code <= last:
                raise Refused(f"{section.what}: dtype code {code} after {last}")
            entries[code] = read(dtype)
            last = code
    section.end()


def read_directory(section: Cursor, patch: Patch, payloads: bytes) -> None:
    next_cell, payload = 0, Cursor(payloads, "the block payloads")
    for number in range(patch.block_count):
        first_cell = next_cell + section.varint()
        cells, method = section.unsigned(1) + 1, section.unsigned(1)
        changes, size, checksum = section.varint(), section.varint(), section.unsigned(4)
        if cells > MAX_CELLS_PER_BLOCK:
            raise Refused(f"block {number} has {cells} cells; the limit is {MAX_CELLS_PER_BLOCK}")
        if method not in METHOD_NAMES:
            raise Refused(f"block {number}: unknown method {method}")
        if changes < 1:
            raise Refused(f"block {number} has no changes")
        patch.blocks.append(Block(first_cell, cells, method, changes, payload.raw(size), checksum))
        next_cell = first_cell + cells
    section.end()
    payload.end()
    total = sum(block.changes for block in patch.blocks)
    if total != patch.changes:
        raise Refused(f"the blocks have {total} changes together, but section info says {patch.changes}")


def read_names(section: Cursor, patch: Patch) -> None:
    next_ordinal = 0
    for _ in range(section.varint()):
        ordinal = next_ordinal + section.varint()
        name, dtype, rank = section.text(), dtype_of_code(section.unsigned(1), section.what), section.varint()
        if ordinal >= 2**64 or len(name.encode()) > MAX_NAME_BYTES or rank > MAX_RANK:
            raise Refused(f"{section.what}: tensor {ordinal} of rank {rank} has a name of {len(name.encode())} bytes")
        shape, changes = [section.varint() for _ in range(rank)], section.varint()
        if changes > patch.changes:
            raise Refused(f"{section.what}: tensor {ordinal} has {changes} changes, all have {patch.changes}")
        patch.names.append((ordinal, name, dtype, shape, changes))
        next_ordinal = ordinal + 1
    section.end()


def read_side_files(section: Cursor, patch: Patch) -> None:
    last = b""
    for _ in range(section.varint()):
        path = section.text()
        check_relative_path(path)
        if path.endswith(".safetensors"):
            raise Refused(f"side file {path!r} is a safetensors file")
        if path.encode() <= last:
            raise Refused(f"side file {path!r} stands twice or out of order")
        present = section.unsigned(1)
        if present > 1:
            raise Refused(f"side file {path!r}: {present} is neither 0 (removed) nor 1 (content)")
        patch.side_files[path] = section.raw(section.varint()) if present else None
        last = path.encode()
    section.end()


def read_boxes(section: Cursor, patch: Patch) -> None:
    for number in range(section.varint()):
        ordinal, rank = section.varint(), section.varint()
        if rank > MAX_RANK:
            raise Refused(f"box {number} has {rank} axes; the limit is {MAX_RANK}")
        axes = [(section.varint(), section.varint()) for _ in range(rank)]
        patch.boxes.append(Box(ordinal, [start for start, _ in axes], [size for _, size in axes]))
    section.end()


# ---------------------------------------------------------------------------------------------------------------------
# Blocks


def place(patch: Patch, target: Layout) -> list[PlacedBlock]:
    """Finds each block's units. Cells are numbered over the target's tensors, sorted by dtype code, then by name."""
    if target.units != patch.units:
        raise Refused(f"the target has {target.units} units, but section info says {patch.units}")
    order = sorted(range(len(target.tensors)), key=lambda ordinal: (target.tensors[ordinal].dtype.code, ordinal))
    first_cells = [0]  # of each tensor in this order, and of what would follow the last one
    for ordinal in order:
        first_cells.append(first_cells[-1] + cells_of(target.tensors[ordinal].units))
    placed, at = [], 0
    for number, block in enumerate(patch.blocks):
        end = block.first_cell + block.cells
        if end > first_cells[-1]:
            raise Refused(f"block {number} has cells {block.first_cell} to {end}; the target has {first_cells[-1]}")
        runs, cell = [], block.first_cell
        while cell < end:
            while cell >= first_cells[at + 1]:
                at += 1
            tensor, first_unit = target.tensors[order[at]], (cell - first_cells[at]) * CELL_UNITS
            cells = min(end, first_cells[at + 1]) - cell
            runs.append(Run(order[at], first_unit, min(cells * CELL_UNITS, tensor.units - first_unit)))
            cell += cells
        dtypes = {target.tensors[run.ordinal].dtype.name for run in runs}
        if len(dtypes) > 1:
            raise Refused(f"block {number} mixes {sorted(dtypes)}")
        placed.append(PlacedBlock(block, runs))
        if block.changes > placed[-1].units:
            raise Refused(f"block {number} has {block.changes} changes among {placed[-1].units} units")
    return placed


def decode_block(placed: PlacedBlock, dtype: DType, old: bytes | None, patch: Patch) -> tuple[list[int], list[bytes]]:
    """Positions, relative to the block, and the new value of each. `old` is what the base has there, if anything."""
    block = placed.block
    what = f"the block at cell {block.first_cell}"
    if block.method == DENSE:
        values = decode_dense(block.payload, placed.units, dtype, what)
        positions, seed = list(range(placed.units)), 0
    else:
        if old is None:
            raise Refused(f"{what} is {METHOD_NAMES[block.method]}, but the base has no such tensor")
        decode = decode_sparse_flat if block.method == SPARSE_FLAT else decode_sparse_magnitude
        new_units = decode(block, placed.units, dtype, patch, old, what)
        positions, values = list(new_units), list(new_units.values())
        if len(positions) != block.changes:
            raise Refused(f"{what}: {len(positions)} units change, not {block.changes}")
        seed = xxh3(b"".join(struct.pack("<I", position) for position in positions))
    if xxh3(b"".join(values), seed) & 0xFFFFFFFF != block.checksum:
        raise Refused(f"{what}: the checksum is wrong")
    return positions, values


def decode_dense(payload: bytes, units: int, dtype: DType, what: str) -> list[bytes]:
    cursor, planes = Cursor(payload, what), []
    for _ in range(dtype.unit):
        plane = cursor.raw(cursor.varint())
        planes.append(plane if len(plane) == units else unzstd(plane, units, what, must_state_size=False))
    cursor.end()
    values = [bytes(value) for value in zip(*planes)]
    return [rotated_right(value) for value in values] if dtype.rotated else values


def rotated_right(value: bytes) -> bytes:
    """By one bit."""
    number, bits = int.from_bytes(value, "little"), 8 * len(value)
    return (number >> 1 | (number & 1) << bits - 1).to_bytes(len(value), "little")


def decode_sparse_flat(block: Block, units: int, dtype: DType, patch: Patch, old: bytes, what: str) -> dict[int, bytes]:
    """The units that change, by position."""
    if dtype.code not in patch.tables:
        raise Refused(f"{what}: there is no value table for {dtype.name}")
    cursor = Cursor(block.payload, what)
    values = values_of(old, 8 * dtype.unit)
    strand = Strand(range(units), block.changes, patch.tables[dtype.code])
    changed = decode_strands(cursor, [strand], values, 8 * dtype.unit, dtype.signed_view, what)
    return {position: value.to_bytes(dtype.unit, "little") for position, value in changed.items()}


def decode_sparse_magnitude(block: Block, units: int, dtype: DType, patch: Patch, old: bytes,
                            what: str) -> dict[int, bytes]:  # fmt: skip
    """The same."""
    if dtype.code not in patch.models:
        raise Refused(f"{what}: there is no magnitude model for {dtype.name}")
    model, width = patch.models[dtype.code], dtype.magnitude_width
    elements = values_of(old, width)
    members = [[] for _ in model.lowest]  # the elements of each class
    class_of = {}
    for i, element in enumerate(elements):
        magnitude = element & ((1 << dtype.magnitude_bits) - 1)
        if magnitude not in class_of:
            class_of[magnitude] = model.class_of(magnitude)
        members[class_of[magnitude]].append(i)
    cursor = Cursor(block.payload, what)
    strands = [Strand(members[c], cursor.varint(), model.tables[c]) for c in range(len(members))]
    # The code of F4 is sign and magnitude, unlike its unit.
    signed_view = dtype.signed_view or dtype.name == "F4"
    changed = decode_strands(cursor, strands, elements, width, signed_view, what)
    per_unit = 8 * dtype.unit // width
    new_units = {}
    for position in {i // per_unit: None for i in sorted(changed)}:
        unit = 0
        for part in range(per_unit):
            i = position * per_unit + part
            unit |= changed.get(i, elements[i]) << part * width
        new_units[position] = unit.to_bytes(dtype.unit, "little")
    return new_units


def values_of(data: bytes, width: int) -> list[int]:
    """The bits of the elements in `data`, each of `width` bits."""
    if width == 4:
        return [code for byte in data for code in (byte & 15, byte >> 4)]
    form = {8: "B", 16: "H", 32: "I", 64: "Q"}[width]
    return list(struct.unpack(f"<{len(data) * 8 // width}{form}", data))


# ---------------------------------------------------------------------------------------------------------------------
# Change streams


@dataclass
class Strand:
    members: Sequence[int]  # their positions
    changes: int
    value_table: list[int]


def pairs_of_states(changes: int) -> int:
    """From the number of changes of all strands."""
    return 2 if changes >= 64 else 1


class Bits:
    """The raw bits: from bit 0 of the first byte upwards."""

    def __init__(self, data: bytes, what: str):
        self.value, self.size, self.at, self.what = int.from_bytes(data, "little"), 8 * len(data), 0, what

    def take(self, count: int) -> int:
        if count > self.size - self.at:
            raise Refused(f"{self.what}: the raw bits end too early")
        self.at += count
        return self.value >> (self.at - count) & ((1 << count) - 1)

    def end(self) -> None:
        if self.size - self.at >= 8 or self.value >> self.at != 0:
            raise Refused(f"{self.what}: raw bits are left over")


class EntropyDecoder:
    """Several states share the words; a state is named by its index."""

    def __init__(self, states: list[int], words: list[int], what: str):
        self.states, self.words, self.next_word, self.what = states, words, 0, what
        if min(states) < 65536:
            raise Refused(f"{what}: a state begins below 65536")

    def take(self, which: int, frequencies: list[int]) -> int:
        x = self.states[which]
        r, start, symbol = x % 4096, 0, 0
        while r >= start + frequencies[symbol]:
            start += frequencies[symbol]
            symbol += 1
        x = frequencies[symbol] * (x // 4096) + r - start
        if x < 65536:
            if self.next_word == len(self.words):
                raise Refused(f"{self.what}: the words end too early")
            x = x * 65536 + self.words[self.next_word]
            self.next_word += 1
        self.states[which] = x
        return symbol

    def end(self) -> None:
        if set(self.states) != {65536} or self.next_word != len(self.words):
            raise Refused(f"{self.what}: the entropy coder does not end where it began")


def decode_strands(cursor: Cursor, strands: list[Strand], olds: list[int], width: int, signed_view: bool,
                   what: str) -> dict[int, int]:  # fmt: skip
    """The new values by position, from the old values at all positions."""
    for number, strand in enumerate(strands):
        if strand.changes > len(strand.members):
            raise Refused(f"{what}: {strand.changes} changes of the {len(strand.members)} members of strand {number}")
    pairs = pairs_of_states(sum(strand.changes for strand in strands))
    states = [cursor.unsigned(4) for _ in range(2 * pairs)]
    words = [cursor.unsigned(2) for _ in range(min(cursor.varint(), len(cursor.data)))]
    coder, bits = EntropyDecoder(states, words, what), Bits(cursor.rest(), what)
    news, i = {}, 0
    for strand in strands:
        if strand.changes == 0:
            continue
        gap_table, low_bits, escape = gap_model(len(strand.members), strand.changes)
        next_member = 0
        for _ in range(strand.changes):
            gap_state, value_state = 2 * (i % pairs), 2 * (i % pairs) + 1
            quotient = 0
            while (symbol := coder.take(gap_state, gap_table)) == escape:
                quotient += escape
            value_symbol = coder.take(value_state, strand.value_table)
            member = next_member + ((quotient + symbol) << low_bits) + bits.take(low_bits)
            if member >= len(strand.members):
                raise Refused(f"{what}: member {member} of a strand of {len(strand.members)}")
            position = strand.members[member]
            news[position] = new_value(value_symbol, bits, olds[position], width, signed_view, what)
            next_member, i = member + 1, i + 1
    coder.end()
    bits.end()
    return news


# ---------------------------------------------------------------------------------------------------------------------
# Gaps

RATIOS = {
    1: [36409, 41705, 45371, 48060],
    2: [50972, 53620, 55454, 56798],
    3: [51782, 54162, 55841, 57089],
    4: [52142, 54408, 56020, 57225],
    5: [52477, 54641, 56191, 57355],
}


def floor_log2(value: int) -> int:
    return value.bit_length() - 1


def gap_model(members: int, changes: int) -> tuple[list[int], int, int]:
    """The gap table, the number of raw low bits, and the escape of a strand, from its `n` and `k`."""
    unchanged = members - changes
    if unchanged == 0:
        return [4096] + [0] * 31, 0, 7
    if unchanged < changes:
        share = unchanged * 2**32 // members
        octave = 12 if share == 0 else min(12, 31 - floor_log2(share))
        f = share // 2 ** (29 - octave) % 4
        return gap_table((9 + 2 * f) * 2 ** (12 - octave), 7), 0, 7
    mean = members * 65536 // changes
    e = floor_log2(mean) - 16
    f = mean // 2 ** (e + 14) % 4
    return gap_table(RATIOS[min(e, 5)][f], 31), max(0, e - 2), 31


@functools.cache
def gap_table(ratio: int, escape: int) -> list[int]:
    values = [2**32]
    for _ in range(escape):
        values.append(values[-1] * ratio // 65536)
    values[escape] = values[escape] * 65536 // (65536 - ratio)
    weights = [max(1, value) for value in values]
    frequencies = [1 + weight * (4095 - escape) // sum(weights) for weight in weights]
    frequencies[frequencies.index(max(frequencies))] += 4096 - sum(frequencies)
    return frequencies + [0] * (31 - escape)


# ---------------------------------------------------------------------------------------------------------------------
# Values


def ordered(bits: int, width: int, signed_view: bool) -> int:
    """The ordered view of a value's bits. It is its own inverse."""
    sign = 1 << (width - 1)
    return bits ^ (sign - 1) if signed_view and bits & sign else bits


def new_value(symbol: int, bits: Bits, old: int, width: int, signed_view: bool, what: str) -> int:
    if symbol == 31:
        return bits.take(width)
    rank = symbol
    if symbol >= 16:
        rank = (1 << (symbol - 12)) + bits.take(symbol - 12)
    if rank >= 1 << width:
        raise Refused(f"{what}: rank {rank} of a value of {width} bits")
    step = rank // 2 + 1 if rank % 2 == 0 else -(rank // 2 + 1)
    return ordered((ordered(old, width, signed_view) + step) % (1 << width), width, signed_view)


# ---------------------------------------------------------------------------------------------------------------------
# Applying


def target_layout(patch: Patch, base: Layout) -> Layout:
    """The target's layout: the patch's own, else the base's."""
    if patch.layout is None:
        if patch.structural:
            raise Refused("the patch is structural but has no layout")
        if patch.target_layout != patch.base_layout:
            raise Refused("the target's layout is not the base's, but the patch does not hold it")
        return base
    layout = parse_layout(patch.layout)
    if layout.digest() != patch.target_layout:
        raise Refused("the layout in the patch is not the one that section info announces")
    if not patch.structural and layout.tensors_digest() != patch.base_tensors:
        raise Refused("the layout in the patch has other tensors than the base, but the patch is not structural")
    return layout


def apply_patch(patch: Patch, base: Checkpoint) -> Checkpoint:
    """The target in memory; every check of the document has passed when this returns. For a patch over boxes, `base`
    is a checkpoint of these (reference_boxes.py)."""
    if base.layout.tensors_digest() != patch.base_tensors:
        raise Refused(f"the patch is for tensors {patch.base_tensors.hex()}, but the base has "
                      f"{base.layout.tensors_digest().hex()}")  # fmt: skip
    base_digest = model_digest(base.layout, base.tensors)
    if base_digest != patch.base_model:
        raise Refused(f"the patch is for model {patch.base_model.hex()}, but the base is {base_digest.hex()}")
    layout = target_layout(patch, base.layout)

    old_of = {tensor.type(): data for tensor, data in zip(base.layout.tensors, base.tensors)}
    olds = [old_of.get(tensor.type()) for tensor in layout.tensors]
    blocks = place(patch, layout)
    for placed in blocks:
        if len({olds[run.ordinal] is None for run in placed.runs}) > 1:
            raise Refused(f"the block at cell {placed.block.first_cell} mixes new tensors with others")
    for ordinal, tensor in enumerate(layout.tensors):
        covered = sum(run.units for placed in blocks for run in placed.runs if run.ordinal == ordinal)
        if olds[ordinal] is None and covered != tensor.units:
            raise Refused(f"tensor {tensor.name!r} is new, but only {covered} of its {tensor.units} units are given")
    news = [bytearray(old or tensor.end - tensor.begin) for tensor, old in zip(layout.tensors, olds)]
    for placed in blocks:
        dtype = layout.tensors[placed.runs[0].ordinal].dtype
        old_bytes = None
        for run in placed.runs:
            start, end = run.first_unit * dtype.unit, (run.first_unit + run.units) * dtype.unit
            if olds[run.ordinal] is not None:
                old_bytes = (old_bytes or b"") + olds[run.ordinal][start:end]
        runs = iter(placed.runs)
        run, before = next(runs), 0  # the run of a position, and how many units lie before it
        for position, value in zip(*decode_block(placed, dtype, old_bytes, patch)):
            while position >= before + run.units:
                before += run.units
                run = next(runs)
            at = (run.first_unit + position - before) * dtype.unit
            news[run.ordinal][at : at + dtype.unit] = value
    tensors = [bytes(new) for new in news]
    target_digest = model_digest(layout, tensors)
    if target_digest != patch.target_model:
        raise Refused(f"the patch announces model {patch.target_model.hex()}, but it makes {target_digest.hex()}")

    side_files = dict(base.side_files)
    for path, content in patch.side_files.items():
        side_files.pop(path, None)
        if content is not None:
            side_files[path] = content
    return Checkpoint(layout, tensors, side_files)


def checkpoint_files(checkpoint: Checkpoint) -> dict[str, bytes]:
    """Every file of a checkpoint. A safetensors file is its header followed by its tensors without holes."""
    files = dict(checkpoint.side_files)
    for number, (name, header) in enumerate(checkpoint.layout.files):
        if name in files:
            raise Refused(f"{name!r} is both a side file and a safetensors file")
        tensors = zip(checkpoint.layout.tensors, checkpoint.tensors)
        parts = [(tensor.begin, tensor.end, data) for tensor, data in tensors if tensor.file == number]
        raw = header.encode()
        files[name] = struct.pack("<Q", len(raw)) + raw + b"".join(data for _, _, data in sorted(parts))
    for path in files:
        for parent in Path(path).parents:
            if parent.as_posix() in files:
                raise Refused(f"{parent.as_posix()!r} is both a file and the folder of {path!r}")
    return files


def apply_files(base_directory: Path, patch_path: Path, out: Path) -> None:
    out = Path(out)
    if out.exists():
        raise Refused(f"{out} exists")
    patch = read_patch(Path(patch_path).read_bytes())
    for name, content in checkpoint_files(apply_patch(patch, read_checkpoint(base_directory))).items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(content)


# ---------------------------------------------------------------------------------------------------------------------
# Command line


def show(patch: Patch) -> str:
    lines = [
        f"base model      {patch.base_model.hex()}",
        f"target model    {patch.target_model.hex()}",
        f"base layout     {patch.base_layout.hex()}",
        f"target layout   {patch.target_layout.hex()}",
        f"base tensors    {patch.base_tensors.hex()}",
        f"structural      {'yes' if patch.structural else 'no'}",
        f"units           {patch.units}",
        f"changes         {patch.changes}",
        f"blocks          {patch.block_count}",
    ]
    lines += [f"{name:16}{size} bytes" for name, size in patch.section_sizes.items()]
    for code, table in patch.tables.items():
        lines.append(f"value table     {DTYPES[code].name}: {' '.join(map(str, table))}")
    for code, model in patch.models.items():
        for lowest, table in zip(model.lowest, model.tables):
            lines.append(f"magnitudes      {DTYPES[code].name} from {lowest:#x}: {' '.join(map(str, table))}")
    for block in patch.blocks:
        lines.append(f"block           cell {block.first_cell} + {block.cells}, {METHOD_NAMES[block.method]}, "
                     f"{block.changes} changes, {len(block.payload)} bytes")  # fmt: skip
    for ordinal, name, dtype, shape, changes in patch.names:
        lines.append(f"tensor          {ordinal} {name!r} {dtype.name} {shape}, {changes} changes")
    for path, content in patch.side_files.items():
        lines.append(f"side file       {path!r} {'removed' if content is None else f'{len(content)} bytes'}")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    try:
        match arguments:
            case ["apply", base, patch, out]:
                apply_files(Path(base), Path(patch), Path(out))
            case ["show", patch]:
                print(show(read_patch(Path(patch).read_bytes())))
            case ["verify", directory]:
                checkpoint = read_checkpoint(Path(directory))
                print(f"model   {model_digest(checkpoint.layout, checkpoint.tensors).hex()}")
                print(f"layout  {checkpoint.layout.digest().hex()}")
                print(f"tensors {checkpoint.layout.tensors_digest().hex()}")
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except (Refused, OSError) as error:
        print(f"skerry_reference: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
