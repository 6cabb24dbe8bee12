#!/usr/bin/env python3
"""Writes the fuzz targets' seeds anew: `corpus/TARGET/`, a few small files each.

    python make_corpus.py

Most targets take numbers from the end of their input (libFuzzer's FuzzedDataProvider), so their seeds are made in the
order in which the target asks.
"""

import json
import shutil
import struct
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "reference")]

import craft  # noqa: E402
import skerry_reference as reference  # noqa: E402
from reference_checkpoint import DTYPE_OF_NAME, Checkpoint, Layout  # noqa: E402

TARGET_HEADER = (  # of container_fuzz.cc
    '{"a":{"dtype":"U8","shape":[140000],"data_offsets":[0,140000]},'
    '"b":{"dtype":"BF16","shape":[20,20],"data_offsets":[140000,140800]},'
    '"c":{"dtype":"F32","shape":[2,0],"data_offsets":[140800,140800]},'
    '"d":{"dtype":"F4","shape":[64],"data_offsets":[140800,140832]},'
    '"e":{"dtype":"F64","shape":[50],"data_offsets":[140832,141232]},'
    '"f":{"dtype":"BF16","shape":[30],"data_offsets":[141232,141292]},'
    '"g":{"dtype":"F8_E4M3","shape":[40],"data_offsets":[141292,141332]}}'
)


class Numbers:
    """What FuzzedDataProvider takes from the end of the input."""

    def __init__(self):
        self.taken = b""

    def integral(self, value: int, low: int, high: int) -> "Numbers":
        offset, size = value - low, 0
        while size < 8 and (high - low) >> (8 * size) > 0:
            size += 1
        self.taken += offset.to_bytes(size, "big")
        return self

    def boolean(self, value: bool) -> "Numbers":
        return self.integral(int(value), 0, 1)

    def after(self, rest: bytes) -> bytes:
        return rest + self.taken[::-1]


def safetensors():
    layout = Layout([("model.safetensors", TARGET_HEADER), ("b.safetensors", "{}  ")])
    return {
        "header": TARGET_HEADER.encode(),
        "metadata": b'{"__metadata__":{"format":"pt"},"\\u00e9\\ud83d\\udc0b":{"dtype":"F8_E4M3","shape":[],'
                    b'"data_offsets":[0,1]}} \n',
        "layout": layout.json(),
    }  # fmt: skip


