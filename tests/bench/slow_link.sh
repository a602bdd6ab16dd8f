#!/usr/bin/env bash
# Times a training step on two CPU ranks whose link is as slow as the step's kernels, for each parallel.overlap. A step is first
# timed at the link's full rate; then the link is limited (WEFT_LINK_MB_S) to the rate at which the step's bytes take as long. So a
# step without overlap takes about twice as long, and one that hides all bytes as long as before. Modes are timed in turn, RUNS
# times. Prints one row per layout and mode: the median ms of a step, and how much faster it is than without overlap. Fails if the
# best mode of a layout is less than 1.2 times as fast.
#
#   tests/bench/slow_link.sh WEFT [LAYOUT...]   LAYOUT: tp (tensor parallel), sp (with the sequence sharded too), fsdp, or
#                                               tp1 and sp1: tp and sp with one sequence, which has no halves
#
# RUNS (3) is how often each mode is timed, SECONDS_EACH (6) how long at a time. Ranks have one thread each.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || { sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
weft=$1 runs=${RUNS:-3} seconds=${SECONDS_EACH:-6}
shift
[ $# -gt 0 ] || set -- tp sp fsdp tp1 sp1
# shellcheck source=/dev/null
source launcher/environment.sh
commit=${COMMIT:-$(git rev-parse --short HEAD 2> /dev/null || echo '?')}
declare -A layout=([tp]="mesh.dp=1 mesh.tp=2" [sp]="mesh.dp=1 mesh.tp=2 parallel.sequence_parallel=true"
  [fsdp]="mesh.dp=2 mesh.tp=1 parallel.fsdp=full")
one="train.global_batch=1 model.context=1024"
layout[tp1]="${layout[tp]} $one" layout[sp1]="${layout[sp]} $one"
declare -A modes_of=([tp]="never always fill halves chunks" [sp]="never always fill halves chunks" [fsdp]="never always fill halves"
  [tp1]="never always fill chunks" [sp1]="never always fill chunks")
# More than kilobytes move per token: a model of usual proportions, with few layers.
model=(configs/gpt2-tiny.yaml model.layers=4 model.heads=8 model.dim=512 model.context=256 model.vocab=1024 data.synthetic=true
  train.global_batch=8
  threads=1 device=cpu)

# step RATE OVERLAP KEY...: prints the median milliseconds of a step.
step() {
  local limit=()
  [ "$1" = full ] || limit=(env "WEFT_LINK_MB_S=$1")
  "${limit[@]}" "$weft" bench step "config=${model[0]}" "${model[@]:1}" "${@:3}" "parallel.overlap=$2" ranks=2 --json \
    executor=compiled "seconds=$seconds" | sed -n 's/.*"median_ms":\([0-9.]*\).*/\1/p'
}
# sent KEY...: prints the bytes that a rank sends in a step, as in the table of src/dist/group/gloo/gloo_collectives.cc.
sent() {
  "$weft" plan "${model[@]}" "$@" ranks=2 --json | awk -F'[:,"]+' '/"op"/ {
    for (i = 1; i <= NF; i++) { if ($i == "op") op = $(i + 1); if ($i == "bytes") bytes = $(i + 1); if ($i == "times") times = $(i + 1) }
    sum += bytes * times * (op == "all_gather" || op == "all_reduce" ? 1 : 0.5)
  } END { printf "%.0f", sum }'
}
median() { printf '%s\n' "$@" | sort -g | awk '{ at[NR] = $1 } END { print (at[int((NR + 1) / 2)] + at[int(NR / 2) + 1]) / 2 }'; }

failed=0
echo "commit $commit, $(env -u OMP_NUM_THREADS nproc) cores, 2 ranks of 1 thread, GPT-2 of 4 layers of 512, batch 8 x 256 or 1 x 1024, f32"
for name in "$@"; do
  read -ra keys <<< "${layout[$name]}"
  undisturbed=$(step full never "${keys[@]}")
  bytes=$(sent "${keys[@]}")
  rate=$(awk -v bytes="$bytes" -v ms="$undisturbed" 'BEGIN { printf "%.3f", bytes / ms / 1000 }')
  echo "$name: $undisturbed ms at the full rate; $bytes bytes per rank and step, so the link is limited to $rate MB/s"
  unset times
  declare -A times=()
  read -ra modes <<< "${modes_of[$name]}"
  for ((run = 0; run < runs; run++)); do
    for mode in "${modes[@]}"; do times[$mode]+=" $(step "$rate" "$mode" "${keys[@]}")"; done
  done
  best=0
  for mode in "${modes[@]}"; do
    # shellcheck disable=SC2086  # several numbers
    ms=$(median ${times[$mode]}) plain=$(median ${times[never]})
    gain=$(awk -v a="$plain" -v b="$ms" 'BEGIN { printf "%.3f", a / b }')
    echo "  $name $mode: $ms ms, $gain times as fast"
    best=$(awk -v a="$best" -v b="$gain" 'BEGIN { print (a > b ? a : b) }')
  done
  awk -v best="$best" 'BEGIN { exit !(best >= 1.2) }' || { echo "$name: expected 1.2, got $best"; failed=1; }
done
exit $failed
