#!/usr/bin/env bash
# busy.sh [quiet | busy | one-core] [TIMES]: runs `cargo test`, as README has it, on a machine that is
#
#   quiet     left alone
#   busy      kept busy by three endless loops, more than there are cores on a small machine (LOOPS says how many)
#   one-core  a single core, for cargo and all that it starts (with LOOPS, beside as many loops on that core)
#
# No test may depend on how fast the machine is: each kind must pass, each time. What is tested is compiled first, by all cores and without loops. Ends with
# the status of the first run that fails.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=${1:-quiet}
times=${2:-1}
pin=()
case $mode in
  quiet) loops=0 ;;
  busy) loops=${LOOPS:-3} ;;
  one-core)
    loops=${LOOPS:-0}
    pin=(taskset --cpu-list 0)
    ;;
  *)
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac

busy=()
end() {
  [ ${#busy[@]} -eq 0 ] || kill "${busy[@]}" 2> /dev/null || true
}
trap end EXIT

cargo test --no-run
for _ in $(seq "$loops"); do
  "${pin[@]}" bash -c 'while :; do :; done' &
  busy+=($!)
done
for run in $(seq "$times"); do
  began=$SECONDS
  echo "== cargo test, $mode, run $run of $times, beside $loops loops"
  "${pin[@]}" cargo test
  echo "== cargo test, $mode, run $run of $times: passed in $((SECONDS - began)) s"
done
