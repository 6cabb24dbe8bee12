"""The model that the broken patches are for, the good patch that they are made from, and ways to break a part of it
while all checksums stay right."""

import copy
import struct

import craft
import skerry_reference as reference
from craft import Block, Classes, Parts, blocks_of, set_blocks
from golden_models import shard
from reference_checkpoint import DTYPES, Checkpoint, Layout
from skerry_reference import TABLES

WIDE = 70_000  # units of tensor b: two cells
U8 = DTYPES[1]
U8_TABLE = [4096 - 31] + [1] * 31  # of blocks that are made here
SKIPPABLE = struct.pack("<II", 0x184D2A50, 4) + b"junk"


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
            "c": ("F32", [16], bytes(i + 9 * step for i in range(64))), "d": ("F8_E4M3", [400], d),
            "e": ("F4", [200], e), "g.0": ("F8_E5M2", [20], g[:20]), "g.1": ("F8_E5M2", [30], g[20:]), "z": ("U8", [0], b"")}  # fmt: skip


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
# Cells stand in the order of dtypes: U8, BF16, F32, F8_E4M3, F8_E5M2, F4. Blocks: 0 is sparse-flat in a, 1 and 2 in b
# (a cell each), 3 is dense in c, 4 is sparse-magnitude in d, 5 is sparse-flat over g.0 and g.1, 6 is sparse-magnitude
# in e.
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


def rest(block: Block) -> tuple:
    """All but where it is."""
    return block.method, block.changes, block.payload, block.checksum


def tables_apart() -> tuple[list, bytes]:
    """Pairs of dtype code and listed frequencies, and the bytes of the models."""
    cursor = reference.Cursor(good().get(TABLES), "section tables")
    entries = []
    for _ in range(cursor.varint()):
        code = cursor.unsigned(1)
        entries.append((code, [cursor.varint() for _ in range(cursor.unsigned(1))]))
    return entries, cursor.rest()
