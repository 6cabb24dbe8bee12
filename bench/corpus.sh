#!/usr/bin/env bash
# All tables of bytes of one chain of bf16 checkpoints: as it is, and its fp8, mxfp4 and nf4 views.
# usage: bench/corpus.sh CHAIN [OPTIONS OF codec]
# CHAIN holds v000, v001, ...; options are --json (a document a view), --patch-from, --bsdiff. Where SKERRY_TABLES=DIR
# is set, tables also go to DIR/NAME.txt or .json. PYTHON names an interpreter with the packages of
# requirements-bench.txt; without it one is made in build/venv-bench.
set -euo pipefail
chain=$(realpath "${1:?usage: bench/corpus.sh CHAIN [OPTIONS OF codec]}")
shift
cd "$(dirname "$0")/.."
codec=build/bench/bench/codec
[ -x $codec ] || { cmake --preset bench && cmake --build --preset bench --target codec; } >/dev/null
if [ -z "${PYTHON:-}" ]; then
  PYTHON=build/venv-bench/bin/python
  [ -x $PYTHON ] || python3 -m venv build/venv-bench
  $PYTHON -m pip install --quiet -r requirements-bench.txt
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/skerry-corpus.XXXXXX")
trap 'rm -rf "$work"' EXIT
suffix=txt
case " $* " in *" --json "*) suffix=json ;; esac

# table NAME CHAIN: one table.
table() {
  [ $suffix = json ] || printf '\n== %s\n' "$1"
  $codec --bytes-only "${options[@]}" "$2"/v[0-9]* | tee ${SKERRY_TABLES:+"$SKERRY_TABLES/$1.$suffix"}
}
# view NAME ARGUMENTS OF views.py: makes a view, prints its table, removes it.
view() {
  local name=$1
  $PYTHON bench/views.py "$2" "$chain" "$work/view" "${@:3}"
  table "$name" "$work/view"
  rm -rf "$work/view"
}

options=("$@")
table bf16 "$chain"
view fp8-fixed fp8-block --scales fixed
view fp8-recomputed fp8-block --scales recomputed
view mxfp4 mxfp4 --scales recomputed
view mxfp4-u8 mxfp4 --packed-as u8
view nf4 nf4
view scales-move scales-move
view scales-move-16 scales-move --block 16
