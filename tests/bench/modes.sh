#!/usr/bin/env bash
# Compares values of one key. Trains a recipe with each value, forwards and then backwards through the list, and prints a row per
# value: the median ms of a step, tokens/s, its ratio to that of the first value, the peak memory, and the last loss.
#
#   tests/bench/modes.sh WEFT KEY "VALUE VALUE..." CONFIG [key=value...]
#   LAUNCH="mpirun -np 2" tests/bench/modes.sh WEFT parallel.overlap "auto fill halves" configs/llama_1b.yaml mesh.tp=2
#
# LAUNCH is a prefix for the program. STEPS (30) is the number of steps of a run; the first third does not count. ROUNDS (1) is how
# often the list is gone through in both directions. OUT is the folder of the output.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -ge 4 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
weft=$1 key=$2 config=$4 out=${OUT:-$(mktemp -d)} steps=${STEPS:-30}
read -ra values <<< "$3"
read -ra launch <<< "${LAUNCH:-}"
shift 4
mkdir -p "$out"

run=0
for ((round = 0; round < ${ROUNDS:-1}; round++)); do
  backwards=()
  for value in "${values[@]}"; do backwards=("$value" "${backwards[@]}"); done
  for value in "${values[@]}" "${backwards[@]}"; do
    "${launch[@]}" "$weft" train "$config" data.synthetic=true "$@" "$key=$value" "train.steps=$steps" log.every=1000 \
      "log.jsonl=$out/$value.$run.jsonl" > "$out/$value.$run.log" 2>&1 ||
      { tail -5 "$out/$value.$run.log"; echo "modes.sh: training with $key=$value failed"; exit 1; }
    run=$((run + 1))
  done
done
PYTHONPATH=tests/bench python3 -B - "$out" "${values[@]}" << 'PY'
import glob, json, statistics, sys
import step_times
out, *values = sys.argv[1:]
print("| value | ms | tokens/s | of the first | GiB | last loss |\n|---|---|---|---|---|---|")
first = None
for value in values:
    paths = sorted(path for path in glob.glob(f"{out}/{value}.*.jsonl") if path.split(".")[-2].isdigit())
    runs = [step_times.of_weft(path, lambda steps: steps[len(steps) // 3:]) for path in paths]
    ms = statistics.median(run["ms"] for run in runs)
    rate = runs[0]["tokens"] / ms * 1e3
    first = first or rate
    losses = {[event["loss"] for event in map(json.loads, open(path)) if event["event"] == "step"][-1] for path in paths}
    print(f"| {value} | {ms:.2f} | {rate:,.0f} | {rate / first:.3f} | {max(run['gib'] for run in runs):.2f} | {', '.join(map(str, sorted(losses)))} |")
PY
