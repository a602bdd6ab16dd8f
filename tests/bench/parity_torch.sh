#!/usr/bin/env bash
# Checks loss parity with PyTorch on one GPU. Both programs train GPT-2 124M from the same weights on the same tokens: 200 steps
# of distinct batches, bf16 compute and f32 master weights. Prints both first losses and the distance between the loss curves,
# and for comparison the distance between compiled and uncompiled PyTorch, because rounding by itself separates curves when the
# loss jumps. Both programs compute with norm weights in f32. PyTorch does so under autocast; FSDP's mixed precision would use
# bf16.
#
#   tests/bench/parity_torch.sh WEFT [TEXT...]    TEXT: files or folders with words (default: Python's library)
#
# The peer does not print the loss before its first update, so a separate run with a learning rate of 0 prints it. That run is on
# the first batch, with which training then starts again. Weft's file of tokens repeats the first batch for the same reason.
set -euo pipefail
cd "$(dirname "$0")/../.."
weft=$1 peer=tests/bench/torch_peer.py
shift
[ $# -gt 0 ] || set -- "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["stdlib"])')"
out=${OUT:-$(mktemp -d)} batch=${BATCH:-16} steps=${STEPS:-200} seq=1024 lr=3e-4

# Numbers the words, spaces and signs of the text by their frequency, so that the ids are distributed like those of a tokenizer.
python3 - "$out" $((batch * seq)) "$steps" "$@" << 'PY'
import collections, pathlib, re, sys
import numpy as np
out, need, steps, *paths = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]
wanted, pieces = need * (steps + 1) + 2, []  # the peer starts over if one more batch would not fit
for path in map(pathlib.Path, paths):
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
        pieces += re.findall(r"\w+|\s+|[^\w\s]", file.read_text(errors="ignore"))
        if len(pieces) > wanted: break
if len(pieces) < wanted: sys.exit(f"parity_torch: {len(pieces)} words, expected {wanted}; name more text")
order = {word: i for i, (word, _) in enumerate(collections.Counter(pieces).most_common(50256))}
tokens = np.array([order.get(word, 50256) for word in pieces[:wanted]], dtype=np.uint16)
tokens[need] = tokens[0]  # the target of the first batch's last token is the same in both files
def save(name, tokens):
    head = np.zeros(256, dtype=np.int32)
    head[:3] = 20240520, 1, len(tokens)
    with open(f"{out}/{name}.bin", "wb") as file: file.write(head.tobytes() + tokens.tobytes())
save("peer", tokens)
save("weft", np.concatenate([tokens[:need], tokens]))
PY

settings=(--model gpt2-124M --batch "$batch" --seq $seq --data "$out/peer.bin" --print-loss)
python3 $peer "${settings[@]}" --batches 1 --lr 0 --warmup 1 --steps 1 --compile none --save-init "$out/init.safetensors" > "$out/peer.first.log" 2>&1
for mode in full none; do
  python3 $peer "${settings[@]}" --batches "$steps" --lr $lr --warmup 1 --steps "$steps" --compile $mode > "$out/peer.$mode.log" 2>&1
done
"$weft" train configs/gpt2_124m.yaml device=cuda model.init="$out/init.safetensors" data.synthetic=false data.shuffle=false data.train="$out/weft.bin" \
  train.global_batch="$batch" train.steps=$((steps + 1)) optimizer.lr=$lr log.every=50 log.jsonl="$out/weft.jsonl" > "$out/weft.log" 2>&1

python3 - "$out" << 'PY'
import json, re, statistics, sys
out = sys.argv[1]
losses = lambda log: [float(x) for x in re.findall(r"step \d+ loss ([\d.naninf]+)", open(f"{out}/{log}").read())]
first, peer, other = losses("peer.first.log")[-1], losses("peer.full.log"), losses("peer.none.log")
weft = [e["loss"] for e in map(json.loads, open(f"{out}/weft.jsonl")) if e["event"] == "step"]
first_weft, weft = weft[0], weft[1:]
assert len(weft) == len(peer) == len(other), (len(weft), len(peer), len(other))
def apart(a, b):
    differences = [abs(x - y) for x, y in zip(a, b)]
    return {"mean": statistics.mean(differences), "largest": max(differences), "last_20": statistics.mean(differences[-20:])}
weft_peer, peer_peer = apart(weft, peer), apart(other, peer)
# A first loss is a mean over all targets, of sums that are rounded to bf16. Each has a relative error of up to 2^-8, of which at
# most 1e-4 is left in the mean. In the mean and at the end, the curves of Weft and PyTorch may be at most twice as far apart as
# the two curves of PyTorch. These two may happen to be closer than rounding explains, so the limit is at least twice 0.2 % of
# the loss.
result = {"bench": "parity_torch", "steps": len(peer), "first": [first_weft, first], "last": [weft[-1], peer[-1], other[-1]],
          "weft_peer": weft_peer, "peer_peer": peer_peer}
least = 0.002 * statistics.mean(peer)
result["pass"] = abs(first_weft - first) < first * 1e-4 and all(
    weft_peer[which] < 2 * max(peer_peer[which], least) for which in ("mean", "last_20"))
print(json.dumps(result))
sys.exit(not result["pass"])
PY
