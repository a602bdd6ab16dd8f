#!/usr/bin/env bash
# One GPU: the recipes of configs/ beside PyTorch, in one run on one machine. One row a model, for tests/bench/results.md:
# median ms of a step, tokens/s, peak memory, and Weft's tokens/s over PyTorch's. Then the seconds from launch to the end
# of the first step of the first model, without and with the file of matrix product algorithms. Fails where Weft is
# slower or takes more memory than PyTorch, where a program gives no result, and above 8 s and 4 s.
#
#   tests/bench/versus_torch.sh WEFT PEER [MODEL...]     WEFT: the program; PEER: a script that trains the same model with
#                                                        PyTorch and prints RESULT {json}; MODEL: a recipe's name
# COMMIT names the program in the rows.
set -uo pipefail
cd "$(dirname "$0")/../.."
weft=$1 peer=$2 failed=0
shift 2
[ $# -gt 0 ] || set -- gpt2_124m gpt2_1558m llama_1b
out=${OUT:-$(mktemp -d)}
export COMMIT=${COMMIT:-$(git rev-parse --short HEAD 2> /dev/null || echo '?')}

# What the peer runs fastest with, of what was tried.
declare -A settings=(
  [gpt2_124m]="--model gpt2-124M --batch 64 --seq 1024 --compile-mode reduce-overhead"
  [gpt2_1558m]="--model gpt2-1.5B --batch 16 --seq 1024"
  [llama_1b]="--model llama-1B --batch 4 --seq 4096"
)
for model in "$@"; do
  "$weft" train "configs/$model.yaml" train.steps="${STEPS:-60}" log.every=1000 log.jsonl="$out/$model.jsonl" > "$out/$model.weft.log" 2>&1 ||
    { tail -3 "$out/$model.weft.log"; failed=1; continue; }
  # shellcheck disable=SC2086
  timeout 300 python3 "$peer" ${settings[$model]} --steps 40 --warmup 12 > "$out/$model.peer.log" 2>&1
  python3 - "$model" "$out/$model.jsonl" "$out/$model.peer.log" "${settings[$model]}" << 'EOF' || failed=1
import datetime, json, os, re, statistics, sys
model, ours, theirs, settings = sys.argv[1:]
events = [json.loads(line) for line in open(ours)]
steps = [e for e in events if e["event"] == "step"]
ms = statistics.median(e["ms"] for e in steps[12:])
tokens = events[0]["tokens_per_step"] / ms * 1e3
peak = steps[-1]["peak_bytes"] / 2**30
result = [json.loads(line.split("RESULT", 1)[1]) for line in open(theirs, errors="replace") if line.startswith("RESULT")]
if not result:
    print(f"{model}: weft {ms:.2f} ms, {tokens:,.0f} tokens/s, {peak:.1f} GiB; the peer gave no result:")
    sys.exit("".join(open(theirs, errors="replace").readlines()[-5:]))
r = result[-1]
graphs = "reduce-overhead" in settings  # PyTorch's count of memory leaves the pool of CUDA graphs out
their_peak = None if graphs else r["peak_gib"]
ratio = tokens / r["tokens_per_s"]
batch = " x ".join(re.findall(r"--(?:batch|seq) (\d+)", settings))
print(f"| {datetime.date.today()} | {os.environ['COMMIT']} | {model}, {batch} | {ms:.2f} | {tokens:,.0f} | {peak:.1f} | "
      f"{r['ms_median']:.2f} | {r['tokens_per_s']:,.0f} | {round(their_peak, 1) if their_peak else '-'} | {ratio:.3f} |")
if ratio < 1: sys.exit(f"{model}: expected a ratio of at least 1")
if their_peak and peak > their_peak: sys.exit(f"{model}: expected a peak of at most PyTorch's")
EOF
done

home=$(mktemp -d)
for case in cold:8 warm:4; do
  begin=$EPOCHREALTIME
  HOME=$home XDG_CACHE_HOME=$home "$weft" train "configs/$1.yaml" train.steps=1 log.jsonl="$out/launch.jsonl" > "$out/launch.log" 2>&1 ||
    { tail -3 "$out/launch.log"; failed=1; }
  awk -v what="launch to first step of $1, ${case%:*}" -v a="$begin" -v b="$EPOCHREALTIME" -v most="${case#*:}" \
    'BEGIN { printf "%s: %.1f s (expected at most %s)\n", what, b - a, most; exit b - a > most }' || failed=1
done
rm -rf "$home"
exit $failed
