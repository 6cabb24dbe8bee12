#!/usr/bin/env bash
# Speed of the codec on generated 2 GiB checkpoints (0.9 % and 0.1 % changed) in memory, beside memcpy, a compare-scan and XOR + zstd-1.
# usage: bench/speed.sh [GIB]      needs 8 times GIB free in /dev/shm
set -euo pipefail
cd "$(dirname "$0")/.."
gib=${1:-2}
bench=build/bench/bench
[ -x $bench/codec ] || { cmake --preset bench && cmake --build --preset bench; } >/dev/null
work=$(mktemp -d /dev/shm/skerry-speed.XXXXXX)
trap 'rm -rf "$work"' EXIT
for density in 0.009 0.001; do
  $bench/generate "$work/pair" "$gib" $density
  $bench/codec --reps 5 --no-peers --scratch "$work" "$work/pair/v000" "$work/pair/v001"
  rm -rf "$work/pair"
  echo
done
