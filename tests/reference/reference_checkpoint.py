"""Checkpoints as docs/patch-format.md sees them: dtypes, safetensors files, layouts and digests.

The first half of the reference reader; skerry_reference.py is the second.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from dataclasses import dataclass, field
from pathlib import Path


class Refused(Exception):
    """The input is not what it should be; the message names the thing and both sides."""


@dataclass(frozen=True)
class DType:
    code: int
    name: str
    element_bits: int
    unit: int  # bytes of a storage unit
    signed_view: bool

    @property
    def rotated(self) -> bool:
        """Whether method dense rotates the units before it divides them into planes."""
        return self.name in ("F16", "BF16", "F32", "F64")

    @property
    def magnitude_width(self) -> int:
        """Bits of what has a magnitude: of an element, which F4, and U8 where a patch says so, packs two to a unit."""
        return 4 if self.name in ("F4", "U8") else 8 * self.unit

    @property
    def magnitude_bits(self) -> int:
        """How many of these are the magnitude; 0 where the dtype has none."""
        if self.name in ("F8_E8M0", "U8"):
            return self.magnitude_width
        return self.magnitude_width - 1 if self.signed_view or self.name == "F4" else 0


DTYPES = [
    DType(0, "BOOL", 8, 1, False),
    DType(1, "U8", 8, 1, False),
    DType(2, "I8", 8, 1, False),
    DType(3, "U16", 16, 2, False),
    DType(4, "I16", 16, 2, False),
    DType(5, "U32", 32, 4, False),
    DType(6, "I32", 32, 4, False),
    DType(7, "U64", 64, 8, False),
    DType(8, "I64", 64, 8, False),
    DType(9, "F16", 16, 2, True),
    DType(10, "BF16", 16, 2, True),
    DType(11, "F32", 32, 4, True),
    DType(12, "F64", 64, 8, True),
    DType(13, "C64", 64, 8, False),
    DType(14, "F8_E4M3", 8, 1, True),
    DType(15, "F8_E5M2", 8, 1, True),
    DType(16, "F8_E8M0", 8, 1, False),
    DType(17, "F8_E4M3FNUZ", 8, 1, True),
    DType(18, "F8_E5M2FNUZ", 8, 1, True),
    DType(19, "F4", 4, 1, False),
    DType(20, "F6_E2M3", 6, 1, False),
    DType(21, "F6_E3M2", 6, 1, False),
]
DTYPE_OF_NAME = {dtype.name: dtype for dtype in DTYPES}


def dtype_of_code(code: int, what: str) -> DType:
    if code >= len(DTYPES):
        raise Refused(f"{what}: unknown dtype code {code}")
    return DTYPES[code]


CELL_UNITS = 65536
MAX_PATH_BYTES = 1024


def cells_of(units: int) -> int:
    return (units + CELL_UNITS - 1) // CELL_UNITS


def check_shard_path(path: str) -> None:
    check_relative_path(path)
    if not path.endswith(".safetensors"):  # so that it can't be a side file as well
        raise Refused(f"the file {path!r} with tensors is not called .safetensors")


def check_relative_path(path: str) -> None:
    """A path that stays inside the directory it is joined to."""
    if len(path.encode()) > MAX_PATH_BYTES:
        raise Refused(f"the path {path[:100]!r}… is longer than {MAX_PATH_BYTES} bytes")
    if any(ord(c) < 0x20 or ord(c) == 0x7F or c in '\\"' for c in path):
        raise Refused(f"unsafe path {path!r}: control character, quote or backslash")
    for component in path.split("/"):  # an absolute path begins with an empty component
        if component == "" or component.startswith("."):
            raise Refused(f"unsafe path {path!r}: it is absolute, empty, hidden or contains '..'")


MAX_HEADER_BYTES = 100_000_000
MAX_NAME_BYTES, MAX_RANK = 4096, 64
MAX_SIDE_FILE_BYTES = 64 << 20
OTHER_WEIGHTS = (".bin", ".pt", ".pth", ".ckpt", ".gguf", ".onnx", ".h5", ".msgpack", ".npz", ".ot")


def parse_json(text: str, what: str, only_unsigned: bool = True):
    """JSON without what parsers disagree about: a key that stands twice, lone surrogates, and (where numbers are sizes)
    anything but unsigned 64-bit integers."""

    def no_duplicates(pairs):
        keys = set()
        for key, _ in pairs:
            if key in keys:
                raise Refused(f"{what}: the key {key!r} stands twice")
            keys.add(key)
        return dict(pairs)

    def unsigned(number):
        if not number.isdigit() or len(number) > 20 or int(number) >= 2**64:
            raise Refused(f"{what}: {number[:40]} is not an unsigned 64-bit integer")
        return int(number)

    strict = dict(parse_float=unsigned, parse_constant=unsigned, parse_int=unsigned) if only_unsigned else {}
    try:
        value = json.loads(text, object_pairs_hook=no_duplicates, **strict)
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise Refused(f"{what}: not JSON: {error}") from None
    return value


@dataclass
class Tensor:
    name: str
    dtype: DType
    shape: list[int]
    file: int  # index into Layout.files
    begin: int  # of its bytes, from the end of the file's header
    end: int

    @property
    def units(self) -> int:
        return (self.end - self.begin) // self.dtype.unit

    def type(self) -> tuple:
        return (self.name, self.dtype.code, tuple(self.shape))


def parse_header(text: str, what: str) -> list[Tensor]:
    """The tensors of a safetensors header, in the order of their bytes."""
    if not text.startswith("{"):
        raise Refused(f"{what}: the header does not begin with '{{'")
    header = parse_json(text, what)
    tensors = []
    for name, entry in header.items():
        if not isinstance(entry, dict):
            raise Refused(f"{what}: {name!r} is not an object")
        if name == "__metadata__":
            if not all(isinstance(value, str) for value in entry.values()):
                raise Refused(f"{what}: __metadata__ has a value that is no text")
            continue
        if set(entry) != {"dtype", "shape", "data_offsets"}:
            raise Refused(f"{what}: tensor {name!r} has the keys {sorted(entry)}")
        if not isinstance(entry["dtype"], str) or entry["dtype"] not in DTYPE_OF_NAME:
            raise Refused(f"{what}: tensor {name!r} has the unknown dtype {entry['dtype']!r}")
        dtype = DTYPE_OF_NAME[entry["dtype"]]
        if len(name.encode()) > MAX_NAME_BYTES:
            raise Refused(f"{what}: a tensor's name has {len(name.encode())} bytes; the limit is {MAX_NAME_BYTES}")
        for key in ("shape", "data_offsets"):
            if not isinstance(entry[key], list) or not all(type(number) is int for number in entry[key]):
                raise Refused(f"{what}: tensor {name!r}: {key} is not a list of unsigned integers")
        if len(entry["data_offsets"]) != 2:
            raise Refused(f"{what}: tensor {name!r} has {len(entry['data_offsets'])} data_offsets")
        if len(entry["shape"]) > MAX_RANK:
            raise Refused(f"{what}: tensor {name!r} has {len(entry['shape'])} axes; the limit is {MAX_RANK}")
        bits = dtype.element_bits
        for axis in entry["shape"]:
            bits *= axis
            if bits >= 2**64:
                raise Refused(f"{what}: the size of tensor {name!r} overflows")
        begin, end = entry["data_offsets"]
        if bits % 8 != 0:
            raise Refused(f"{what}: tensor {name!r} does not fill whole bytes")
        if end - begin != bits // 8:
            raise Refused(f"{what}: tensor {name!r} needs {bits // 8} bytes, but lies from {begin} to {end}")
        tensors.append(Tensor(name, dtype, entry["shape"], 0, begin, end))
    tensors.sort(key=lambda tensor: (tensor.begin, tensor.end))
    at = 0
    for tensor in tensors:
        if tensor.begin != at:
            raise Refused(f"{what}: tensor {tensor.name!r} begins at {tensor.begin}, the bytes before it end at {at}")
        at = tensor.end
    return tensors


@dataclass
class Layout:
    """Which tensors lie where. `tensors` stand in tensor order."""

    files: list[tuple[str, str]]  # name, verbatim header
    tensors: list[Tensor] = field(default_factory=list)

    def __post_init__(self):
        self.files.sort(key=lambda file: file[0].encode())
        for number, (name, header) in enumerate(self.files):
            check_shard_path(name)
            for tensor in parse_header(header, name):
                tensor.file = number
                self.tensors.append(tensor)
        self.tensors.sort(key=lambda tensor: tensor.name.encode())
        for names, kind in (([t.name for t in self.tensors], "tensor"), ([name for name, _ in self.files], "file")):
            for one, next_one in zip(names, names[1:]):
                if one == next_one:
                    raise Refused(f"{kind} {one!r} stands twice in the layout")

    def json(self) -> bytes:
        files = [{"header": header, "name": name} for name, header in self.files]
        return json.dumps({"files": files, "format": 1}, ensure_ascii=False, separators=(",", ":")).encode()

    def digest(self) -> bytes:
        return hashlib.sha256(self.json()).digest()

    def tensors_digest(self) -> bytes:
        out = hashlib.sha256(b"skerry tensors 1\n")
        for tensor in self.tensors:
            name = tensor.name.encode()
            out.update(struct.pack("<I", len(name)) + name + struct.pack("<BI", tensor.dtype.code, len(tensor.shape)))
            out.update(b"".join(struct.pack("<Q", axis) for axis in tensor.shape))
        return out.digest()

    @property
    def units(self) -> int:
        return sum(tensor.units for tensor in self.tensors)


def parse_layout(data: bytes) -> Layout:
    try:
        document = parse_json(data.decode("utf-8"), "the layout")
    except UnicodeDecodeError:
        raise Refused("the layout is not UTF-8") from None
    if not isinstance(document, dict) or document.get("format") != 1 or not isinstance(document.get("files"), list):
        raise Refused("the layout is not an object of format 1 with files")
    for file in document["files"]:
        if not isinstance(file, dict) or not all(isinstance(file.get(key), str) for key in ("name", "header")):
            raise Refused("a file of the layout has not a name and a header")
    layout = Layout([(file["name"], file["header"]) for file in document["files"]])
    if layout.json() != data:
        raise Refused("the layout is not in canonical form")
    return layout


@dataclass
class Checkpoint:
    layout: Layout
    tensors: list[bytes]  # in tensor order
    side_files: dict[str, bytes]


def read_checkpoint(directory: Path) -> Checkpoint:
    directory = Path(directory)
    paths = []
    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths += [(Path(folder) / name).relative_to(directory).as_posix() for name in names if not name.startswith(".")]
    indexes = [path for path in paths if "/" not in path and path.endswith(".safetensors.index.json")]
    shards = [path for path in paths if "/" not in path and path.endswith(".safetensors")]
    weight_map = None
    if len(indexes) > 1:
        raise Refused(f"{directory} holds several indexes: {indexes}")
    if indexes:
        weight_map = read_index(directory / indexes[0])
        shards = sorted(set(weight_map.values()))
    elif len(shards) != 1:
        raise Refused(f"{directory} holds {len(shards)} .safetensors files and no index")

    headers, data_of_file = [], {}
    for shard in shards:
        header, data = read_safetensors(directory / shard)
        headers.append((shard, header))
        data_of_file[shard] = data
    layout = Layout(headers)
    if weight_map is not None:
        found = {tensor.name: layout.files[tensor.file][0] for tensor in layout.tensors}
        if found != weight_map:
            wrong = sorted(name for name in found.keys() | weight_map.keys() if found.get(name) != weight_map.get(name))
            raise Refused(f"{directory / indexes[0]} and the shards disagree about {wrong[:5]}")
    side_files = {}
    for path in paths:
        if path.endswith(".safetensors") or path.endswith(OTHER_WEIGHTS):
            continue
        if (directory / path).stat().st_size <= MAX_SIDE_FILE_BYTES:
            side_files[path] = (directory / path).read_bytes()
    tensors = [data_of_file[layout.files[t.file][0]][t.begin : t.end] for t in layout.tensors]
    return Checkpoint(layout, tensors, side_files)


def read_index(path: Path) -> dict[str, str]:
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(f"{path} is not UTF-8") from None
    document = parse_json(text, str(path), only_unsigned=False)  # its metadata, which nobody reads, may hold any number
    weight_map = document.get("weight_map") if isinstance(document, dict) else None
    if not isinstance(weight_map, dict) or not weight_map:
        raise Refused(f"{path} has no weight_map")
    for tensor, shard in weight_map.items():
        if not isinstance(shard, str):
            raise Refused(f"{path}: the file of tensor {tensor!r} is not a text")
        check_shard_path(shard)
        if not (path.parent / shard).exists():
            raise Refused(f"{path} names {shard}, which is missing")
    return weight_map


def read_safetensors(path: Path) -> tuple[str, bytes]:
    """The verbatim header and the bytes behind it."""
    content = path.read_bytes()
    if len(content) < 8:
        raise Refused(f"{path} has {len(content)} bytes, but a safetensors file has at least 8")
    size = int.from_bytes(content[:8], "little")
    if size > MAX_HEADER_BYTES or size > len(content) - 8:
        raise Refused(f"{path}: header length {size}, but the file has {len(content)} bytes (limit {MAX_HEADER_BYTES})")
    try:
        header = content[8 : 8 + size].decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(f"{path}: the header is not UTF-8") from None
    data = content[8 + size :]
    described = max((tensor.end for tensor in parse_header(header, str(path))), default=0)
    if len(data) != described:
        raise Refused(f"{path}: {len(data)} bytes behind the header, which describes {described}")
    return header, data


# ---------------------------------------------------------------------------------------------------------------------
# Digests

MASK = 2**64 - 1


def running_digest(data: bytes) -> tuple[int, int]:
    data += bytes(-len(data) % 8)
    a = b = 0
    for i, (word,) in enumerate(struct.iter_unpack("<Q", data)):
        x = word ^ ((i + 1) * 0x9E3779B97F4A7C15 & MASK)
        x ^= x >> 32
        x = x * 0x9E3779B1 & MASK
        x ^= x >> 29
        y = x * 0x85EBCA77 & MASK
        y ^= y >> 32
        a, b = a + x & MASK, b + y & MASK
    return a, b


def model_digest(layout: Layout, tensors: list[bytes]) -> bytes:
    out = hashlib.sha256(b"skerry model 1\n" + layout.tensors_digest())
    for data in tensors:
        out.update(struct.pack("<QQ", *running_digest(data)))
    return out.digest()
