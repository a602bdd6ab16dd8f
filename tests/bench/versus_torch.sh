#!/usr/bin/env bash
# Compares the recipes of configs/ with PyTorch (torch_peer.py) on one GPU. Prints two rows per model for tests/bench/results.md:
# the recipe, and the recipe without its `kernels` key, whose steps are reproducible bit for bit. A model in f32 has one row. A
# row has the median ms of a step, tokens/s, peak memory, and the ratio of Weft's tokens/s to PyTorch's. Then prints the seconds
# from launch to the end of the first step of the first model, without and with the file of matrix product algorithms. Fails if
#   - the ratio is below 1.03 for a recipe, 1.02 for gpt2_124m_8, 0.97 for a model without the key, or 0.98 for a model in f32,
#   - a recipe uses more memory than PyTorch, or a program gives no result,
#   - the launch takes more than 8 s without that file, or 4 s with it.
#
#   tests/bench/versus_torch.sh WEFT [MODEL...]    WEFT: the program; MODEL: the name of a recipe; or gpt2_124m_8, which is
#                                                  GPT-2 124M with 8 sequences per step; or gpt2_124m_tf32 and gpt2_124m_f32,
#                                                  with 16 sequences in f32, with products in TF32 or in full precision
# COMMIT names the program in the rows. STEPS is the number of steps that Weft trains.
set -uo pipefail
shopt -s extglob
cd "$(dirname "$0")/../.."
# shellcheck source=/dev/null
source tests/bench/beside_torch.sh
weft=$1 failed=0
# shellcheck disable=SC2034  # beside_torch.sh uses them
weft_command=("$weft") peer_command=(timeout 300 "${peer_command[@]}")
shift
[ $# -gt 0 ] || set -- gpt2_124m gpt2_1558m llama_1b gpt2_124m_8 gpt2_124m_tf32 gpt2_124m_f32

# The fastest of the peer's settings that were tried.
declare -A settings=(
  [gpt2_124m]="--model gpt2-124M --batch 64 --seq 1024 --compile-mode reduce-overhead"
  [gpt2_124m_8]="--model gpt2-124M --batch 8 --seq 1024 --compile-mode reduce-overhead"
  [gpt2_124m_tf32]="--model gpt2-124M --batch 16 --seq 1024 --precision fp32 --compile-mode reduce-overhead"
  [gpt2_124m_f32]="--model gpt2-124M --batch 16 --seq 1024 --precision fp32 --no-tf32 --compile-mode reduce-overhead"
  [gpt2_1558m]="--model gpt2-1.5B --batch 16 --seq 1024"
  [llama_1b]="--model llama-1B --batch 4 --seq 4096"
)
declare -A keys=(
  [gpt2_124m_8]="train.global_batch=8"
  [gpt2_124m_tf32]="train.global_batch=16 precision.compute=f32 kernels.tf32=true"
  [gpt2_124m_f32]="train.global_batch=16 precision.compute=f32"
)
recipe() { echo "${1%_@(8|tf32|f32)}"; }

# train NAME MODEL [key=value...]: trains a model with Weft. On failure prints the end of its output.
train() {
  local name=$1 model=$2
  shift 2
  # shellcheck disable=SC2086
  run_weft "$name" "$(recipe "$model")" ${keys[$model]:-} "$@" train.steps="${STEPS:-60}" ||
    { tail -3 "$out/$name.weft.log"; return 1; }
}
for model in "$@"; do
  train "$model" "$model" || { failed=1; continue; }
  # In f32 attention uses Weft's own kernels, with which steps are reproducible anyway.
  [[ $model == *f32 ]] || train "$model.default" "$model" kernels.deterministic=true || { failed=1; continue; }
  # shellcheck disable=SC2086
  run_peer "$model" ${settings[$model]} --steps 40 --warmup 12
  PYTHONPATH=tests/bench python3 -B - "$model" "$out" "${settings[$model]}" "$(recipe "$model")" << 'PY' || failed=1
import datetime, os, re, sys
import step_times
model, out, settings, recipe = sys.argv[1:]
peer = step_times.of_peer(f"{out}/{model}.peer.log")
graphs = "reduce-overhead" in settings  # PyTorch's count of memory does not include the pool of CUDA graphs
peer_gib = None if graphs else peer["gib"]
batch, faults = " x ".join(re.findall(r"--(?:batch|seq) (\d+)", settings)), []
least = {"8": 1.02, "tf32": 0.98, "f32": 0.98}.get(model.removeprefix(f"{recipe}_"), 1.03)
shown = recipe + {"tf32": ", f32 with TF32 products", "f32": ", f32"}.get(model.removeprefix(f"{recipe}_"), "")
rows = [(model, least, shown)]
if "f32" not in model: rows.append((f"{model}.default", 0.97, f"{shown}, no kernels key"))
for name, least, shown in rows:
    weft = step_times.of_weft(f"{out}/{name}.jsonl", lambda steps: steps[12:])
    ratio = weft["tokens_per_s"] / peer["tokens_per_s"]
    print(f"| {datetime.date.today()} | {os.environ['COMMIT']} | {shown}, {batch} | {weft['ms']:.2f} | {weft['tokens_per_s']:,.0f} | "
          f"{weft['gib']:.1f} | {peer['ms']:.2f} | {peer['tokens_per_s']:,.0f} | {round(peer_gib, 1) if peer_gib else '-'} | {ratio:.3f} |")
    if ratio < least: faults.append(f"{name}: expected a ratio of at least {least}")
    if name == model and peer_gib and weft["gib"] > peer_gib: faults.append(f"{name}: expected a peak of at most PyTorch's")
sys.exit("\n".join(faults) or 0)
PY
done

home=$(mktemp -d)
for case in cold:8 warm:4; do
  begin=$EPOCHREALTIME
  HOME=$home XDG_CACHE_HOME=$home "$weft" train "configs/$(recipe "$1").yaml" train.steps=1 log.jsonl="$out/launch.jsonl" > "$out/launch.log" 2>&1 ||
    { tail -3 "$out/launch.log"; failed=1; }
  awk -v what="launch to first step of $(recipe "$1"), ${case%:*}" -v a="$begin" -v b="$EPOCHREALTIME" -v most="${case#*:}" \
    'BEGIN { printf "%s: %.1f s (expected at most %s)\n", what, b - a, most; exit b - a > most }' || failed=1
done
rm -rf "$home"
exit $failed
