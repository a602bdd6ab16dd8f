#!/usr/bin/env bash
# Runs two training commands in turn on one machine: A B B A A B B A ... Prints a row for tests/bench/results.md: the minimum and
# the median time of a step of each, and the ratio of the minimums, B / A. The first three steps of a run do not count.
#
#   tests/bench/pair.sh [RUNS] "COMMAND A" "COMMAND B"       RUNS of each command, 5 by default
#
# For example, this measures the cost of a core that OPENBLAS_CORETYPE requests, which must be nothing:
#
#   train="build/release/weft train configs/gpt2-tiny.yaml model.dim=768 model.heads=12 model.layers=4 model.context=512
#     train.global_batch=1 train.steps=8 data.synthetic=true
#     schedule.warmup_steps=1 log.every=1000"
#   tests/bench/pair.sh 3 "$train" "env OPENBLAS_CORETYPE=Prescott $train"
#
# With LIMIT=1.1 it fails if the ratio is above 1.1.
set -euo pipefail
cd "$(dirname "$0")/../.."
runs=5
[[ ! ${1:-} =~ ^[0-9]+$ ]] || { runs=$1 && shift; }
[ $# -eq 2 ] || { sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
source launcher/environment.sh
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# run NAME COMMAND: runs the command, and appends the milliseconds of its steps to the file NAME.
run() {
  rm -f "$dir/log"
  # shellcheck disable=SC2086  # a command with its arguments
  $2 "log.jsonl=$dir/log" > "$dir/out" 2>&1 || { tail -5 "$dir/out" && echo "pair.sh: $1 failed: $2" && exit 1; }
  sed -nE 's/.*"event":"step","step":([0-9]+),.*"ms":([0-9.e+-]+).*/\1 \2/p' "$dir/log" | awk '$1 > 3 { printf "%.1f\n", $2 }' >> "$dir/$1"
}
for ((i = 0; i < runs; i++)); do
  order="A B"
  [ $((i % 2)) -eq 0 ] || order="B A"
  for name in $order; do
    if [ "$name" = A ]; then run A "$1"; else run B "$2"; fi
  done
done
least() { sort -g "$dir/$1" | head -1; }
median() { sort -g "$dir/$1" | awk '{ ms[NR] = $1 } END { print ms[int((NR + 1) / 2)] }'; }
ratio=$(awk -v a="$(least A)" -v b="$(least B)" 'BEGIN { printf "%.3f", b / a }')
echo "| $(date -u +%F) | $(git rev-parse --short HEAD) | $runs runs of each in turn | A $(least A) ms least, $(median A) median; B $(least B) and $(median B); B / A $ratio |"
[ -z "${LIMIT:-}" ] || awk -v r="$ratio" -v limit="$LIMIT" 'BEGIN { exit !(r <= limit) }' ||
  { echo "pair.sh: expected at most $LIMIT"; exit 1; }
