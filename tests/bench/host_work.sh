#!/usr/bin/env bash
# Counts the driver calls of the host for a training step on a GPU with CUPTI. Prints one JSON line. Fails unless a step is one
# graph launch without other kernel launches, allocations, fills or waits.
#
#   tests/bench/host_work.sh WEFT COUNTER [CONFIG [key=value...]]   COUNTER: from ladder/build.sh DEST cupti_counter
#
# Runs the program with 30 and with 60 steps. The difference divided by 30 is the number of calls per step: calls of start-up,
# warm-up, capture and end cancel out exactly. An earlier run fills the cache of matrix product algorithms.
#
# A wait is any call in which the host may block until the device reaches some point: synchronization of a stream, event or
# context, or a copy that is not asynchronous. The loss of a step is read after the next step was queued. For that the host asks
# an event whether it has passed (cuEventQuery), which never blocks. These "polls" depend on the time of a step.
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
