#!/usr/bin/env python3
"""Writes the attack files anew: `checkpoints/`, `acceptable/`, `patches/`, `base/`, `good.skerry` and `expected.json`.

    python make_attacks.py

They are committed, so that a test failure can be looked at with any tool; attacks_test.py checks that they are what
this program makes. Larger files are stored compressed (see tests/golden/golden_files.py).
"""

import json
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "golden")]

import golden_files  # noqa: E402  (puts tests/reference on the path)
import checkpoint_attacks  # noqa: E402
import good_patch  # noqa: E402
import patch_attacks  # noqa: E402


def main():
    for folder in ("checkpoints", "acceptable", "patches", "base"):
        shutil.rmtree(HERE / folder, ignore_errors=True)
    expected = {"checkpoints": {}, "patches": {}}
    for name, (files, says) in checkpoint_attacks.all_attacks().items():
        golden_files.store(HERE / "checkpoints" / name, files)
        expected["checkpoints"][name] = says
    for name, files in checkpoint_attacks.all_acceptable().items():
        golden_files.store(HERE / "acceptable" / name, files)
    golden_files.store(HERE / "base", good_patch.files(0))
    (HERE / "patches").mkdir()
    for name, (patch, status) in patch_attacks.all_attacks().items():
        (HERE / "patches" / f"{name}.skerry").write_bytes(patch)
        expected["patches"][name] = status
    (HERE / "good.skerry").write_bytes(good_patch.GOOD)
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    sys.exit(main())
