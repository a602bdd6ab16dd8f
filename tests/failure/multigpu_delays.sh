#!/usr/bin/env bash
# A run whose collectives are late by random times, on the host and on the GPUs, ends with the losses of one without
# delays, bit for bit. Without delays a wrong order of calls may go well for years; with them, ranks soon wait for each
# other.
#
#   tests/failure/multigpu_delays.sh WEFT RANKS [STEPS [DEVICE]]      1000 steps on cuda by default
#
# ONLY=PATTERN runs the meshes that match the regular expression, such as "gather=copy|symmetric".
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
weft=$(realpath "$1") ranks=$2 steps=${3:-1000} device=${4:-cuda}
cd "$(dirname "$0")/../.."
# shellcheck source=/dev/null
source launcher/environment.sh
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
config=(configs/llama-tiny.yaml data.train=README.md data.val=0 schedule.name=constant schedule.warmup_steps=0
  "train.steps=$steps" dist.timeout_s=20 "device=$device" log.every=1)

# train NAME WORDS...
train() {
  local name=$1
  shift
  timeout --kill-after=5 300 mpirun -np "$ranks" --bind-to none "$weft" train "${config[@]}" "$@" "log.jsonl=$dir/$name" \
    > "$dir/out" 2>&1 < /dev/null || { cat "$dir/out"; echo "multigpu_delays: $*: expected the run to exit with 0"; exit 1; }
  sed -nE 's/.*"event":"step",("step":[0-9]+,"loss":[^,]*,"grad_norm":[^,]*),.*/\1/p' "$dir/$name" > "$dir/$name.losses"
  [ "$(wc -l < "$dir/$name.losses")" -eq "$steps" ] || { echo "multigpu_delays: $*: expected $steps losses"; exit 1; }
}
meshes=("mesh.dp=$ranks" "mesh.dp=$ranks parallel.fsdp=full" "mesh.tp=$ranks")
[ "$device" = cpu ] || meshes+=("mesh.dp=$ranks parallel.fsdp=full parallel.gather=copy kernels.combine=true"
  "mesh.tp=$ranks model.kv_heads=4 parallel.symmetric_memory=true kernels.combine=true"  # ranks with equal shards
  "mesh.tp=$ranks model.kv_heads=4 parallel.sequence_parallel=true parallel.symmetric_memory=true parallel.overlap=halves"
  "mesh.tp=$ranks parallel.sequence_parallel=true parallel.overlap=chunks parallel.chunks=2")
[ "$ranks" -lt 4 ] || meshes+=("mesh.dp=2 mesh.tp=2 parallel.fsdp=full")
shown=0
for mesh in "${meshes[@]}"; do
  [[ $mesh =~ ${ONLY:-} ]] || continue
  # shellcheck disable=SC2086
  train plain $mesh
  # shellcheck disable=SC2086
  WEFT_FAULT=collective:delay:${DELAY_US:-200} train late $mesh
  cmp -s "$dir/plain.losses" "$dir/late.losses" ||
    { diff "$dir/plain.losses" "$dir/late.losses" | head -5; echo "multigpu_delays: $mesh: expected the same losses"; exit 1; }
  shown=$((shown + 1))
  echo "shown: $mesh: $steps steps with delays on $ranks ${device}s have the losses of those without"
done
[ $shown -gt 0 ] || { echo "multigpu_delays: no mesh matches \"$ONLY\"" >&2; exit 2; }
echo "multigpu_delays: ok"
