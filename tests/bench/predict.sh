#!/usr/bin/env bash
# Compares the time and the memory of a step as weft plan predicts them with those of a training run, for rows of results.md.
# For each row: weft bench rates measures the parts of the step, weft plan predicts the step from them, weft train trains it.
#
#   tests/bench/predict.sh ARCHIVE.tar.gz|WEFT [ROW...]     the archive is from tests/gpu.sh --pack or launcher/bundle.sh
#
# A ROW is gpt2_124m, gpt2_124m_8, llama_1b or gpt2_1558m on one GPU; a row of multigpu_rows.sh on GPUS GPUs; or a file
# CONFIG.yaml[,key=value...] on RANKS ranks of the device that it names. Default: on one GPU the first four, on more those rows
# of multigpu_rows.sh that train GPT-2 124M and Llama 1B. A row takes about 70 s, and a call of four rows at most nine minutes:
# LIMIT_S (default 530) is the time limit of a call in seconds, and a row for which 60 s are not left is skipped and named.
#
# Prints a line per row: predicted and measured ms, their ratio, and predicted and measured GiB with theirs. Fails if a step is
# not within 15 % or memory on a GPU not within 5 %, or if a row was skipped or gave no result.
# OUT=FOLDER gets rates, plans and logs. SETTLE is the seconds of load before parts are timed (default 12 on GPUs).
set -uo pipefail
shopt -s extglob
usage() {
  sed -n '2,16s/^# \{0,1\}//p' "$0" >&2
  exit 2
}
[ $# -ge 1 ] && [ -f "$1" ] || usage
archive=$(realpath "$1") deadline=$((SECONDS + ${LIMIT_S:-530})) failed=0
shift
cd "$(dirname "$0")/../.."
# shellcheck source=/dev/null
source launcher/environment.sh
program=$archive
if [[ $archive == *.tar.gz ]]; then
  # shellcheck source=/dev/null
  source tests/bundle.sh
  open_bundle "$archive"
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
    *.yaml*) IFS=, read -r config line <<< "$1" && IFS=, read -ra keys <<< "$line" && ranks=${RANKS:-1} ;;
    *)
      line=$(tests/bench/multigpu_rows.sh --dry "$1" "$gpus" | head -1) && [ -n "$line" ] || return 1
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
# row ROW: makes the line of a row.
row() {
  local name=${1//[\/,=]/_} begin=$SECONDS settle=() device=gpu
  [[ " ${keys[*]} " = *" device=cuda "* ]] && settle=("settle=${SETTLE:-12}") || device=cpu
  weft "$name.rates" bench rates "config=$config" "${keys[@]}" "${settle[@]}" --json || return 1
  local measured=$SECONDS
  weft "$name.plan" plan "$config" "${keys[@]}" "rates=$out/$name.rates" --json || return 1
  local steps=10
  [ $device = cpu ] || steps=$(python3 -c "import json, sys; print(20 + max(10, int(8e3 / json.load(open(sys.argv[1]))['step_ms'])))" "$out/$name.plan")
  weft "$name.train" train "$config" "${keys[@]}" train.steps="$steps" log.every=1000 log.jsonl="$out/$name.jsonl" || return 1
  PYTHONPATH=tests/bench python3 -B - "$1" "$out/$name" $device $((measured - begin)) $((SECONDS - begin)) << 'PY'
import json, sys
import step_times
row, files, device, measuring, all_seconds = sys.argv[1:]
plan = json.load(open(f"{files}.plan"))
weft = step_times.of_weft(f"{files}.jsonl", lambda steps: steps[-20:] if device == "gpu" else steps[3:])
gib = plan["memory"]["total"] / 2**30
ratio, of_memory = plan["step_ms"] / weft["ms"], gib / weft["gib"]
parts = ", ".join(f"{name} {ms:.2f}" for name, ms in plan["parts_ms"].items())
print(f"| {row} | {plan['step_ms']:.2f} | {weft['ms']:.2f} | {ratio:.3f} | {gib:.2f} | {weft['gib']:.2f} | {of_memory:.3f} | "
      f"rates took {measuring} s, all {all_seconds} s; ms of {parts}", flush=True)
# The CPU's peak is that of the process, with its libraries, and of several runs on shared cores a step differs by 5 %.
sys.exit(not (abs(ratio - 1) <= 0.15 and (device == "cpu" or abs(of_memory - 1) <= 0.05)))
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
  row "$one" || { echo "predict: $one failed" >&2; failed=1; }
done
exit $failed
