"""Makes patches in Python, well-formed and otherwise: what tests need that the product's own encoder never writes.

`take_apart` and `assemble` are inverse; between the two a test may damage any part, and all checksums are made right
again, so that a reader gets as deep as the damage. `encode_patch` is a second encoder that leaves its choices to the
caller.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import zstandard

import skerry_reference as reference
from reference_checkpoint import CELL_UNITS, DTYPES, Checkpoint, DType, model_digest

# ---------------------------------------------------------------------------------------------------------------------
# Bytes


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def over_long_varint(value: int) -> bytes:
    """The same value with a trailing zero byte."""
    shortest = varint(value)
    return shortest[:-1] + bytes([shortest[-1] | 0x80, 0])


def text(value: str | bytes) -> bytes:
    raw = value if isinstance(value, bytes) else value.encode()
    return varint(len(raw)) + raw


def compressed(raw: bytes) -> bytes:
    return varint(len(raw)) + zstandard.ZstdCompressor(level=3).compress(raw)


class BitWriter:
    def __init__(self):
        self.value, self.size = 0, 0

    def put(self, bits: int, count: int) -> None:
        self.value |= bits << self.size
        self.size += count

    def bytes(self) -> bytes:
        return self.value.to_bytes((self.size + 7) // 8, "little")


# ---------------------------------------------------------------------------------------------------------------------
# The container


@dataclass
class Block:
    """A directory entry with its payload; `gap` is the distance in cells to the block before."""

    gap: int
    cells: int
    method: int
    changes: int
    payload: bytes
    checksum: int

    def entry(self) -> bytes:
        return (varint(self.gap) + bytes([self.cells - 1, self.method]) + varint(self.changes)
                + varint(len(self.payload)) + struct.pack("<I", self.checksum))  # fmt: skip


@dataclass
class Parts:
    """A patch taken apart. What is None is computed when it is put together."""

    sections: list[tuple[int, bytes]]
    payloads: bytes = b""
    magic: bytes = reference.MAGIC
    version: int = reference.VERSION
    zero: int = 0
    features: int = 0
    blocks_bytes: int | None = None
    section_count: int | None = None
    table_checksum: int | None = None
    end_magic: bytes = reference.END_MAGIC
    section_sizes: dict[int, int] = field(default_factory=dict)  # lies, by kind
    section_checksums: dict[int, int] = field(default_factory=dict)

    def get(self, kind: int) -> bytes:
        return dict(self.sections)[kind]

    def set(self, kind: int, content: bytes) -> None:
        """Replaces a section or inserts it where it belongs."""
        self.sections = sorted([s for s in self.sections if s[0] != kind] + [(kind, content)])

    def remove(self, kind: int) -> None:
        self.sections = [section for section in self.sections if section[0] != kind]

    def assemble(self) -> bytes:
        header = self.magic + struct.pack("<IIQ", self.version, self.zero, self.features)
        table = b""
        for kind, content in self.sections:
            size = self.section_sizes.get(kind, len(content))
            checksum = self.section_checksums.get(kind, reference.xxh3(content))
            table += struct.pack("<BQQ", kind, size, checksum)
        blocks_bytes = len(self.payloads) if self.blocks_bytes is None else self.blocks_bytes
        section_count = len(self.sections) if self.section_count is None else self.section_count
        footer = struct.pack("<QI", blocks_bytes, section_count & 0xFFFFFFFF)
        checksum = reference.xxh3(header + table + footer) if self.table_checksum is None else self.table_checksum
        sections = b"".join(content for _, content in self.sections)
        return header + self.payloads + sections + table + footer + struct.pack("<Q", checksum) + self.end_magic


def take_apart(patch: bytes) -> Parts:
    """`patch` is well-formed."""
    blocks_bytes, section_count = struct.unpack_from("<QI", patch, len(patch) - 28)
    features = struct.unpack_from("<Q", patch, 16)[0]
    at, sections = 24 + blocks_bytes, []
    for i in range(section_count):
        kind, size, _ = struct.unpack_from("<BQQ", patch, len(patch) - 28 - 17 * (section_count - i))
        sections.append((kind, patch[at : at + size]))
        at += size
    return Parts(sections, patch[24 : 24 + blocks_bytes], features=features)


def blocks_of(patch: bytes) -> list[Block]:
    blocks, next_cell = [], 0
    for b in reference.read_patch(patch).blocks:
        blocks.append(Block(b.first_cell - next_cell, b.cells, b.method, b.changes, b.payload, b.checksum))
        next_cell = b.first_cell + b.cells
    return blocks


def set_blocks(parts: Parts, blocks: list[Block]) -> None:
    """Directory, payloads and the counts in section info."""
    parts.payloads = b"".join(block.payload for block in blocks)
    parts.set(reference.DIRECTORY, b"".join(block.entry() for block in blocks))
    set_info(parts, changes=sum(block.changes for block in blocks), blocks=len(blocks))


def set_info(parts: Parts, **values) -> None:
    """Replaces fields of section info: digests by name, units, changes, blocks."""
    info = info_fields(parts.get(reference.INFO)) | values
    parts.set(reference.INFO, encode_info(info))


DIGESTS = ["base_model", "target_model", "base_layout", "target_layout", "base_tensors"]


def info_fields(section: bytes) -> dict:
    cursor = reference.Cursor(section, "section info")
    fields = {name: cursor.raw(32) for name in DIGESTS}
    return fields | {name: cursor.varint() for name in ("units", "changes", "blocks")}


def encode_info(info: dict) -> bytes:
    counts = [varint(info[name]) for name in ("units", "changes", "blocks")]
    return b"".join([info[name] for name in DIGESTS] + counts)


# ---------------------------------------------------------------------------------------------------------------------
# Blocks


def rans_encode(symbols: list[tuple[int, list[int], int]], end=65536, pairs=1) -> tuple[list[int], list[int]]:
    """Encodes (state, frequencies, symbol) triples; returns the states and words from which a decoder ends at `end`."""
    states, words = [end] * (2 * pairs), []
    for which, frequencies, symbol in reversed(symbols):
        frequency, x = frequencies[symbol], states[which]
        assert frequency > 0, f"symbol {symbol} cannot be coded"
        if x >= frequency << 20:
            words.append(x & 0xFFFF)
            x >>= 16
        states[which] = (x // frequency) * 4096 + x % frequency + sum(frequencies[:symbol])
    return states, words[::-1]


def token(before: int, after: int, width: int, signed_view: bool) -> tuple[int, int, int]:
    """Symbol, extra bits, number of extra bits."""
    step = reference.ordered(after, width, signed_view) - reference.ordered(before, width, signed_view)
    step %= 1 << width
    if step >= 1 << (width - 1):
        step -= 1 << width
    assert step != 0
    rank = 2 * (step - 1) if step > 0 else -2 * step - 1
    exponent = rank.bit_length() - 1
    if rank < 16:
        return rank, 0, 0
    if exponent <= 18:
        return exponent + 12, rank - (1 << exponent), exponent
    return 31, after, width


@dataclass
class Strand:
    """What a change stream is told of a strand. Numbers may lead beyond its members."""

    members: int
    changed: list[int]  # numbers
    tokens: list[tuple[int, int, int]]
    value_table: list[int]
    changes: int | None = None  # where it is not their number

    def announced(self) -> int:
        return len(self.changed) if self.changes is None else self.changes


def encode_strands(strands: list[Strand], end=65536) -> bytes:
    """A change stream."""
    symbols, bits, i = [], BitWriter(), 0
    pairs = reference.pairs_of_states(sum(strand.announced() for strand in strands))
    for strand in strands:
        if strand.announced() == 0:
            continue
        gap_table, low_bits, escape = reference.gap_model(strand.members, strand.announced())
        next_member = 0
        for member, (symbol, extra, extra_bits) in zip(strand.changed, strand.tokens):
            gap_state, value_state = 2 * (i % pairs), 2 * (i % pairs) + 1
            gap = member - next_member
            quotient = gap >> low_bits
            symbols += [(gap_state, gap_table, escape)] * (quotient // escape)
            symbols += [(gap_state, gap_table, quotient % escape), (value_state, strand.value_table, symbol)]
            bits.put(gap & ((1 << low_bits) - 1), low_bits)
            bits.put(extra, extra_bits)
            next_member, i = member + 1, i + 1
    states, words = rans_encode(symbols, end, pairs)
    return change_stream(states, words, bits.bytes())


def encode_sparse_flat(units, positions, tokens, value_table, changes=None, end=65536) -> bytes:
    """A payload. Positions may lead beyond the block; `changes` is k where it is not their number."""
    return encode_strands([Strand(units, positions, tokens, value_table, changes)], end)


def encode_sparse_magnitude(strands: list[Strand], end=65536) -> bytes:
    """A payload, a strand a class."""
    return b"".join(varint(strand.announced()) for strand in strands) + encode_strands(strands, end)


def change_stream(states: list[int], words: list[int], raw_bits: bytes) -> bytes:
    raw_words = struct.pack(f"<{len(words)}H", *words)
    return struct.pack(f"<{len(states)}I", *states) + varint(len(words)) + raw_words + raw_bits


def take_stream_apart(payload: bytes, changes: int) -> tuple[list[int], list[int], bytes]:
    """The three arguments of `change_stream`."""
    cursor = reference.Cursor(payload, "payload")
    states = [cursor.unsigned(4) for _ in range(2 * reference.pairs_of_states(changes))]
    words = [cursor.unsigned(2) for _ in range(cursor.varint())]
    return states, words, cursor.rest()


def sparse_checksum(positions: list[int], values: list[bytes]) -> int:
    seed = reference.xxh3(b"".join(struct.pack("<I", position) for position in positions))
    return reference.xxh3(b"".join(values), seed) & 0xFFFFFFFF


def planes_of(values: bytes, dtype: DType) -> list[bytes]:
    """What method dense packs."""
    if dtype.rotated:
        bits = 8 * dtype.unit
        units = [unit << 1 & (1 << bits) - 1 | unit >> bits - 1 for unit in reference.values_of(values, bits)]
        values = b"".join(unit.to_bytes(dtype.unit, "little") for unit in units)
    return [values[p :: dtype.unit] for p in range(dtype.unit)]


def encode_dense(values: bytes, dtype: DType, compress: bool = True) -> bytes:
    out = b""
    for plane in planes_of(values, dtype):
        packed = zstandard.ZstdCompressor(level=3).compress(plane)
        out += text(packed if compress and len(packed) < len(plane) else plane)
    return out


def normalise(counts: list[int]) -> list[int]:
    """Frequencies that sum to 4096; symbols that do not occur get none."""
    used = sum(1 for count in counts if count)
    frequencies = [count and 1 + count * (4096 - used) // sum(counts) for count in counts]
    frequencies[counts.index(max(counts))] += 4096 - sum(frequencies)
    return frequencies


# ---------------------------------------------------------------------------------------------------------------------
# Whole patches


@dataclass
class Classes:
    """The classes of a dtype: their lowest magnitudes, and which of them share the table of the one before."""

    lowest: list[int]
    shared: frozenset[int] = frozenset()

    def tables(self, counts: list[list[int]]) -> list[list[int]]:
        """The table of each class, from how often it uses each symbol."""
        tables = []
        for c in range(len(self.lowest)):
            group = [c]
            while group[-1] + 1 in self.shared:
                group.append(group[-1] + 1)
            sums = [sum(counts[member][symbol] for member in group) for symbol in range(32)]
            if c in self.shared:
                tables.append(tables[-1])
            else:
                tables.append(normalise(sums) if any(sums) else [0] * 31 + [4096])
        return tables


@dataclass
class PlannedBlock:
    first_cell: int
    cells: int
    dtype: DType
    dense: bool
    before: bytes = b""
    after: bytes = b""


def plan_blocks(base: Checkpoint, target: Checkpoint, cells_per_block, dense, spanning: bool) -> list[PlannedBlock]:
    order = sorted(range(len(target.tensors)), key=lambda ordinal: (target.layout.tensors[ordinal].dtype.code, ordinal))
    blocks, cell = [], 0
    for ordinal in order:
        tensor, old, new = target.layout.tensors[ordinal], base.tensors[ordinal], target.tensors[ordinal]
        last = None
        most = cells_per_block if isinstance(cells_per_block, int) else cells_per_block.get(tensor.dtype.name, 1)
        for first in range(0, tensor.units, CELL_UNITS):
            if spanning and blocks and (blocks[-1].dtype, blocks[-1].dense) == (tensor.dtype, tensor.name in dense):
                last = blocks[-1]
            if last is None or last.cells == most:
                last = PlannedBlock(cell, 0, tensor.dtype, tensor.name in dense)
                blocks.append(last)
            start, end = first * tensor.dtype.unit, (first + CELL_UNITS) * tensor.dtype.unit
            last.before += old[start:end]
            last.after += new[start:end]
            last.cells += 1
            cell += 1
    return [block for block in blocks if block.before != block.after]


def strands_of(block: PlannedBlock, classes: Classes | None, escape_every: int) -> list[Strand]:
    """The changes of a sparse block, as yet without tables; a single strand where there are no classes."""
    dtype = block.dtype
    width = 8 * dtype.unit if classes is None else dtype.magnitude_width
    signed_view = dtype.signed_view or (width == 4 and dtype.name == "F4")
    model = reference.MagnitudeModel([0] if classes is None else classes.lowest, [])
    mask = 0 if classes is None else (1 << dtype.magnitude_bits) - 1
    strands = [Strand(0, [], [], []) for _ in model.lowest]
    class_of, count = {}, 0
    for before, after in zip(reference.values_of(block.before, width), reference.values_of(block.after, width)):
        if before & mask not in class_of:
            class_of[before & mask] = model.class_of(before & mask)
        strand = strands[class_of[before & mask]]
        if before != after:
            count += 1
            escaped = escape_every > 0 and count % escape_every == 0
            strand.changed.append(strand.members)
            strand.tokens.append((31, after, width) if escaped else token(before, after, width, signed_view))
        strand.members += 1
    return strands


def encode_patch(base: Checkpoint, target: Checkpoint, cells_per_block: int | dict[str, int] = 1, dense=frozenset(),
                 names=True, classes: dict[str, Classes] | None = None, spanning=False, escape_every=0) -> Parts:
    """A non-structural patch.

    `cells_per_block` is for all dtypes, or by dtype (else 1). `dense`: names of the tensors whose blocks are dense;
    small ones are not compressed. `classes`: of the dtypes whose other blocks are sparse-magnitude. `spanning`: blocks
    go on in the next tensor. `escape_every`: every so many changes of a block travel as the new value.
    """  # fmt: skip
    assert base.layout.tensors_digest() == target.layout.tensors_digest()
    classes = classes or {}
    planned = plan_blocks(base, target, cells_per_block, dense, spanning)
    strands_by_block, counts = [], {}  # counts by dtype code, class and symbol
    for block in planned:
        strands = [] if block.dense else strands_of(block, classes.get(block.dtype.name), escape_every)
        strands_by_block.append(strands)
        for c, strand in enumerate(strands):
            of_class = counts.setdefault(block.dtype.code, [[0] * 32 for _ in strands])[c]
            for symbol, _, _ in strand.tokens:
                of_class[symbol] += 1
    tables, models = {}, {}
    for code, count in sorted(counts.items()):
        if (own := classes.get(DTYPES[code].name)) is None:
            tables[code] = normalise(count[0])
        else:
            models[code] = (own, own.tables(count))

    blocks, next_cell = [], 0
    for block, strands in zip(planned, strands_by_block):
        unit = block.dtype.unit
        at = differing(block.before, block.after, unit)
        if block.dense:
            payload = encode_dense(block.after, block.dtype, compress=len(block.after) > 1024 * unit)
            method, checksum = reference.DENSE, reference.xxh3(block.after) & 0xFFFFFFFF
        else:
            of_class = models[block.dtype.code][1] if block.dtype.code in models else [tables[block.dtype.code]]
            for strand, table in zip(strands, of_class):
                strand.value_table = table
            method = reference.SPARSE_MAGNITUDE if block.dtype.code in models else reference.SPARSE_FLAT
            payload = encode_sparse_magnitude(strands) if block.dtype.code in models else encode_strands(strands)
            checksum = sparse_checksum(at, [block.after[i * unit : (i + 1) * unit] for i in at])
        blocks.append(Block(block.first_cell - next_cell, block.cells, method, len(at), payload, checksum))
        next_cell = block.first_cell + block.cells

    info = {
        "base_model": model_digest(base.layout, base.tensors),
        "target_model": model_digest(target.layout, target.tensors),
        "base_layout": base.layout.digest(),
        "target_layout": target.layout.digest(),
        "base_tensors": base.layout.tensors_digest(),
        "units": target.layout.units,
        "changes": 0,
        "blocks": 0,
    }
    parts = Parts([(reference.INFO, encode_info(info))])
    parts.features = reference.CODES if reference.U8_CODE in models else 0
    parts.set(reference.TABLES, encode_tables(tables, models))
    set_blocks(parts, blocks)
    named = [(ordinal, tensor, len(differing(old, new, tensor.dtype.unit)))
             for ordinal, (tensor, old, new) in enumerate(zip(target.layout.tensors, base.tensors, target.tensors))
             if old != new]  # fmt: skip
    if names and named:
        parts.set(reference.NAMES, compressed(encode_names(named)))
    if target.layout.digest() != base.layout.digest():
        parts.set(reference.LAYOUT, compressed(target.layout.json()))
    changed = {path: target.side_files.get(path) for path in base.side_files | target.side_files
               if base.side_files.get(path) != target.side_files.get(path)}  # fmt: skip
    if changed:
        parts.set(reference.SIDE_FILES, compressed(encode_side_files(changed)))
    return parts


def differing(before: bytes, after: bytes, unit: int) -> list[int]:
    """The indices of the units that differ."""
    starts = range(0, len(before), unit)
    return [at // unit for at in starts if before[at : at + unit] != after[at : at + unit]]


def encode_frequencies(frequencies: list[int]) -> bytes:
    listed = max((i + 1 for i, frequency in enumerate(frequencies[:31]) if frequency), default=0)
    return bytes([listed]) + b"".join(varint(frequency) for frequency in frequencies[:listed])


Models = dict[int, tuple[Classes, list[list[int]]]]  # dtype code -> classes, and the table of each


def encode_tables(tables: dict[int, list[int]], models: Models | None = None) -> bytes:
    out = varint(len(tables))
    for code, frequencies in tables.items():
        out += bytes([code]) + encode_frequencies(frequencies)
    out += varint(len(models or {}))
    for code, (classes, of_class) in (models or {}).items():
        out += bytes([code]) + encode_model(classes, of_class)
    return out


def encode_model(classes: Classes, tables: list[list[int]]) -> bytes:
    lowest = classes.lowest
    out = bytes([len(lowest) - 1]) + b"".join(varint(next_one - one) for one, next_one in zip(lowest, lowest[1:]))
    out += varint(sum(1 << c for c in classes.shared))
    return out + b"".join(encode_frequencies(table) for c, table in enumerate(tables) if c not in classes.shared)


def encode_names(tensors) -> bytes:
    out, next_ordinal = varint(len(tensors)), 0
    for ordinal, tensor, changes in tensors:
        out += varint(ordinal - next_ordinal) + text(tensor.name) + bytes([tensor.dtype.code])
        out += varint(len(tensor.shape)) + b"".join(varint(axis) for axis in tensor.shape) + varint(changes)
        next_ordinal = ordinal + 1
    return out


def encode_side_files(files: dict[str | bytes, bytes | None]) -> bytes:
    out = varint(len(files))
    for path, content in sorted(files.items()):
        out += text(path) + (b"\0" if content is None else b"\1" + text(content))
    return out
