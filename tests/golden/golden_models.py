"""The bases and targets of the golden files, as {path: bytes}; deterministic, from a seeded generator alone.

Each function makes one pair. Names that begin with a letter and digits (A24, B13) are field cases.
"""

import json
import random
import struct

Files = dict[str, bytes]


# ---------------------------------------------------------------------------------------------------------------------
# Building checkpoints


def shard(tensors, metadata=None, padding=b"", order=None) -> bytes:
    """A safetensors file from {name: (dtype, shape, data)}; `order`: of the names in the header, where another."""
    entries, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    header = {} if metadata is None else {"__metadata__": metadata}
    header |= {name: entries[name] for name in order or entries}
    raw = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode() + padding
    return struct.pack("<Q", len(raw)) + raw + b"".join(data for _, _, data in tensors.values())


def single(tensors, side_files=None, **options) -> Files:
    return {"model.safetensors": shard(tensors, **options)} | (side_files or {})


def sharded(shards, side_files=None) -> Files:
    """From a list of {name: tensor}, with the index that Hugging Face writes."""
    files, weight_map, total = dict(side_files or {}), {}, 0
    for i, tensors in enumerate(shards):
        name = f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors"
        files[name] = shard(tensors, metadata={"format": "pt"})
        weight_map |= {tensor: name for tensor in tensors}
        total += sum(len(data) for _, _, data in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    files["model.safetensors.index.json"] = json.dumps(index, indent=2).encode() + b"\n"
    return files


def words(form: str, *values: int) -> bytes:
    return struct.pack(f"<{len(values)}{form}", *values)


def with_units(data: bytes, unit: int, changes: dict[int, int]) -> bytes:
    """`data` with new bits at some units."""
    out = bytearray(data)
    for position, bits in changes.items():
        out[position * unit : (position + 1) * unit] = bits.to_bytes(unit, "little")
    return bytes(out)


def nudge(data: bytes, unit: int, density: float, rng: random.Random) -> bytes:
    """Moves some units by one step, as an optimiser with a small learning rate does."""
    out = bytearray(data)
    for at in range(0, len(data), unit):
        if rng.random() < density:
            bits = int.from_bytes(data[at : at + unit], "little") + (1 if rng.random() < 0.5 else -1)
            out[at : at + unit] = (bits % (1 << 8 * unit)).to_bytes(unit, "little")
    return bytes(out)


def bf16_weights(count: int, rng: random.Random) -> bytes:
    """Bits as trained weights have them: the upper half of small normal floats."""
    return b"".join(struct.pack("<f", 0.04 * (rng.random() - 0.5))[2:] for _ in range(count))


# Bits of what has a magnitude and how many of them are the magnitude; of the dtypes that have one.
MAGNITUDES = {
    "F16": (16, 15), "BF16": (16, 15), "F32": (32, 31), "F64": (64, 63), "F8_E4M3": (8, 7), "F8_E5M2": (8, 7),
    "F8_E8M0": (8, 8), "F8_E4M3FNUZ": (8, 7), "F8_E5M2FNUZ": (8, 7), "F4": (4, 3),
}  # fmt: skip


def by_magnitude(name: str, count: int, rng: random.Random, shares=(0.97, 0.3, 0.02)) -> tuple[bytes, bytes]:
    """`count` random elements before and after a step that changes `shares` of those of small, middle and large
    magnitude. Middle and large ones move to a neighbour, small ones up to 8 values away."""
    width, bits = MAGNITUDES[name]
    old = new = 0
    for i in range(count):
        before = after = rng.getrandbits(width)
        third = min(2, (before & (1 << bits) - 1) * 4 >> bits)
        if rng.random() < shares[third]:
            step = rng.choice([-1, 1]) * (rng.randrange(1, 8) if third == 0 else 1)
            after = (before + step) % (1 << width)
        old |= before << i * width
        new |= after << i * width
    return old.to_bytes(count * width // 8, "little"), new.to_bytes(count * width // 8, "little")


# ---------------------------------------------------------------------------------------------------------------------
# The pairs

ELEMENT_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64, "F16": 16,
    "BF16": 16, "F32": 32, "F64": 64, "C64": 64, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip


def every_dtype():
    rng, old, new = random.Random(1), {}, {}
    for name, bits in ELEMENT_BITS.items():
        unit = max(1, bits // 8)
        data = bytes(i % 2 for i in range(48)) if name == "BOOL" else rng.randbytes(48 * bits // 8)
        changed = with_units(data, 1, {5: 1 - data[5]}) if name == "BOOL" else nudge(data, unit, 0.2, rng)
        old[f"layer.{name.lower()}"] = (name, [6, 8], data)
        new[f"layer.{name.lower()}"] = (name, [6, 8], changed)
    return single(old, metadata={"format": "pt"}), single(new, metadata={"format": "pt"})


def A1_nan_payloads():
    old = {"w": ("BF16", [4], words("H", 0x3F80, 0x7F81, 0x7FC0, 0xFFC0))}
    new = {"w": ("BF16", [4], words("H", 0x7FC1, 0x7F81, 0x3F80, 0xFFC1))}
    return single(old), single(new)


def A2_integers_and_bools():
    old = {"i": ("I64", [3], words("q", 0, 1, 2)), "b": ("BOOL", [2], b"\0\1"), "u": ("U8", [1], b"\7")}
    new = {"i": ("I64", [3], words("q", 0, -1, 2)), "b": ("BOOL", [2], b"\1\1"), "u": ("U8", [1], b"\7")}
    return single(old), single(new)


def A3_float8_zeros_and_nans():
    old = {"w": ("F8_E4M3", [4], bytes.fromhex("00807f38"))}
    new = {"w": ("F8_E4M3", [4], bytes.fromhex("8000ff38"))}
    return single(old), single(new)


def A8_gaps_around_two_to_the_16():
    old = bytes(range(256)) * 600
    new = with_units(old, 1, {0: 255, 65535: 3, 131071: 4, 153599: 0})
    return single({"w": ("U8", [1024, 150], old)}), single({"w": ("U8", [1024, 150], new)})


def A14_dtype_and_A16_shape_change():
    rng = random.Random(14)
    kept, bias = rng.randbytes(64), rng.randbytes(16)
    old = {"a.removed": ("U8", [5], b"going"), "gate.bias": ("F32", [4], bias), "kept": ("BF16", [32], kept),
           "reshaped": ("I32", [2, 8], rng.randbytes(64)), "padded": ("U8", [8, 4], bytes(32))}  # fmt: skip
    halves = b"".join(bias[i + 2 : i + 4] for i in range(0, 16, 4))
    new = {"b.added": ("F16", [3], rng.randbytes(6)), "gate.bias": ("BF16", [4], halves),
           "kept": ("BF16", [32], with_units(kept, 2, {7: 0x1234})), "reshaped": ("I32", [4, 4], old["reshaped"][2]),
           "padded": ("U8", [9, 4], bytes(36)), "z.added.empty": ("F32", [0, 7], b""),
           "z.added.large": ("U8", [70_000], bytes(70_000))}  # fmt: skip
    return single(old), single(new)


def A18_empty_delta():
    model = single({"w": ("BF16", [100], random.Random(18).randbytes(200))}, {"config.json": b'{"a": 1}\n'})
    return model, dict(model)


def A19_empty_and_scalar_tensors():
    def tensors(scalar):
        return {"a": ("F8_E4M3", [0], b""), "b": ("F32", [2, 0], b""), "c": ("F32", [], scalar),
                "d": ("BF16", [1], words("H", 0x3F80))}  # fmt: skip

    return single(tensors(struct.pack("<f", 34.5))), single(tensors(struct.pack("<f", 34.500004)))


def A24_dense_random_update():
    rng = random.Random(24)
    old, new = rng.randbytes(8192), rng.randbytes(8192)
    return single({"w": ("BF16", [64, 64], old)}), single({"w": ("BF16", [64, 64], new)})


def new_weights():
    """All change, and to weights that are packed by a prefix code alone; of F8 by one that has bytes above 128, too."""
    rng = random.Random(28)
    count = 9000
    weights = b"".join(struct.pack("<f", rng.gauss(0, 0.02))[2:] for _ in range(count))
    codes = bytes(int(rng.gauss(60, 9)) | rng.getrandbits(1) << 7 for _ in range(count))
    new = {"w.BF16": ("BF16", [count], weights), "w.F8_E4M3": ("F8_E4M3", [count], codes)}
    old = {name: (dtype, shape, bytes(len(data))) for name, (dtype, shape, data) in new.items()}
    return single(old), single(new)


def B3_and_B11_headers_differ_only():
    tensors = {"__metadata__x": ("U8", [4], b"abcd"), "w": ("F16", [2], b"efgh")}
    old = single(tensors, metadata={})
    new = single(tensors, metadata={"note": 'a "quote", a\ttab, \u00fc and \U0001f40b \u0001'}, padding=b" \n\t  ",
                 order=["w", "__metadata__x"])  # fmt: skip
    return old, new


def B13_unaligned_tensors():
    old = {"u": ("U8", [3], b"abc"), "f": ("F32", [2], struct.pack("<2f", 1.5, -2.5)), "g": ("BF16", [1], b"\x80\x3f")}
    new = {"u": ("U8", [3], b"abd"), "f": ("F32", [2], struct.pack("<2f", 1.5, -2.25)), "g": ("BF16", [1], b"\x81\x3f")}
    padding = b" " * ((5 - len(shard(old)) + 8 + 13) % 8)
    return single(old, padding=padding), single(new, padding=padding)


def C5_other_shards():
    rng = random.Random(5)
    tensors = {f"layer.{i}.weight": ("BF16", [8, 8], bf16_weights(64, rng)) for i in range(6)}
    names = list(tensors)
    changed = dict(tensors)
    changed[names[3]] = ("BF16", [8, 8], nudge(tensors[names[3]][2], 2, 0.1, rng))
    old = sharded([{n: tensors[n] for n in names[i::2]} for i in range(2)], {"config.json": b"{}"})
    new = sharded([{n: changed[n] for n in names[i : i + 2]} for i in (0, 2, 4)], {"config.json": b"{}"})
    return old, new


def every_step_size():
    """Steps of every power of two, up and down, around zero, and across all bits, in three widths."""
    pairs = {}
    for name, unit, start in (("U8", 1, 0x10), ("BF16", 2, 0x3C00), ("F32", 4, 0x3C000000), ("I64", 8, 1 << 40)):
        width = 8 * unit
        steps = [sign * ((1 << e) + d) for e in range(width - 1) for d in (0, 1) for sign in (1, -1)]
        steps += [sign * s for s in range(1, 12) for sign in (1, -1)] + [1 << (width - 1), (1 << (width - 1)) - 1]
        old = b"".join(((start + 7 * i) % (1 << width)).to_bytes(unit, "little") for i in range(len(steps)))
        new = b"".join(((start + 7 * i + step) % (1 << width)).to_bytes(unit, "little") for i, step in enumerate(steps))
        still = bytes(unit) * 900  # so that this is not a dense change
        pairs[f"steps.{name}"] = (name, [len(steps) + 900], old + still, new + still)
    zeros = words("H", 0x8000, 0x0000, 0x8001, 0x0001, 0x7F80, 0xFF80) + bytes(200)
    swapped = words("H", 0x0000, 0x8000, 0x0001, 0x8001, 0xFF80, 0x7F80) + bytes(200)
    pairs["zeros"] = ("BF16", [106], zeros, swapped)
    return (single({n: (d, s, old) for n, (d, s, old, _) in pairs.items()}),
            single({n: (d, s, new) for n, (d, s, _, new) in pairs.items()}))  # fmt: skip


def several_blocks():
    """Densities from one change in a block to several thousand, over the edges of cells, in one model."""
    rng = random.Random(7)
    sparse, busy = bytes(2 * 200_000), (b"\x00\x3c\x10\xbc" * 50_000)[: 2 * 90_000]
    old = {"busy": ("BF16", [300, 300], busy), "one": ("F32", [70_000], bytes(280_000)),
           "sparse": ("BF16", [200_000], sparse), "still": ("U8", [66_000], bytes(66_000))}  # fmt: skip
    new = dict(old)
    new["busy"] = ("BF16", [300, 300], nudge(busy, 2, 0.07, rng))
    new["one"] = ("F32", [70_000], with_units(bytes(280_000), 4, {69_999: 1}))
    new["sparse"] = ("BF16", [200_000], nudge(sparse, 2, 0.001, rng))
    return sharded([{n: old[n] for n in ("one", "busy")}, {n: old[n] for n in ("sparse", "still")}]), sharded(
        [{n: new[n] for n in ("one", "busy")}, {n: new[n] for n in ("sparse", "still")}]
    )


def more_than_64_cells():
    """A tensor that no single block can hold, with changes far apart."""
    count = 66 * 65_536 + 5
    old = bytes(count)
    new = with_units(old, 1, {0: 1, 64 * 65_536 - 1: 255, 64 * 65_536: 2, count - 1: 3})
    return single({"w": ("U8", [count], old)}), single({"w": ("U8", [count], new)})


def example_sparse_flat():
    """The three examples of docs/patch-format.md."""
    old = words("H", *([0x3C00] * 5 + [0x3CB9] + [0x3C00] * 34 + [0x41C8] + [0x3C00] * 23))
    new = with_units(old, 2, {5: 0x3CBA, 40: 0x41C7})
    return single({"w": ("BF16", [64], old)}), single({"w": ("BF16", [64], new)})


def example_dense():
    old, new = words("H", 0x3F80, 0x7F81, 0x7FC0, 0xFFC0), words("H", 0x7FC1, 0x7F81, 0x3F80, 0xFFC1)
    return single({"w": ("BF16", [4], old)}), single({"w": ("BF16", [4], new)})


def example_sparse_magnitude():
    old = words("H", *(0x3C00 if i % 64 else 0x3A80 for i in range(4096)))
    new = with_units(old, 2, {128: 0x3A81, 300: 0x3BFF, 320: 0x3A7F, 576: 0x3A81, 1920: 0x3A81, 2816: 0x3A81})
    return tuple(single({"v": ("BF16", [2048], data[:4096]), "w": ("BF16", [2048], data[4096:])})
                 for data in (old, new))  # fmt: skip


def magnitudes():
    """Of every dtype that has a magnitude, a tensor where it says how likely a change is."""
    rng, old, new = random.Random(21), {}, {}
    for name in MAGNITUDES:
        count = {"F64": 600, "F32": 800}.get(name, 1600)
        before, after = by_magnitude(name, count, rng)
        old[f"m.{name}"], new[f"m.{name}"] = (name, [count], before), (name, [count], after)
    return single(old), single(new)


def packed_bytes():
    """Two codes of 4 bits in each byte of U8, whose middle levels change most, and scales in bytes beside them, of
    which a few move: tensors of which one block holds several."""
    rng, old, new = random.Random(26), {}, {}
    for i in range(3):
        codes = [min(15, max(0, round(rng.gauss(7.5, 3.5)))) for _ in range(2 * 1200)]
        moved = [code + rng.choice([-1, 1]) if 4 < code < 11 and rng.random() < 0.03 else code for code in codes]
        scales = rng.randbytes(60)
        old[f"{i}.weight"], new[f"{i}.weight"] = (
            ("U8", [1200, 1], bytes(a << 4 | b for a, b in zip(part[::2], part[1::2]))) for part in (codes, moved)
        )
        old[f"{i}.scale"] = ("U8", [60], scales)
        new[f"{i}.scale"] = ("U8", [60], with_units(scales, 1, {7: scales[7] ^ 1, 30: scales[30] ^ 3}))
    return single(old), single(new)


def example_packed_codes():
    """Codes 7 of the upper half of a byte become 8, at 45 of their 256 places."""
    old = bytes((0x78, 0x3C) * 256)
    new = with_units(old, 1, {2 * m: 0x88 for m in range(256) if m % 6 == 0 or m in (5, 100)})
    return single({"w": ("U8", [512, 1], old)}), single({"w": ("U8", [512, 1], new)})


def small_tensors():
    """Experts, of which a block holds many: of several dtypes in turn, some empty and some that do not change."""
    rng, old, new = random.Random(22), {}, {}
    for i in range(40):
        for part, name, unit, count in (("down", "BF16", 2, 96), ("scale", "F32", 4, 3), ("up", "BF16", 2, 72),
                                        ("codes", "U8", 1, 40), ("bias", "F8_E4M3", 1, 5 * (i % 3))):  # fmt: skip
            before, after = by_magnitude(name if name in MAGNITUDES else "F8_E8M0", count, rng, (0.8, 0.1, 0.001))
            tensor = f"experts.{i}.{part}"
            old[tensor] = (name, [count], before)
            new[tensor] = (name, [count], before if i % 7 == 3 else after)
    return single(old), single(new)


def small_and_large_tensors():
    """Blocks that begin in one tensor and end in another, where a tensor begins or ends in a cell of its own."""
    rng, old, new = random.Random(23), {}, {}
    for name, unit, counts in (("U8", 1, (65_535, 10, 131_073, 1)), ("F8_E5M2", 1, (7, 65_536, 65_537))):
        for i, count in enumerate(counts):
            data = bytes(count)
            at = {0: 1, count - 1: 2, count // 2: 3} | ({65_535: 4, 65_536: 5} if count > 65_536 else {})
            old[f"{name}.{i}"] = (name, [count], data)
            new[f"{name}.{i}"] = (name, [count], with_units(data, unit, at))
    return single(old), single(new)


def most_change():
    """Densities above a half: 0.6 (with a stretch that does not change), 0.99, 0.9999, all."""
    rng, old, new = random.Random(24), {}, {}
    for name, unit, count, density in (("I16", 2, 900, 0.6), ("U32", 4, 800, 0.99), ("I32", 4, 20_000, 0.9999),
                                       ("U16", 2, 300, 1), ("F32", 4, 900, 0.7), ("U64", 8, 70, 1)):  # fmt: skip
        data = rng.randbytes(unit) * count
        after = nudge(data, unit, density, rng)
        if name == "I16":
            after = after[:100] + data[100:300] + after[300:]
        old[name], new[name] = (name, [count], data), (name, [count], after)
    before, after = by_magnitude("BF16", 2400, rng, (1, 0.9, 0.55))
    old["classes"], new["classes"] = ("BF16", [2400], before), ("BF16", [2400], after)
    return single(old), single(new)


def escaped_values():
    """Steps too large for a token, in each width that has such, and steps that the survey did not see."""
    rng, old, new = random.Random(25), {}, {}
    for name, unit in (("F32", 4), ("F64", 8), ("U64", 8), ("C64", 8)):
        before = rng.randbytes(unit) * 700
        at = {position: rng.getrandbits(8 * unit) for position in range(0, 700, 31)}
        old[name], new[name] = (name, [700], before), (name, [700], with_units(before, unit, at))
    return single(old), single(new)


def side_files():
    tensors = {"w": ("U8", [4], b"abcd")}
    old = {"config.json": b'{"layers": 1}\n', "tokenizer/vocab.txt": b"a\nb\n", "generation_config.json": b"{}",
           "unchanged.txt": b"the same", "empty.txt": b""}  # fmt: skip
    new = {"config.json": b'{"layers": 2}\n', "tokenizer/merges.txt": b"a b\n", "unchanged.txt": b"the same",
           "empty.txt": b"no more", "now_empty.txt": b"",
           "\u00fcber/\u6587\u5b57.txt": b"\xff\x00not text"}  # fmt: skip
    return single(tensors, old), single({"w": ("U8", [4], b"abce")}, new)


NON_STRUCTURAL = [
    every_dtype, A1_nan_payloads, A2_integers_and_bools, A3_float8_zeros_and_nans, A8_gaps_around_two_to_the_16,
    A18_empty_delta, A19_empty_and_scalar_tensors, A24_dense_random_update, new_weights, B3_and_B11_headers_differ_only,
    B13_unaligned_tensors, C5_other_shards, every_step_size, several_blocks, more_than_64_cells, side_files, magnitudes,
    packed_bytes, small_tensors, small_and_large_tensors, most_change, escaped_values, example_sparse_flat,
    example_dense, example_sparse_magnitude, example_packed_codes,
]  # fmt: skip
STRUCTURAL = [A14_dtype_and_A16_shape_change]
