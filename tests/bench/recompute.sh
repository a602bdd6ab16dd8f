#!/usr/bin/env bash
# Measures what recomputation saves and costs. Trains a recipe with each setting of train.recompute, prints a row per setting:
# the median ms of a step, tokens/s and its ratio to that of `none`, the peak memory measured and predicted by `weft plan`, and
# the products computed again. Fails if a loss of any step differs from that of `none` in a bit, if the measured peak is more than
# 3 % from the predicted one, or if a budget is missed by more than 3 %.
#
#   tests/bench/recompute.sh WEFT [CONFIG [key=value...]]    CONFIG: configs/llama_1b.yaml by default
#
# The budgets are a third and two thirds of the way from the memory of `full` to that of `none`. Attention adds its gradients in a
# fixed order (kernels.deterministic), because losses are compared. LAUNCH is a prefix, for example "mpirun -np 2". STEPS (12) is
# the number of steps, OUT the folder of the output. DEVICE (cuda) may be cpu, whose measured memory is not compared.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || { sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }
weft=$1 config=${2:-configs/llama_1b.yaml} out=${OUT:-$(mktemp -d)} device=${DEVICE:-cuda} steps=${STEPS:-12}
shift $(($# > 2 ? 2 : $#))
mkdir -p "$out"
read -ra launch <<< "${LAUNCH:-}"
keys=("device=$device" kernels.deterministic=true data.synthetic=true "$@")

gib() {  # gib SETTING [key=value...]: the memory that the plan predicts
  "$weft" plan "$config" "${keys[@]}" "train.recompute=$1" --json 2> /dev/null | sed -nE 's/.*"total":([0-9]+).*/\1/p' | awk '{ printf "%.4f", $1 / 2^30 }'
}
none=$(gib none) full=$(gib full)
budget() { awk -v n="$none" -v f="$full" -v s="$1" 'BEGIN { printf "{budget: %.2f}", f + s * (n - f) }'; }
settings=(none selective "$(budget 0.6667)" "$(budget 0.3333)" full)

failed=0
echo "| setting | ms | tokens/s | of none | GiB | GiB predicted | products again |"
echo "|---|---|---|---|---|---|---|"
for i in "${!settings[@]}"; do
  setting=${settings[i]}
  "$weft" plan "$config" "${keys[@]}" "train.recompute=$setting" > "$out/plan.$i" 2>&1 || { tail -3 "$out/plan.$i"; exit 1; }
  "${launch[@]}" "$weft" train "$config" "${keys[@]}" "train.recompute=$setting" "train.steps=$steps" log.every=1000 "log.jsonl=$out/$i.jsonl" \
    > "$out/train.$i" 2>&1 || { tail -5 "$out/train.$i"; echo "recompute.sh: training with $setting failed"; exit 1; }
  PYTHONPATH=tests/bench python3 -B - "$out" "$i" "$setting" "$(gib "$setting")" "$device" << 'PY' || failed=1
import json, re, sys
import step_times
out, i, setting, predicted, device = sys.argv[1:]
losses = lambda n: [event["loss"] for event in map(json.loads, open(f"{out}/{n}.jsonl")) if event["event"] == "step"]
mine, base = (step_times.of_weft(f"{out}/{n}.jsonl", lambda steps: steps[len(steps) // 3:]) for n in (i, 0))
again = re.search(r"([\d.]+) % more products", open(f"{out}/plan.{i}").read())
print(f"| {setting} | {mine['ms']:.2f} | {mine['tokens_per_s']:,.0f} | {mine['tokens_per_s'] / base['tokens_per_s']:.3f} | {mine['gib']:.2f} | "
      f"{float(predicted):.2f} | {again[1] if again else 0} % |")
if losses(i) != losses(0): sys.exit(f"recompute.sh: {setting}: expected the losses of none, got {losses(i)}, not {losses(0)}")
near = lambda a, b: abs(a / b - 1) <= 0.03
if device == "cuda" and not near(mine["gib"], float(predicted)):
    sys.exit(f"recompute.sh: {setting}: expected {predicted} GiB within 3 %, got {mine['gib']:.2f}")
budget = re.search(r"budget: ([\d.]+)", setting)
if budget and not near(float(predicted), float(budget[1])):
    sys.exit(f"recompute.sh: expected a plan within 3 % of {setting}, got {predicted} GiB")
PY
done
exit $failed
