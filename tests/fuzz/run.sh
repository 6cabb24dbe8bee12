#!/bin/sh
# Builds the fuzz targets and runs each for a number of seconds. Fails when any of them finds something.
#
#   tests/fuzz/run.sh 60            all targets, a minute each
#   tests/fuzz/run.sh 60 block      one of them
#
# Inputs that were found interesting are kept in build/fuzz/corpus/, findings in build/fuzz/findings/.
set -eu
cd "$(dirname "$0")/../.."
seconds=${1:?usage: run.sh SECONDS [TARGET ...]}
shift
[ $# -gt 0 ] || set -- safetensors container block magnitude stream codec kernel classes manifest answers request engine_answer changes stamps members

[ -f build/asan/build.ninja ] || cmake --preset asan >/dev/null
for target; do
  cmake --build --preset asan --target "${target}_fuzz"
done

failed=
for target; do
  mkdir -p "build/fuzz/corpus/$target" "build/fuzz/findings"
  echo "== $target"
  "build/asan/tests/fuzz/${target}_fuzz" "build/fuzz/corpus/$target" "tests/fuzz/corpus/$target" \
    -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=8192 -verbosity=0 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/findings/$target-" || failed="$failed $target"
done
[ -z "$failed" ] || { echo "findings in:$failed (build/fuzz/findings/)" >&2; exit 1; }
