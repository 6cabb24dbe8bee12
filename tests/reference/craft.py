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
from reference_checkpoint import CELL_UNITS, Checkpoint, DType, cells_of, model_digest

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


def rans_encode(symbols: list[tuple[int, list[int], int]], end=65536) -> tuple[list[int], list[int]]:
    """Encodes (state, frequencies, symbol) triples; returns the states and words from which a decoder ends at `end`."""
    states, words = [end] * max(2, 1 + max(which for which, _, _ in symbols)), []
    for which, frequencies, symbol in reversed(symbols):
        frequency, x = frequencies[symbol], states[which]
        assert frequency > 0, f"symbol {symbol} cannot be coded"
        if x >= frequency << 20:
            words.append(x & 0xFFFF)
            x >>= 16
        states[which] = (x // frequency) * 4096 + x % frequency + sum(frequencies[:symbol])
    return states, words[::-1]


def token(old: bytes, new: bytes, dtype: DType) -> tuple[int, int, int]:
    """Symbol, extra bits, number of extra bits."""
    width = 8 * dtype.unit
    before, after = (reference.ordered(int.from_bytes(value, "little"), dtype) for value in (old, new))
    step = (after - before) % (1 << width)
    if step >= 1 << (width - 1):
        step -= 1 << width
    assert step != 0
    rank = 2 * (step - 1) if step > 0 else -2 * step - 1
    exponent = rank.bit_length() - 1
    if rank < 16:
        return rank, 0, 0
    if exponent <= 18:
        return exponent + 12, rank - (1 << exponent), exponent
    return 31, int.from_bytes(new, "little"), width


def encode_sparse_flat(units, positions, tokens, value_table, changes=None, end=65536) -> bytes:
    """A payload. Positions may lead beyond the block; `changes` is k where it is not their number."""
    gap_table, low_bits = reference.gap_model(units, changes or len(positions))
    symbols, bits, next_position = [], BitWriter(), 0
    pairs = reference.pairs_of_states(changes or len(positions))
    for i, (position, (symbol, extra, extra_bits)) in enumerate(zip(positions, tokens)):
        gap_state, value_state = 2 * (i % pairs), 2 * (i % pairs) + 1
        gap = position - next_position
        quotient = gap >> low_bits
        symbols += [(gap_state, gap_table, 31)] * (quotient // 31) + [(gap_state, gap_table, quotient % 31)]
        symbols.append((value_state, value_table, symbol))
        bits.put(gap & ((1 << low_bits) - 1), low_bits)
        bits.put(extra, extra_bits)
        next_position = position + 1
    states, words = rans_encode(symbols, end)
    return sparse_flat_payload(states, words, bits.bytes())


def sparse_flat_payload(states: list[int], words: list[int], raw_bits: bytes) -> bytes:
    return struct.pack(f"<{len(states)}I", *states) + varint(len(words)) + struct.pack(f"<{len(words)}H", *words) + raw_bits


def take_sparse_flat_apart(block: Block) -> tuple[list[int], list[int], bytes]:
    cursor = reference.Cursor(block.payload, "payload")
    states = [cursor.unsigned(4) for _ in range(2 * reference.pairs_of_states(block.changes))]
    words = [cursor.unsigned(2) for _ in range(cursor.varint())]
    return states, words, cursor.rest()


def sparse_checksum(positions: list[int], values: list[bytes]) -> int:
    seed = reference.xxh3(b"".join(struct.pack("<I", position) for position in positions))
    return reference.xxh3(b"".join(values), seed) & 0xFFFFFFFF


def encode_dense(values: bytes, unit: int, compress: bool = True) -> bytes:
    out = b""
    for p in range(unit):
        plane = values[p::unit]
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


def encode_patch(base: Checkpoint, target: Checkpoint, cells_per_block=1, dense=frozenset(), names=True) -> Parts:
    """A non-structural patch. `dense`: names of the tensors whose blocks are dense; small ones are not compressed."""
    assert base.layout.tensors_digest() == target.layout.tensors_digest()
    counts: dict[int, list[int]] = {}
    planned, named, next_cell, tensor_cell = [], [], 0, 0
    for ordinal, (tensor, old, new) in enumerate(zip(target.layout.tensors, base.tensors, target.tensors)):
        unit, dtype = tensor.dtype.unit, tensor.dtype
        for cell in range(0, cells_of(tensor.units), cells_per_block):
            cells = min(cells_per_block, cells_of(tensor.units) - cell)
            first, last = cell * CELL_UNITS, min((cell + cells) * CELL_UNITS, tensor.units)
            before, after = old[first * unit : last * unit], new[first * unit : last * unit]
            at = differing(before, after, unit)
            if not at:
                continue
            if ordinal not in named:
                named.append(ordinal)
            values = [after[i * unit : (i + 1) * unit] for i in at]
            tokens = [token(before[i * unit : (i + 1) * unit], value, dtype) for i, value in zip(at, values)]
            if tensor.name not in dense:
                for symbol, _, _ in tokens:
                    counts.setdefault(dtype.code, [0] * 32)[symbol] += 1
            planned.append((tensor_cell + cell - next_cell, cells, last - first, at, values, tokens, after, tensor))
            next_cell = tensor_cell + cell + cells
        tensor_cell += cells_of(tensor.units)
    tables = {code: normalise(count) for code, count in sorted(counts.items())}

    blocks = []
    for gap, cells, units, at, values, tokens, after, tensor in planned:
        if tensor.name in dense:
            payload = encode_dense(after, tensor.dtype.unit, compress=units > 1024)
            checksum = reference.xxh3(after) & 0xFFFFFFFF
            blocks.append(Block(gap, cells, reference.DENSE, len(at), payload, checksum))
        else:
            payload = encode_sparse_flat(units, at, tokens, tables[tensor.dtype.code])
            blocks.append(Block(gap, cells, reference.SPARSE_FLAT, len(at), payload, sparse_checksum(at, values)))

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
    parts.set(reference.TABLES, encode_tables(tables))
    set_blocks(parts, blocks)
    if names and named:
        parts.set(reference.NAMES, compressed(encode_names([(i, target.layout.tensors[i]) for i in named])))
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


def encode_tables(tables: dict[int, list[int]]) -> bytes:
    out = varint(len(tables))
    for code, frequencies in tables.items():
        used = max(i for i, frequency in enumerate(frequencies) if frequency) + 1
        out += bytes([code, used]) + b"".join(varint(frequency) for frequency in frequencies[:used])
    return out


def encode_names(tensors) -> bytes:
    out, next_ordinal = varint(len(tensors)), 0
    for ordinal, tensor in tensors:
        out += varint(ordinal - next_ordinal) + text(tensor.name) + bytes([tensor.dtype.code])
        out += varint(len(tensor.shape)) + b"".join(varint(axis) for axis in tensor.shape)
        next_ordinal = ordinal + 1
    return out


def encode_side_files(files: dict[str | bytes, bytes | None]) -> bytes:
    out = varint(len(files))
    for path, content in sorted(files.items()):
        out += text(path) + (b"\0" if content is None else b"\1" + text(content))
    return out
