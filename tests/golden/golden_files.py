"""Where the golden files are and how they are stored: small files as they are, larger ones as `NAME.zst`."""

import hashlib
import sys
from pathlib import Path

import zstandard

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "reference"))

STORED_AS_IS = 8192


def store(directory: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        packed = zstandard.ZstdCompressor(level=19).compress(content)
        path = directory / name
        if len(content) > STORED_AS_IS and len(packed) < len(content):
            path, content = path.with_name(path.name + ".zst"), packed
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def unpack(directory: Path, destination: Path) -> Path:
    """The files that `store` was given, as files."""
    for path in sorted(directory.rglob("*")):
        if path.is_dir():
            continue
        content, name = path.read_bytes(), path.relative_to(directory)
        if path.suffix == ".zst":
            content, name = zstandard.ZstdDecompressor().decompress(content), name.with_suffix("")
        (destination / name).parent.mkdir(parents=True, exist_ok=True)
        (destination / name).write_bytes(content)
    return destination


def read_files(directory: Path) -> dict[str, bytes]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}


def hashes(files: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}
