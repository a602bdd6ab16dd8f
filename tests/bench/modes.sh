#!/usr/bin/env bash
# Compares values of one key. Trains a recipe with each value, forwards and then backwards through the list, and prints a JSON line
# and a row of a table per value: the median ms of a step, tokens/s, its ratio to that of the first value, the peak memory, the
# losses of the last steps, and on GPUs their clocks, power and memory, which has the communicators too.
#
#   tests/bench/modes.sh WEFT KEY "VALUE VALUE..." CONFIG.yaml|ROW [key=value...]
#   LAUNCH="mpirun -np 2" tests/bench/modes.sh WEFT parallel.overlap "auto fill halves" configs/llama_1b.yaml mesh.tp=2
#   LOAD=18 STEPS=18 tests/bench/modes.sh ARCHIVE.tar.gz parallel.gather "kernels copy" 8b_fsdp_1x8192
#   tests/bench/modes.sh ARCHIVE.tar.gz keys "none parallel.overlap=fill,precision.reduce=bf16 NCCL_MIN_CTAS=32" 8b_tp_1x8192
#
# If KEY is keys, a VALUE is none or a list of keys and variables of the environment, with commas between them.
#
# WEFT is the program, or an archive of tests/gpu.sh --pack or launcher/bundle.sh. ROW is a row of multigpu_rows.sh on GPUS GPUs (all
# by default). LAUNCH is a prefix for the program. STEPS (30) is the number of steps of a run; the first third does not count. ROUNDS
# (1) is how often the list is gone through in both directions. LOAD=N first trains N steps with the first value, so that clocks
# settle. LIMIT_S is the time limit of the call in seconds. OUT is the folder of the output.
set -euo pipefail
[ $# -ge 4 ] || { sed -n '2,18s/^# \{0,1\}//p' "$0" >&2; exit 2; }
weft=$1
[ ! -f "$weft" ] || weft=$(realpath "$weft")
cd "$(dirname "$0")/../.."
key=$2 config=$4 out=${OUT:-$(mktemp -d)} steps=${STEPS:-30} deadline=$((SECONDS + ${LIMIT_S:-86400}))
export COMMIT=${COMMIT:-$(git rev-parse --short HEAD 2> /dev/null || echo '?')}
read -ra values <<< "$3"
read -ra launch <<< "${LAUNCH:-}"
shift 4
if [[ $config != *.yaml ]]; then
  gpus=${GPUS:-$( (nvidia-smi -L 2> /dev/null || true) | wc -l)}
  line=$(tests/bench/multigpu_rows.sh --dry "$config" "$gpus") || exit 2
  line=${line%%$'\n'*}
  read -ra words <<< "${line##*weft train }"
  config=${words[0]} launch=(mpirun -np "$gpus" --bind-to none)
  set -- "${words[@]:1}" "$@"
fi
# shellcheck source=/dev/null
source launcher/environment.sh
if [[ $weft == *.tar.* ]]; then
  # shellcheck source=/dev/null
  source tests/bundle.sh
  open_bundle "$weft"
  # shellcheck disable=SC2154  # open_bundle sets folder
  weft=$folder/weft/bin/weft
fi
mkdir -p "$out"

# sampled NAME COMMAND...: runs the command. Where there are GPUs, samples them meanwhile.
sampled() {
  local code=0 smi=
  if nvidia-smi -L > /dev/null 2>&1; then
    stdbuf -oL nvidia-smi --loop-ms=500 --format=csv,noheader,nounits \
      --query-gpu=index,clocks.sm,power.draw,temperature.gpu,memory.used > "$out/$1.gpus.csv" &
    smi=$!
  fi
  "${@:2}" > "$out/$1.log" 2>&1 || code=$?
  [ -z "$smi" ] || { kill "$smi"; wait "$smi" || true; }  # it was killed
  return "$code"
}
# train NAME VALUE STEPS [key=value...]
train() {
  local code=0 word all=("$key=$2") words=() variables=()
  [ "$key" != keys ] || IFS=, read -ra all <<< "${2/#none/}"
  for word in "${all[@]}"; do
    if [[ $word =~ ^[A-Z0-9_]+= ]]; then variables+=("$word"); else words+=("$word"); fi
  done
  sampled "$1" timeout --kill-after=10 $((deadline > SECONDS ? deadline - SECONDS : 1)) env "${variables[@]}" "${launch[@]}" "$weft" \
    train "$config" data.synthetic=true "${@:4}" "${words[@]}" "train.steps=$3" log.every=1000 "log.jsonl=$out/$1.jsonl" || code=$?
  [ $code -ne 0 ] || return 0
  tail -15 "$out/$1.log" >&2
  echo "modes.sh: expected training with $key=$2 to succeed, got exit code $code$([ $code -ne 124 ] || echo ": LIMIT_S ran out")" >&2
  exit 1
}
[ -z "${LOAD:-}" ] || train load "${values[0]}" "$LOAD" "$@"
run=0
for ((round = 0; round < ${ROUNDS:-1}; round++)); do
  backwards=()
  for value in "${values[@]}"; do backwards=("$value" "${backwards[@]}"); done
  for value in "${values[@]}" "${backwards[@]}"; do
    train "$value.$run" "$value" "$steps" "$@"
    run=$((run + 1))
  done
done
python3 -B tests/bench/modes.py "$out" "$key" "${values[@]}"
