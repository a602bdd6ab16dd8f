#!/usr/bin/env bash
# One GPU: the recipes of configs/ beside PyTorch, in one run on one machine. One row a model, for tests/bench/results.md:
# median ms of a step, tokens/s, peak memory, and Weft's tokens/s over PyTorch's. Then the seconds from launch to the end
# of the first step of the first model, without and with the file of matrix product algorithms.
#
#   tests/bench/versus_torch.sh WEFT PEER [MODEL...]     WEFT: the program; PEER: a script that trains the same model with
#                                                        PyTorch and prints RESULT {json}; MODEL: a recipe's name
set -uo pipefail
cd "$(dirname "$0")/../.."
weft=$1 peer=$2
shift 2
[ $# -gt 0 ] || set -- gpt2_124m gpt2_1558m llama_1b
out=${OUT:-$(mktemp -d)}

# What the peer runs fastest with, of what was tried.
declare -A settings=(
  [gpt2_124m]="--model gpt2-124M --batch 64 --seq 1024 --compile-mode reduce-overhead"
  [gpt2_1558m]="--model gpt2-1.5B --batch 16 --seq 1024"
  [llama_1b]="--model llama-1B --batch 4 --seq 4096"
)
for model in "$@"; do
  "$weft" train "configs/$model.yaml" train.steps="${STEPS:-60}" log.every=1000 log.jsonl="$out/$model.jsonl" > "$out/$model.weft.log" 2>&1 ||
    { tail -3 "$out/$model.weft.log"; continue; }
  # shellcheck disable=SC2086
  timeout 300 python3 "$peer" ${settings[$model]} --steps 40 --warmup 12 > "$out/$model.peer.log" 2>&1
  python3 - "$model" "$out/$model.jsonl" "$out/$model.peer.log" << 'EOF'
import json, statistics, sys
model, ours, theirs = sys.argv[1:]
events = [json.loads(line) for line in open(ours)]
steps = [e for e in events if e["event"] == "step"]
tail = steps[12:]
ms = statistics.median(e["ms"] for e in tail)
tokens = events[0]["tokens_per_step"] / ms * 1e3
peak = steps[-1]["peak_bytes"] / 2**30
result = [json.loads(line.split("RESULT", 1)[1]) for line in open(theirs, errors="replace") if line.startswith("RESULT")]
if not result:
    print(f"{model}: weft {ms:.2f} ms, {tokens:,.0f} tokens/s, {peak:.1f} GiB; the peer gave no result:")
    print("".join(open(theirs, errors="replace").readlines()[-5:]))
    sys.exit()
r = result[-1]
print(f"| {model} | {ms:.2f} | {tokens:,.0f} | {peak:.1f} | {r['ms_median']:.2f} | {r['tokens_per_s']:,.0f} | {r['peak_gib']:.1f} | {tokens / r['tokens_per_s']:.3f} |")
EOF
done

home=$(mktemp -d)
for cache in cold warm; do
  begin=$EPOCHREALTIME
  HOME=$home XDG_CACHE_HOME=$home "$weft" train "configs/$1.yaml" train.steps=1 log.jsonl="$out/launch.jsonl" > "$out/launch.log" 2>&1 || tail -3 "$out/launch.log"
  echo "launch to first step of $1, $cache: $(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }') s"
done
rm -rf "$home"
