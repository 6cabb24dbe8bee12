#!/usr/bin/env bash
# Speed of the codec on generated checkpoints (0.9 % and 0.1 % changed) in memory, beside memcpy, a compare-scan and the
# peers' layouts.
# usage: bench/speed.sh [GIB] [OPTIONS OF codec]      needs 5 times GIB free in /dev/shm and twice GIB beside; 2 GIB
set -euo pipefail
cd "$(dirname "$0")/.."
gib=${1:-2}
bench=build/bench/bench
[ -x $bench/codec ] || { cmake --preset bench && cmake --build --preset bench; } >/dev/null
work=$(mktemp -d /dev/shm/skerry-speed.XXXXXX)
trap 'rm -rf "$work"' EXIT
for density in 0.009 0.001; do
  $bench/generate "$work/pair" "$gib" $density
  $bench/codec --speed-only --reps 5 --scratch "$work" "${@:2}" "$work/pair/v000" "$work/pair/v001"
  rm -rf "$work/pair"
done
