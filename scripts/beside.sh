# Work that goes on beside a script's other steps, at the lowest priority. Sourced; expects `set -eu` and the repository's root.
#
#   beside NAME COMMAND...   begins it. COMMAND may be a function; its output goes to build/NAME.log.
#   finish NAME              waits for it, prints its output, and ends the script where it failed.
#
# What is still running when the script ends, for whatever reason, is ended with it, and with all that it has started.
declare -A beside_pids=()

beside() {
  local name=$1
  shift
  mkdir -p build
  set -m  # a process group of its own, to be ended as a whole
  (
    renice -n 19 "$BASHPID" > /dev/null
    set -e
    "$@"
  ) < /dev/null > "build/$name.log" 2>&1 &
  set +m
  beside_pids[$name]=$!
}

finish() {
  local name=$1 status=0
  wait "${beside_pids[$name]}" || status=$?
  unset "beside_pids[$name]"
  cat "build/$name.log"
  [ $status -eq 0 ] || { echo "$name: failed with exit status $status" >&2; exit 1; }
}

_end_what_is_beside() {
  local pid
  for pid in "${beside_pids[@]}"; do kill -- "-$pid" 2> /dev/null || true; done
}
trap _end_what_is_beside EXIT
