#!/usr/bin/env bash
# Peak anonymous memory (RssAnon) of diff, apply, publish and pull on a generated checkpoint.
# usage: bench/memory.sh [GIB] [DIR]      needs 8 times GIB free in DIR (default: a temporary folder)
set -euo pipefail
cd "$(dirname "$0")/.."
gib=${1:-8}
[ -x build/bench/bench/generate ] || { cmake --preset bench && cmake --build --preset bench; } >/dev/null
skerry=build/bench/apps/skerry/skerry
work=$(mktemp -d "${2:-${TMPDIR:-/tmp}}/skerry-memory.XXXXXX")
trap 'rm -rf "$work"' EXIT

# measure LABEL COMMAND...: runs it and prints the highest RssAnon that was seen.
measure() {
  local label=$1 peak=0 now pid
  shift
  "$@" >/dev/null &
  pid=$!
  while kill -0 $pid 2>/dev/null; do
    now=$(awk '/RssAnon/ {print $2}' /proc/$pid/status 2>/dev/null || true)
    [ "${now:-0}" -gt "$peak" ] && peak=$now
    sleep 0.02
  done
  wait $pid
  printf '%-16s %7.1f MiB\n' "$label" "$(awk "BEGIN {print $peak / 1024}")"
}

build/bench/bench/generate "$work" "$gib" 0.009
echo "peak anonymous memory on $gib GiB, 0.9 % changed"
measure diff $skerry diff "$work/v000" "$work/v001" -o "$work/p.skerry"
measure apply $skerry apply "$work/v000" "$work/p.skerry" -o "$work/out"
rm -rf "$work/out"
measure init $skerry init "$work/board" --run r --base "$work/v000" --hold link
measure publish $skerry publish "$work/board" --run r "$work/v001" --state "$work/state"
rm -rf "$work/state"
measure pull $skerry pull "$work/board" --run r -o "$work/island"
rm -rf "$work/board"
measure "apply in place" $skerry apply "$work/v000" "$work/p.skerry" --in-place
