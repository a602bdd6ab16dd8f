#!/usr/bin/env bash
# Measures the launch of a job on several GPUs, its memory over many replays, and checkpoints that other meshes load.
#
#   tests/bench/multigpu_job.sh WEFT|ARCHIVE.tar.gz RANKS [launch|replays|checkpoint...]     all three by default
#
#   launch      three runs of one step: the time from the start of mpirun to the end of the first step and to the end of the
#               job, and when each phase of the start ended (docs/guide/logs-and-reports.md)
#   replays     REPLAYS (20000) steps of a small model, on GPUs on three meshes: plain data parallel ranks, FSDP by copy
#               engines, and halves in symmetric memory; fails unless the GPUs' used memory stays as it is
#   checkpoint  saves from FSDP after steps 3 and 6, and evaluates the last on FSDP, on tensor parallel ranks and on both; fails
#               unless the losses agree to 1e-3
#
# DEVICE (cuda) is the device, CONFIG (configs/llama_8b.yaml) the model of launch and checkpoint, and KEYS more keys for
# checkpoint: by default 8 of the 32 layers, and 4,096 tokens. DIR is a folder for checkpoints, by default a new one in /tmp.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,15s/^# \{0,1\}//p' "$0" >&2; exit 2; }
weft=$(realpath "$1") ranks=$2 device=${DEVICE:-cuda} config=${CONFIG:-configs/llama_8b.yaml}
shift 2
[ $# -gt 0 ] || set -- launch replays checkpoint
cd "$(dirname "$0")/../.."
# shellcheck source=/dev/null
source launcher/environment.sh
if [[ $weft == *.tar.* ]]; then
  # shellcheck source=/dev/null
  source tests/bundle.sh
  open_bundle "$weft"
  # shellcheck disable=SC2154  # open_bundle sets folder
  weft=$folder/weft/bin/weft
fi
work=$(mktemp -d) checkpoints=${DIR:-$(mktemp -d)}
trap 'rm -rf "$work" "${folder:-}"; [ -n "${DIR:-}" ] || rm -rf "$checkpoints"' EXIT
read -ra keys <<< "${KEYS-model.layers=8 model.context=4096}"

us() { echo "${EPOCHREALTIME/[.,]/}"; }  # microseconds since 1970
# stamped: writes its lines to $work/out, and to $work/first the time at which the line of the first step came.
stamped() {
  local line
  while IFS= read -r line; do
    [[ ! $line =~ ^step\ +1/ ]] || [ -s "$work/first" ] || us > "$work/first"
    printf '%s\n' "$line"
  done > "$work/out"
}
# job COMMAND WORD...: runs it on all ranks, with its output in $work/out.
job() {
  rm -f "$work/first"
  timeout --kill-after=10 400 mpirun -np "$ranks" --bind-to none "$weft" "$@" "device=$device" 2>&1 < /dev/null | stamped && return
  tail -20 "$work/out" >&2
  echo "multigpu_job: expected weft $1 to end, got an error: $*" >&2
  exit 1
}
# number EVENT MEMBER FILE: the last such number of a log.
number() { sed -nE "s/.*\"event\":\"$1\".*\"$2\":([-0-9.e+]+).*/\1/p" "$3" | tail -1; }

launch() {
  local begin end
  for _ in 1 2 3; do
    rm -f "$work/log"
    begin=$(us)
    job train "$config" "mesh.dp=$ranks" parallel.fsdp=full "train.global_batch=$ranks" train.steps=1 schedule.warmup_steps=0 \
      data.synthetic=true "log.jsonl=$work/log"
    end=$(us)
    [ -s "$work/first" ] || { echo "multigpu_job: expected the line of the first step on the terminal, got none" >&2; exit 1; }
    echo "shown: one step of $config on $ranks ranks: the first step ends after $((($(< "$work/first") - begin) / 1000)) ms and" \
      "takes $(number step ms "$work/log") ms; the job ends after $(((end - begin) / 1000)) ms"
    grep '"event":"startup"' "$work/log" | sed 's/^/shown: /'
  done
}

replays() {
  local mesh meshes=("mesh.dp=$ranks")
  [ "$device" != cuda ] || meshes+=("mesh.dp=$ranks parallel.fsdp=full parallel.gather=copy"
    "mesh.tp=$ranks parallel.sequence_parallel=true parallel.symmetric_memory=true parallel.overlap=halves")
  for mesh in "${meshes[@]}"; do replay "$mesh"; done
}
# replay MESH
replay() {
  local steps=${REPLAYS:-20000} smi=""
  rm -f "$work/log"
  if [ "$device" != cpu ]; then
    nvidia-smi --loop-ms=250 --query-gpu=index,memory.used --format=csv,noheader,nounits > "$work/used" &
    smi=$!
  fi
  # shellcheck disable=SC2086
  job train configs/gpt2-tiny.yaml data.train=README.md data.val=0 schedule.name=constant schedule.warmup_steps=0 \
    "train.steps=$steps" $1 log.every=1000000 "log.jsonl=$work/log"
  echo "shown: $steps replays of a step of $(printf %.2f "$(number step ms "$work/log")") ms on $1"
  [ -n "$smi" ] || return 0
  kill $smi
  wait $smi || true  # it was killed
  # The middle half of the samples, in which the job neither starts nor ends.
  awk -F, -v ranks="$ranks" '
    $1 < ranks { used[$1, n[$1]++] = $2 + 0 }
    END {
      for (gpu = 0; gpu < ranks; gpu++) {
        for (i = int(n[gpu] / 4); i < int(n[gpu] * 3 / 4); i++) {
          if (used[gpu, i] != used[gpu, int(n[gpu] / 4)]) grew = 1
          samples++
        }
        if (n[gpu] < 8) grew = 1
        printf "shown: GPU %d: %d MiB, then %d MiB\n", gpu, used[gpu, int(n[gpu] / 4)], used[gpu, int(n[gpu] * 3 / 4) - 1]
      }
      exit grew
    }' "$work/used" || { echo "multigpu_job: expected memory that stays as it is" >&2; exit 1; }
}

checkpoint() {
  local mesh loss first="" meshes=("mesh.dp=$ranks parallel.fsdp=full" "mesh.dp=1 mesh.tp=$ranks parallel.fsdp=none")
  [ $((ranks % 2)) -ne 0 ] || [ "$ranks" -lt 4 ] || meshes+=("mesh.dp=2 mesh.tp=$((ranks / 2)) parallel.fsdp=full")
  cat src/*/*/*.cc docs/*/*.md > "$work/text"
  rm -f "$work/log"
  # shellcheck disable=SC2086
  job train "$config" "${keys[@]}" ${meshes[0]} "train.global_batch=$ranks" data.synthetic=false "data.train=$work/text" data.val=0.1 \
    schedule.warmup_steps=0 train.steps=6 "checkpoint.dir=$checkpoints/run" checkpoint.every=3 "log.jsonl=$work/log"
  grep '"event":"save"' "$work/log" | sed 's/^/shown: /'
  for mesh in "${meshes[@]}"; do
    # shellcheck disable=SC2086
    job eval "$checkpoints/run/step-000006" $mesh train.eval_batches=4 --json
    loss=$(number eval val_loss "$work/out")
    first=${first:-$loss}
    echo "shown: the checkpoint evaluated on $mesh: $loss"
    awk -v a="$loss" -v b="$first" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < (1e-3 * b) ^ 2) }' ||
      { echo "multigpu_job: expected a loss of $first on $mesh, got ${loss:-none}" >&2; exit 1; }
  done
}

for part; do
  case $part in
    launch | replays | checkpoint) "$part" ;;
    *) echo "multigpu_job: expected launch, replays or checkpoint, got $part" >&2; exit 2 ;;
  esac
done
