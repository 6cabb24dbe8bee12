#!/usr/bin/env python3
"""What a model of history or neighbourhood could save on a chain of bf16 checkpoints, over what the exponent tells.

usage: history.py CHAIN        CHAIN holds v000, v001, ...

Prints bits a change, summed over all steps: of the positions, given the exponent, and given also whether the element
changed in an earlier step; of the steps' signs, given the sign of the element's last change, of the last change in
its row, and of that in its column. Needs numpy and ml_dtypes (requirements-bench.txt).
"""

import sys
from pathlib import Path

import numpy as np
from views import read_shard


def load(version):
    tensors = {}
    for path in sorted(version.glob("*.safetensors")):
        for name, dtype, shape, data in read_shard(path)[0]:
            if dtype == "BF16":
                tensors[name] = np.frombuffer(data, np.uint16).reshape(shape)
    return tensors


def binary_entropy(part, whole):
    """Bits of `whole` draws of which `part` are ones, element by element."""
    part, whole = np.asarray(part, float), np.asarray(whole, float)
    rest = whole - part
    with np.errstate(divide="ignore", invalid="ignore"):
        bits = whole * np.log2(whole) - part * np.log2(part) - rest * np.log2(rest)
    return np.where((part <= 0) | (rest <= 0), 0, bits)


def ordered(bits):
    bits = bits.astype(np.int32)
    return np.where(bits & 0x8000, -(bits & 0x7FFF), bits & 0x7FFF)


class Agreement:
    """How often a sign is that of an earlier one, and what knowing that saves."""

    def __init__(self):
        self.seen = self.same = 0

    def add(self, earlier, sign):
        self.seen += len(sign)
        self.same += int((earlier == sign).sum())

    def saved(self):
        return self.seen - float(binary_entropy(self.same, self.seen))


def neighbours(signs, line):
    """(earlier, later) signs of changes that follow each other in the same line."""
    order = np.argsort(line, kind="stable")
    line, signs = line[order], signs[order]
    follows = np.flatnonzero(line[1:] == line[:-1])
    return signs[follows], signs[follows + 1]


def main():
    versions = sorted(Path(sys.argv[1]).glob("v[0-9]*"))
    if len(versions) < 2:
        sys.exit(__doc__)
    before = load(versions[0])
    last = {name: np.zeros(tensor.size, np.int8) for name, tensor in before.items()}
    changes, by_exponent, by_both = 0, 0.0, 0.0
    element, row, column = Agreement(), Agreement(), Agreement()
    for version in versions[1:]:
        after = load(version)
        counts = np.zeros((2, 2, 256))  # [changed earlier][changes now][exponent]
        for name, old in before.items():
            flat, new = old.reshape(-1), after[name].reshape(-1)
            at = np.flatnonzero(flat != new)
            sign = np.sign(ordered(new[at]) - ordered(flat[at])).astype(np.int8)
            exponent = flat >> 7 & 0xFF
            earlier = last[name] != 0
            for e in (0, 1):
                counts[e, 0] += np.bincount(exponent[earlier == e], minlength=256)
                counts[e, 1] += np.bincount(exponent[at][earlier[at] == e], minlength=256)
            known = last[name][at] != 0
            element.add(last[name][at][known], sign[known])
            if old.ndim == 2:
                row.add(*neighbours(sign, at // old.shape[1]))
                column.add(*neighbours(sign, at % old.shape[1]))
            last[name][at] = sign
            changes += len(at)
        by_exponent += float(binary_entropy(counts[:, 1].sum(0), counts[:, 0].sum(0)).sum())
        by_both += float(binary_entropy(counts[:, 1], counts[:, 0]).sum())
        before = after
    print(f"{changes} changes in {len(versions) - 1} steps")
    print(f"position, given the exponent            {by_exponent / changes:7.3f} bits a change")
    print(f"  and whether it changed earlier        {by_both / changes:7.3f}")
    for what, agreement in (("element's last change", element), ("row's", row), ("column's", column)):
        print(
            f"sign equals the {what:22s} {agreement.same / max(1, agreement.seen):7.3f} of {agreement.seen};"
            f" saves {agreement.saved() / changes:.3f} bits a change"
        )


if __name__ == "__main__":
    main()
