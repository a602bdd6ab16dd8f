#!/usr/bin/env bash
# What the host does for a step of training on a GPU: calls that reach the driver, counted by CUPTI. One JSON line; fails
# where a step is not one graph launch, launches a kernel beside it, allocates, or makes the host wait.
#
#   tests/bench/host_work.sh WEFT COUNTER [CONFIG [key=value...]]   COUNTER: ladder/build.sh DEST cupti_counter makes it
#
# The program runs with 30 and with 60 steps, and the difference over 30 is what a step costs: start-up, warm-up, capture
# and the end fall out, exactly. A run before these two fills the cache of matrix product algorithms.
#
# A wait is any call in which the host may block until the device gets somewhere: synchronisation of a stream, event or
# context, a copy that is not asynchronous. A step's loss is read after the next step was queued, by asking an event
# whether it has passed (cuEventQuery), which never blocks: "polls", a number that depends on the time of a step.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 1; }
weft=$(realpath "$1") counter=$(realpath "$2")
cd "$(dirname "$0")/../.."
config=${3:-configs/gpt2_124m.yaml}
shift $(($# < 3 ? $# : 3))
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

run() {  # STEPS [VARIABLE=VALUE...]
  local steps=$1
  shift
  env "$@" "$weft" train "$config" "${keys[@]}" train.steps="$steps" log.jsonl="$out/log.jsonl" log.every=1000 > "$out/log" 2>&1 ||
    { tail -5 "$out/log" >&2; return 1; }
}
keys=("$@")
run 4
for steps in 30 60; do
  run $steps CUDA_INJECTION64_PATH="$counter" WEFT_CALLS="$out/$steps"
  [ -s "$out/$steps" ] || { echo "host_work: the counter wrote nothing; is libcupti on LD_LIBRARY_PATH?" >&2; cat "$out/log" >&2; exit 1; }
done
python3 tests/bench/host_work.py "$config" "$out/30" "$out/60" 30
