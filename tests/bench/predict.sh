#!/usr/bin/env bash
# Compares the time and the memory of a step as weft plan predicts them with those of a training run, for rows of results.md.
# For each row: weft bench rates measures the parts of the step, weft plan predicts the step from them, weft train trains it.
#
#   tests/bench/predict.sh ARCHIVE.tar.gz|WEFT [ROW...]     the archive is from tests/gpu.sh --pack or launcher/bundle.sh
#
# A ROW is gpt2_124m, gpt2_124m_8, llama_1b or gpt2_1558m on one GPU; a row of multigpu_rows.sh on GPUS GPUs; or a file
# CONFIG.yaml[,key=value...] on RANKS ranks of the device that it names. Default: on one GPU the first four, on more those rows
# of multigpu_rows.sh that train GPT-2 124M and Llama 1B. search:CONFIG.yaml[,key=value...] searches the mesh and the options
# for GPUS GPUs or RANKS ranks, and trains the first choice and the best of each other mesh and kind of fsdp, five at most.
#
# A row takes about 70 s and a search four minutes, and a call of four rows at most nine minutes: LIMIT_S (default 530) is the
# time limit of a call in seconds, and a row for which 60 s are not left is skipped and named.
#
# Prints a line per row: predicted and measured ms, their ratio, and predicted and measured GiB with theirs. Both GiB leave out
# what NCCL's communicators take, which the plan counts and the measured peak does not. Fails if a step is not within 15 %,
# memory on a GPU not within 5 %, or the first choice of a search more than 3 % slower than the fastest that was trained, or if a
# row was skipped or gave no result.
# OUT=FOLDER gets rates, plans and logs. SETTLE is the seconds of load before parts are timed (default 12 on GPUs).
set -uo pipefail
shopt -s extglob
usage() {
  sed -n '2,22s/^# \{0,1\}//p' "$0" >&2
  exit 2
}
if [ $# -lt 1 ] || [ ! -f "$1" ]; then usage; fi
archive=$(realpath "$1") deadline=$((SECONDS + ${LIMIT_S:-530})) failed=0
shift
cd "$(dirname "$0")/../.." || exit
# shellcheck source=/dev/null
source launcher/environment.sh
program=$archive
if [[ $archive == *.tar.* ]]; then
  # shellcheck source=/dev/null
  source tests/bundle.sh
  open_bundle "$archive"
  # shellcheck disable=SC2154  # open_bundle sets folder
  program=$folder/weft/bin/weft
fi
out=${OUT:-$(mktemp -d)}
mkdir -p "$out"
gpus=${GPUS:-$( (nvidia-smi -L 2> /dev/null || true) | wc -l)}
if [ $# -eq 0 ]; then
  set -- gpt2_124m_8 gpt2_124m llama_1b gpt2_1558m
  [ "$gpus" -le 1 ] || set -- 1b_tp_4x4096 1b_dp_4x4096 1b_fsdp_4x4096 124m_dp_64x1024
fi

# define ROW: sets `config`, `keys` and `ranks`.
define() {
  local line
  ranks=1
  case $1 in
    gpt2_124m | llama_1b | gpt2_1558m) config=configs/$1.yaml keys=(device=cuda) ;;
    gpt2_124m_8) config=configs/gpt2_124m.yaml keys=(device=cuda train.global_batch=8) ;;
    search:*) define "${1#search:}" && ranks=${RANKS:-$gpus} ;;
    *.yaml*) IFS=, read -r config line <<< "$1" && IFS=, read -ra keys <<< "$line" && ranks=${RANKS:-1} ;;
    *)
      line=$(tests/bench/multigpu_rows.sh --dry "$1" "$gpus") || return 1
      line=${line%%$'\n'*}
      read -ra keys <<< "${line##*weft train }"
      config=${keys[0]} keys=("${keys[@]:1}") ranks=$gpus
      ;;
  esac
}
# weft NAME WORDS...: runs the program, on all ranks unless it plans, and keeps what it prints as NAME.
weft() {
  local name=$1 start=()
  shift
  [ "$1" = plan ] || [ "$ranks" -eq 1 ] || start=(mpirun -np "$ranks" --bind-to none)
  timeout --kill-after=10 $((deadline > SECONDS ? deadline - SECONDS : 1)) "${start[@]}" "$program" "$@" \
    > "$out/$name" 2> "$out/$name.err" && return
  tail -5 "$out/$name.err" >&2
  return 1
}
# rates NAME [key=value...]: measures the rates of the row.
rates() {
  local settle=()
  [ $device = cpu ] || settle=("settle=${SETTLE:-12}" seconds=0.1)
  weft "$1.rates" bench rates "config=$config" "${keys[@]}" "${@:2}" "${settle[@]}" --json
}
# train NAME PREDICTED_MS [key=value...]: trains as many steps as settle the clocks of a GPU, and 20 more.
train() {
  local steps=10
  [ $device = cpu ] || steps=$(python3 -c "import sys; print(20 + max(10, int(8e3 / float(sys.argv[1]))))" "$2")
  weft "$1.train" train "$config" "${keys[@]}" "${@:3}" train.steps="$steps" log.every=1000 log.jsonl="$out/$1.jsonl"
}
# row ROW: makes the line of a row.
row() {
  local name=${1//[\/,=]/_} begin=$SECONDS measured
  rates "$name" || return 1
  measured=$SECONDS
  weft "$name.plan" plan "$config" "${keys[@]}" "rates=$out/$name.rates" --json || return 1
  train "$name" "$(python3 -c "import json, sys; print(json.load(open(sys.argv[1]))['step_ms'])" "$out/$name.plan")" || return 1
  PYTHONPATH=tests/bench python3 -B - "$1" "$out/$name" $device $((measured - begin)) $((SECONDS - begin)) << 'PY'
import json, sys
import step_times
row, files, device, measuring, all_seconds = sys.argv[1:]
plan = json.load(open(f"{files}.plan"))
weft = step_times.of_weft(f"{files}.jsonl", lambda steps: steps[-20:] if device == "gpu" else steps[3:])
# NCCL allocates its communicators itself, so the measured peak lacks them.
gib = (plan["memory"]["total"] - plan["memory"].get("communicators", 0)) / 2**30
ratio, of_memory = plan["step_ms"] / weft["ms"], gib / weft["gib"]
parts = ", ".join(f"{name} {ms:.2f}" for name, ms in plan["parts_ms"].items())
print(f"| {row} | {plan['step_ms']:.2f} | {weft['ms']:.2f} | {ratio:.3f} | {gib:.2f} | {weft['gib']:.2f} | {of_memory:.3f} | "
      f"rates took {measuring} s, all {all_seconds} s; ms of {parts}", flush=True)
# The CPU's peak is that of the process, with its libraries.
sys.exit(not (abs(ratio - 1) <= 0.15 and (device == "cpu" or abs(of_memory - 1) <= 0.05)))
PY
}
# search ROW: makes the lines of a search. The first choice comes first, then the best of each other mesh and kind of fsdp.
search() {
  local name=${1//[\/,=:]/_} fitting=() ms choice number=0 memory=${MEMORY:-0}
  [ "$memory" = 0 ] || fitting=("memory=$memory")
  rates "$name" meshes=all mesh.dp=-1 || return 1
  weft "$name.search" plan --search "$config" "${keys[@]}" "${fitting[@]}" "devices=$ranks" "rates=$out/$name.rates" --json || return 1
  python3 - "$out/$name.search" > "$out/$name.choices" << 'PY'
import json, sys
seen = set()
for c in json.load(open(sys.argv[1]))["candidates"]:
    kind = tuple(key for key in c["keys"] if key.startswith(("mesh.", "parallel.fsdp=")))
    if kind not in seen and len(seen) < 5:
        seen.add(kind)
        print(c["step_ms"], *c["keys"])
PY
  while read -r ms choice; do
    [ $((deadline - SECONDS)) -ge 30 ] || { echo "predict: LIMIT_S ran out before $choice was trained" >&2; return 1; }
    # shellcheck disable=SC2086  # several keys
    train "$name.$((++number))" "$ms" $choice < /dev/null || return 1
  done < "$out/$name.choices"
  PYTHONPATH=tests/bench python3 -B - "$1" "$out/$name" $device << 'PY'
import sys
import step_times
row, files, device = sys.argv[1:]
measured = []
for number, line in enumerate(open(f"{files}.choices"), 1):
    predicted, keys = line.rstrip("\n").split(" ", 1)
    ms = step_times.of_weft(f"{files}.{number}.jsonl", lambda steps: steps[-20:] if device == "gpu" else steps[3:])["ms"]
    measured.append(ms)
    print(f"| {row}, choice {number}: {keys} | {float(predicted):.2f} | {ms:.2f} | {float(predicted) / ms:.3f} |", flush=True)
slower = measured[0] / min(measured)
print(f"{row}: the first choice takes {slower:.3f} of the time of the fastest that was trained")
sys.exit(slower > 1.03)
PY
}

echo "| row | predicted ms | measured ms | ratio | predicted GiB | measured GiB | ratio |"
for one in "$@"; do
  define "$one" || { echo "predict: expected a row, got $one" >&2; failed=1; continue; }
  if [ $((deadline - SECONDS)) -lt 60 ]; then
    echo "predict: $one is skipped, as LIMIT_S ran out" >&2
    failed=1
    continue
  fi
  device=cpu
  [[ " ${keys[*]} " != *" device=cuda "* ]] || device=gpu
  make=row
  [[ $one != search:* ]] || make=search
  $make "$one" || { echo "predict: $one failed" >&2; failed=1; }
done
exit $failed