def container():
    layout = Layout([("model.safetensors", TARGET_HEADER)])
    zeros = [bytes(tensor.end - tensor.begin) for tensor in layout.tensors]
    news = [bytearray(data) for data in zeros]
    for tensor, new in zip(layout.tensors, news):
        for position in range(0, tensor.units, 1 + tensor.units // 20):
            new[position * tensor.dtype.unit] = 1 + position % 200
    base = Checkpoint(layout, zeros, {"config.json": b"{}"})
    target = Checkpoint(layout, [bytes(new) for new in news], {"config.json": b"[]", "new.txt": b"x"})
    sparse = craft.encode_patch(base, target, cells_per_block=64, spanning=True)
    # The base is zeros, all of them of the first class.
    classes = {"BF16": craft.Classes([0, 0x3F80]), "F4": craft.Classes([0, 1, 4], frozenset({2})), "F8_E4M3": craft.Classes([0])}
    magnitude = craft.encode_patch(base, target, cells_per_block=64, spanning=True, classes=classes, names=False)
    dense = craft.encode_patch(base, target, cells_per_block=1, dense={"b", "d", "e"}, names=False)
    whole = {"sparse": sparse.assemble(), "magnitude": magnitude.assemble(), "dense": dense.assemble()}
    dense.set(reference.LAYOUT, craft.compressed(layout.json()))
    whole["layout"] = dense.assemble()
    seeds = {f"whole_{name}": patch + b"\0" for name, patch in whole.items()}

    # Section contents, from the front; a string ends with a backslash and another character.
    patch = reference.read_patch(sparse.assemble())
    numbers = Numbers().boolean(True).boolean(False).boolean(True)
    numbers.integral(patch.changes, 0, 2**32 - 1).integral(patch.block_count, 0, 64)
    contents = [sparse.payloads]
    for kind in range(2, 7):
        present = kind in dict(sparse.sections)
        numbers.boolean(present)
        if present:
            section = sparse.get(kind)
            contents.append(section if kind < 4 else reference.decompressed(section, kind).rest())
    seeds["built"] = numbers.after(b"".join(raw.replace(b"\\", b"\\\\") + b"\\." for raw in contents))
    return seeds


END_OF_STRING = b"\\."


def units(numbers: Numbers, count: int) -> Numbers:
    large = count > 300
    return numbers.integral(large, 0, 63).integral(count, 1, 3000 if large else 300)


def runs(numbers: Numbers, counts: list[int]) -> Numbers:
    """blocks.h, SomeRuns; the pattern of the old bytes, END_OF_STRING for none, goes to the input's front."""
    units(numbers, counts[0]).integral(len(counts) - 1, 0, 3)
    for count in counts[1:]:
        numbers.integral(count, 0, 100)
    return numbers


def old_bytes(size: int) -> bytes:
    return bytes(i * 131 >> 3 & 0xFF for i in range(size))


COUNTS = [200, 200] + [1] * 30


def table(numbers: Numbers) -> list[int]:
    for count in COUNTS:
        numbers.integral(count, 0, 255)
    return craft.normalise([64 * count + (symbol in (0, 1, 31)) for symbol, count in enumerate(COUNTS)])


def tokens(count: int) -> list[tuple[int, int, int]]:
    return [(i % 2, 0, 0) for i in range(count)]


def block():
    seeds = {}
    blocks = {"U8": ([300], [0, 7, 299]), "BF16": ([3000], [5, 2999]), "I64": ([40, 1, 59], list(range(100)))}
    for name, (counts, positions) in blocks.items():
        dtype, total = DTYPE_OF_NAME[name], sum(counts)
        numbers = runs(Numbers().integral(dtype.code, 0, 21).boolean(True), counts).integral(len(positions), 1, total)
        payload = craft.encode_sparse_flat(total, positions, tokens(len(positions)), table(numbers))
        seeds[f"decode_{name}"] = numbers.after(END_OF_STRING + payload)
        numbers = runs(Numbers().integral(dtype.code, 0, 21).boolean(False), counts)
        table(numbers)
        seeds[f"encode_{name}"] = numbers.after(END_OF_STRING + bytes(range(100)))
    return seeds


def magnitude():
    """`classes`: bits of an element, the first magnitudes of the classes but the first, and the view's mask."""
    seeds = {}
    models = {
        "BF16": (1, 16, [0x2000, 0x4000, 0x6000], 0x7FFF),
        "F32": (2, 32, [0x12345678], 0x7FFFFFFF),
        "E8M0": (7, 8, [1, 0x80, 0xFF], 0xFF),
        "F4": (8, 4, [2, 4, 7], 0x7),
    }
    for name, (index, bits, lowest, mask) in models.items():
        for hostile in (True, False):
            counts = [200, 0, 33]
            total = sum(counts)
            aligned = bits > 8 and all(bound % (1 << (bits - 9)) == 0 for bound in lowest)
            unit = 1 << (bits - 9) if aligned else 1
            numbers = Numbers().integral(index, 0, 9).boolean(hostile)
            numbers.integral(len(lowest) + 1, 1, 16).boolean(aligned)
            for previous, bound in zip([0, *lowest], lowest):
                numbers.integral((bound - previous) // unit, 1, mask // unit - previous // unit)
            tables = [table(numbers)]
            for c in range(len(lowest)):
                numbers.integral(c % 2, 0, 3)
                tables.append(table(numbers) if c % 2 == 0 else tables[-1])
            runs(numbers.integral(5, 0, 5), counts)
            if not hostile:
                table(numbers)
                seeds[f"encode_{name}"] = numbers.after(END_OF_STRING + bytes(range(1, 120)))
                continue
            old = int.from_bytes(old_bytes(total * max(bits, 8) // 8), "little")
            elements = [old >> at & ((1 << bits) - 1) for at in range(0, total * max(bits, 8), bits)]
            changed = range(0, len(elements), 2 if bits == 4 else 7)  # of two codes a byte the first
            members, of_class = [0] * 16, [[] for _ in range(16)]
            for i, element in enumerate(elements):
                c = sum(element & mask >= bound for bound in lowest)
                if i in changed:
                    of_class[c].append(members[c])
                members[c] += 1
            strands = [craft.Strand(members[c], of_class[c], tokens(len(of_class[c])), tables[c]) for c in range(len(tables))]
            numbers.integral(len(changed), 1, total)
            seeds[f"decode_{name}"] = numbers.after(END_OF_STRING + craft.encode_sparse_magnitude(strands))
    return seeds


def stream():
    seeds = {}
    shapes = {"one": [(300, range(0, 300, 7))], "crowded": [(300, range(300)), (0, []), (200, range(0, 200, 3))]}
    for name, shape in shapes.items():
        numbers = Numbers().integral(2, 0, 4)
        tables = [table(numbers), table(numbers)]
        numbers.integral(len(shape), 1, 16)
        strands = []
        for i, (members, changed) in enumerate(shape):
            numbers.integral(0, 0, 63).integral(members, 0, 300).boolean(True)
            numbers.integral(len(changed), 0, members)
            strands.append(craft.Strand(members, list(changed), tokens(len(changed)), tables[(len(shape) - i) % 2]))
        seeds[name] = numbers.after(craft.encode_strands(strands))
    return seeds


def codec():
    seeds = {}
    for first, second in (("BF16", "F32"), ("F4", "F8_E4M3"), ("I64", "BOOL"), ("F8_E8M0", "F6_E2M3")):
        for compact in (True, False):
            dtypes = [DTYPE_OF_NAME[first], DTYPE_OF_NAME[second]]
            numbers = Numbers().integral(dtypes[0].code, 0, 21).integral(dtypes[1].code, 0, 21).integral(4, 1, 5)
            for i, count in enumerate((60, 300, 2, 100)):
                numbers.boolean(i != 1)
                bits = dtypes[i == 1].element_bits
                numbers.integral(count // 4, 0, 100) if bits < 8 else units(numbers, count)
            numbers.boolean(compact).integral(5, 0, 5)
            changes = bytes(37 * i % 256 for i in range(300))
            seeds[f"{first}_{'compact' if compact else 'fast'}"] = numbers.after(b"some old bytes" + END_OF_STRING + changes)
    return seeds


def classes():
    seeds = {}
    for name, index, wide, steps in (("F4", 0, False, [1, 2, 4]), ("E8M0", 3, False, [1, 127, 127]),
                                     ("BF16", 5, True, [100, 20, 2]), ("F32", 6, False, [0x3F800000, 5]),
                                     ("F64", 7, True, [9])):  # fmt: skip
        mask = [7, 127, 127, 255, 0x7FFF, 0x7FFF, 0x7FFFFFFF, (1 << 63) - 1][index]
        numbers = Numbers().integral(index, 0, 7).integral(len(steps) + 1, 1, 16)
        unit = 1
        if mask > 255:
            numbers.boolean(wide)
            unit = (mask + 1) >> 8 if wide else 1
        bound = 0
        for step in steps:
            numbers.boolean(True).integral(step, 1, mask // unit - bound)
            bound += step
        numbers.integral(3, 0, 64).integral(name == "BF16", 0, 63).integral(400, 1, 400).integral(17, 1, 300)
        seeds[name] = numbers.after(bytes(101 * i % 256 for i in range(700)))
    return seeds


def kernel():
    seeds = {}
    for unit, flips in ((0, 3), (1, 0), (3, 40)):
        numbers = Numbers().integral(unit, 0, 3).integral(3, 0, 64).integral(17, 0, 64).integral(5, 0, 2**64 - 1)
        numbers.integral(9, 0, 255).integral(20, 1, 32).integral(flips, 0, 40)
        for flip in range(flips):
            numbers.integral(37 * flip, 0, 65535).integral(1 << flip % 8, 0, 255)
        seeds[f"unit_{1 << unit}"] = numbers.after(bytes(range(100)))
    return seeds


def manifest():
    digest, other = "ab" * 32, "0123456789abcdef" * 4
    reference_to = {"key": "runs/r/versions/000000007/delta-000-0123456789abcdef.skerry", "size": 9, "sha256": digest}
    outside = {"uri": "file:///base/model.safetensors", "size": 1, "sha256": other}
    parts = [reference_to | {"tensors": [{"first": 0, "count": 3}, {"first": 5, "count": 1}]},
             outside | {"tensors": [{"first": 3, "count": 2}]}]  # fmt: skip
    whole = {
        "format": 1, "features": [], "run": "r", "version": 7, "parent": other, "time": "2026-01-01T00:00:00.000Z",
        "step": 3, "layout": digest, "model": other, "tensor_digests": reference_to,
        "side_files": [{"path": "config.json", "size": 2, "sha256": digest}],
        "edges": [{"kind": "delta", "from": 6, "base_model": digest, "objects": [reference_to]},
                  {"kind": "skip", "from": 0, "base_model": other, "objects": parts}],
        "anchors": [{"version": 7, "bytes": 20, "object": reference_to}, {"version": 0, "bytes": 9, "object": outside}],
        "stats": {"elements": 9, "changed": 1, "tensors_changed": 1, "checkpoint_bytes": 18, "patch_bytes": 400},
        "signature": {"key": "ed25519:" + other, "value": digest + other},
    }  # fmt: skip
    fork = {name: value for name, value in whole.items() if name not in ("parent", "step", "signature")} | {
        "version": 0, "edges": [], "anchors": [], "fork": {"run": "q", "version": 3, "manifest": other},
    }  # fmt: skip
    anchor = {
        "format": 1, "run": "r", "version": 7, "model": other, "objects": parts,
        "files": [{"path": "config.json", "object": reference_to}, {"path": "a/b.safetensors", "object": outside}],
    }  # fmt: skip
    head = {
        "format": 1, "run": "r", "epoch": 1, "version": 7, "manifest": {"key": "runs/r/m.json", "sha256": digest},
        "model": other, "publisher": "p", "nonce": "n", "sequence": 3, "time": "2026-01-01T00:00:00.000Z",
    }  # fmt: skip
    run = {"format": 1, "run": "r", "base": "a model", "layout": digest,
           "parent": {"run": "q", "version": 3, "manifest": other}}  # fmt: skip
    documents = {"manifest": whole, "fork": fork, "anchor": anchor, "head": head, "run": run,
                 "board": {"format": 1, "id": "0123", "writes": "create-only"},
                 "lease": {"format": 1, "run": "r", "reader": "island-1", "needs_from": 3, "needs_to": 7,
                           "expires": 1767323045678, "time": "2026-01-01T00:00:00.000Z"},
                 "gc": {"format": 1, "run": "r",
                        "condemned": [{"key": "runs/r/versions/000000001/manifest.json", "since": 1}]}}  # fmt: skip
    seeds = {
        name: json.dumps(document, separators=(",", ":"), sort_keys=True).encode() for name, document in documents.items()
    }
    seeds["layout"] = craft.compressed(TARGET_HEADER.encode())[2:]
    assert struct.unpack("<I", seeds["layout"][:4]) == (0xFD2FB528,)
    return seeds


def answers():
    error = "<Error><Code>AccessDenied</Code><Message>No &amp; no.</Message><Region>eu-west-1</Region></Error>"
    page = (
        "<?xml version='1.0'?><ListBucketResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'><IsTruncated>true"
        "</IsTruncated><Contents><Key>a&lt;b</Key></Contents><NextContinuationToken>x</NextContinuationToken>"
        "</ListBucketResult>"
    )
    keys = '{"AccessKeyId":"A","SecretAccessKey":"S","Token":"T","Expiration":"2026-01-01T00:00:00Z"}'
    return {
        "error": b"\0" + error.encode(),
        "page": b"\1" + page.encode(),
        "range": b"\2bytes 5-9/10",
        "uri": b"\3a%20b/%C3%A4+",
        "keys": b"\4" + keys.encode(),
        "profile": b"\4[default]\naws_access_key_id = A\n# c\n[profile p]\nregion=r\n",
    }


def request():
    chunked = "POST /v1/x?a=b%20c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    sized = "PUT /p HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nbody"
    return {
        "get": b"\0GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n",
        "empty_chunked": b"\0PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "pipelined": b"\2" + sized.encode() + chunked.encode() + b"HEAD / HTTP/1.0\r\n\r\n",
        "both_lengths": b"\5POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    }


def engine_answer():
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nT: 1\r\n\r\n"
    return {
        "chunked": b"\1HTTP/1.1 100 Continue\r\n\r\n" + chunked,
        "sized": b"\2HTTP/1.1 201 Made so\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody",
        "empty_chunked": b"\0HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "to_the_end": b"\3HTTP/1.0 200 OK\r\nA: b\r\n\r\nall of it",
        "to_head": b"\x85HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
        "both_lengths": b"\4HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    }


def changes():
    head = struct.Struct("<IQQBBI")
    return {
        "positions": head.pack(3, 100, 50, 2, 0, 2) + struct.pack("<II", 4, 49) + b"abcd",
        "all": head.pack(0, 0, 4, 1, 1, 0) + b"abcd",
        "side_files": bytes([2, 1]) + b"a" + bytes([1, 3]) + b"xyz" + bytes([1]) + b"b" + bytes([0, 0]),
    }


def stamps():
    """The size of the pieces, the place where the version changes, the answer's bytes."""
    stream = 'event: x\ndata: {"a":{"b":1}}\n\n: ping\n\ndata: {}\nid: 1\n\ndata: [DONE]\n\n'
    return {
        "events": b"\2\40" + stream.encode(),
        "crlf": b"\0\20" + stream.replace("\n", "\r\n").encode(),
        "cr": b"\4\60" + b"\xef\xbb\xbf" + stream.replace("\n", "\r").encode(),
        "several_lines": b'\1\10data: {"a":{}\ndata: }\n\ndata\n\ndata:{ } \n\ndata: {}',
        "answer": b'\5\0 {"id":"x","choices":[{"text":"}"}] }\n',
        "empty": b"\0\0{ }\n",
    }


def members():
    salts = {"model": "m", "cache_salt": "a", "extra_key": ["b", None, ""], "weight_version": {"min_version": 7}}
    spans = {"choices": [{"weight_versions": [{"version": "run@7", "start": 0, "end": 12}]}, {"weight_versions": None}]}
    return {
        "salts": json.dumps(salts).encode(),
        "spans": json.dumps(spans).encode(),
        "constraint": b'{"min_version":7,"exact_version":8,"wait":2.5}',
        "names": rb' {"\u0061":1,"a":{},"\ud83d\udc0b":"\\","":"\"}","\/\b\f\n\r\t":[1,-2.5e3,true,null]} ',
        "mark": b'\xef\xbb\xbf{"cache_salt":null,"cache_salt":3}',
    }


def main():
    shutil.rmtree(HERE / "corpus", ignore_errors=True)
    targets = (safetensors, container, block, magnitude, stream, codec, kernel, classes, manifest, answers, request, engine_answer, changes,
               stamps, members)  # fmt: skip
    for make in targets:
        (HERE / "corpus" / make.__name__).mkdir(parents=True)
        for name, seed in make().items():
            (HERE / "corpus" / make.__name__ / name).write_bytes(seed)


if __name__ == "__main__":
    sys.exit(main())
