#!/usr/bin/env bash
# One GPU: the recipes of configs/ beside PyTorch (torch_peer.py), in one run on one machine. Two rows per model, for
# tests/bench/results.md: the recipe, and the recipe without its `kernels` key, whose steps repeat bit for bit. A row is
# the median ms of a step, tokens/s, peak memory, and Weft's tokens/s over PyTorch's. Then the seconds from launch to the
# end of the first step of the first model, without and with the file of matrix product algorithms. Fails if
#   - a recipe reaches less than 1.03 of PyTorch, gpt2_124m_8 less than 1.02, a model without the key less than 0.97, one in
#     f32 less than 0.9,
#   - a recipe takes more memory than PyTorch, or a program gives no result,
#   - the launch takes more than 8 s and 4 s.
#
#   tests/bench/versus_torch.sh WEFT [MODEL...]    WEFT: the program; MODEL: a recipe's name, or gpt2_124m_8, GPT-2 124M
#                                                  with 8 sequences a step, or gpt2_124m_tf32 and gpt2_124m_f32, with 16
#                                                  in f32, whose products round to TF32 or keep all bits
# COMMIT names the program in the rows; STEPS is how many steps Weft trains.
set -uo pipefail
shopt -s extglob
cd "$(dirname "$0")/../.."
weft=$1 failed=0
shift
[ $# -gt 0 ] || set -- gpt2_124m gpt2_1558m llama_1b gpt2_124m_8 gpt2_124m_tf32 gpt2_124m_f32
out=${OUT:-$(mktemp -d)}
export COMMIT=${COMMIT:-$(git rev-parse --short HEAD 2> /dev/null || echo '?')}

# What the peer runs fastest with, of what was tried.
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

# train NAME MODEL [key=value...]
train() {
  local name=$1 model=$2
  shift 2
  # shellcheck disable=SC2086
  "$weft" train "configs/$(recipe "$model").yaml" ${keys[$model]:-} "$@" train.steps="${STEPS:-60}" log.every=1000 log.jsonl="$out/$name.jsonl" > "$out/$name.weft.log" 2>&1 ||
    { tail -3 "$out/$name.weft.log"; return 1; }
}
for model in "$@"; do
  train "$model" "$model" || { failed=1; continue; }
  # In f32 attention is Weft's own, whose steps repeat anyway.
  [[ $model == *f32 ]] || train "$model.default" "$model" kernels.deterministic=true || { failed=1; continue; }
  # shellcheck disable=SC2086
  timeout 300 python3 tests/bench/torch_peer.py ${settings[$model]} --steps 40 --warmup 12 > "$out/$model.peer.log" 2>&1
  python3 - "$model" "$out" "${settings[$model]}" "$(recipe "$model")" << 'PY' || failed=1
import datetime, json, os, re, statistics, sys
model, out, settings, recipe = sys.argv[1:]
peer_log = open(f"{out}/{model}.peer.log", errors="replace").readlines()
peer = [json.loads(line.split("RESULT", 1)[1]) for line in peer_log if line.startswith("RESULT")]
if not peer: sys.exit("".join([f"{model}: the peer gave no result:\n", *peer_log[-5:]]))
peer = peer[-1]
graphs = "reduce-overhead" in settings  # PyTorch's count of memory leaves the pool of CUDA graphs out
peer_gib = None if graphs else peer["peak_gib"]
batch, faults = " x ".join(re.findall(r"--(?:batch|seq) (\d+)", settings)), []
least = {"8": 1.02, "tf32": 0.9, "f32": 0.9}.get(model.removeprefix(f"{recipe}_"), 1.03)
shown = recipe + {"tf32": ", f32 with TF32 products", "f32": ", f32"}.get(model.removeprefix(f"{recipe}_"), "")
rows = [(model, least, shown)]
if "f32" not in model: rows.append((f"{model}.default", 0.97, f"{shown}, no kernels key"))
for name, least, shown in rows:
    events = [json.loads(line) for line in open(f"{out}/{name}.jsonl")]
    steps = [e for e in events if e["event"] == "step"]
    ms = statistics.median(e["ms"] for e in steps[12:])
    tokens, gib = events[0]["tokens_per_step"] / ms * 1e3, steps[-1]["peak_bytes"] / 2**30
    ratio = tokens / peer["tokens_per_s"]
    print(f"| {datetime.date.today()} | {os.environ['COMMIT']} | {shown}, {batch} | {ms:.2f} | {tokens:,.0f} | {gib:.1f} | "
          f"{peer['ms_median']:.2f} | {peer['tokens_per_s']:,.0f} | {round(peer_gib, 1) if peer_gib else '-'} | {ratio:.3f} |")
    if ratio < least: faults.append(f"{name}: expected a ratio of at least {least}")
    if name == model and peer_gib and gib > peer_gib: faults.append(f"{name}: expected a peak of at most PyTorch's")
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
