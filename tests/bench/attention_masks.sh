#!/usr/bin/env bash
# Compares attention under masks with PyTorch on one GPU: each backend of Weft that takes the case, by `weft bench sdpa`, against
# the fastest of PyTorch's SDPA backends and compiled flex_attention (torch_attention_masks.py). Prints one row per case and pass,
# with the ratio of PyTorch's time to that of Weft's own choice. Takes about 2 minutes. Fails if a ratio is below 0.8, or below
# 0.98 without a mask or with the causal one, which cuDNN runs in both programs, or if a program gives no result.
#
#   tests/bench/attention_masks.sh ARCHIVE.tar.gz [CASE...]    of launcher/bundle.sh; or WEFT, the program
#
# A case is mask:batch:heads:seq:head_dim:window:documents:padding. OUT is the folder for the programs' output.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
[ -f "${1:-}" ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
out=${OUT:-$(mktemp -d)} weft=$1 folder=
# shellcheck source=/dev/null
source tests/bundle.sh
if [[ $1 == *.tar.gz ]]; then
  open_bundle "$1"
  weft=$folder/weft/bin/weft
fi

cases=("${@:2}")
[ $# -gt 1 ] || for size in 64 128; do
  for mask in causal:2:32:8192:$size:0:1:0 full:2:32:8192:$size:0:1:0 causal:2:32:8192:$size:1024:1:0 causal:2:32:8192:$size:0:8:0 full:2:32:8192:$size:0:1:0.25; do
    cases+=("$mask")
  done
done

mkdir -p "$out"
: > "$out/weft.jsonl"
for case in "${cases[@]}"; do
  IFS=: read -r mask batch heads seq size window documents padding <<< "$case"
  for backend in auto flash; do
    "$weft" bench sdpa --json device=cuda kernels.deterministic=false kernels.attention=$backend dtype=bf16 \
      causal="$([ "$mask" = causal ] && echo true || echo false)" batch="$batch" heads="$heads" seq="$seq" head_dim="$size" \
      window="$window" documents="$documents" padding="$padding" > "$out/line.jsonl" 2>> "$out/weft.log" ||
      { echo "attention_masks: weft bench failed on $case by $backend:"; tail -3 "$out/weft.log"; }
    sed "s/^/$case $backend /" "$out/line.jsonl" >> "$out/weft.jsonl"
  done
done
timeout 400 python3 tests/bench/torch_attention_masks.py "${cases[@]}" > "$out/torch.jsonl" 2> "$out/torch.log" ||
  { echo "attention_masks: PyTorch failed:"; tail -3 "$out/torch.log"; }

python3 - "$out" "${cases[@]}" << 'PY'
import json, sys
out, *cases = sys.argv[1:]
weft, peer, faults = {}, {}, []
for line in open(f"{out}/weft.jsonl"):
    case, backend, text = line.split(" ", 2)
    if text.startswith("{"):
        result = json.loads(text)
        weft[case, backend, result["labels"]["pass"]] = result["median_ms"]
for line in open(f"{out}/torch.jsonl"):
    result = json.loads(line)
    if "forward" in result:
        for name in ("forward", "backward"): peer.setdefault((result["case"], name), {})[result["way"]] = result[name]
    elif "torch" in result:
        print(f"PyTorch {result['torch']}, cuDNN {result['cudnn']}, {result['gpu']}")
print("| mask, batch x heads x seq x head_dim | pass | Weft ms | flash ms | PyTorch ms | ratio | of flash |")
print("|---|---|---|---|---|---|---|")
for case in cases:
    mask, batch, heads, seq, size, window, documents, padding = case.split(":")
    name = mask + (f", window {window}" if window != "0" else "") + (f", {documents} documents" if documents != "1" else "")
    name += f", {float(padding):.0%} padding" if padding != "0" else ""
    for which in ("forward", "backward"):
        own, flash, ways = weft.get((case, "auto", which)), weft.get((case, "flash", which)), peer.get((case, which), {})
        if not own or not flash or not ways:
            faults.append(f"{name}, {which}: no result")
            continue
        best = min(ways, key=ways.get)
        ratio, least = ways[best] / own, 0.98 if name in ("causal", "full") else 0.8
        print(f"| {name}, {batch} x {heads} x {seq} x {size} | {which} | {own:.3f} | {flash:.3f} | {ways[best]:.3f} by {best} | "
              f"{ratio:.2f} | {ways[best] / flash:.2f} |")
        if ratio < least: faults.append(f"{name}, head size {size}, {which}: {ratio:.2f}, expected at least {least}")
sys.exit("\n".join(faults) or 0)
PY
