#!/usr/bin/env bash
# Compares the speed of `weft generate` with transformers, for the same weights and greedy texts. Runs both in turn: A B B A. Prints
# one row per model, type and mode of the peer: the median tokens per second of both, their ratio, and how many of Weft's tokens were
# the same; after a near tie (torch_generate.py) a text is not compared. Without transformers the peer is a GPT-2 of PyTorch's ops,
# and the row says so. Fails if a text differs, or on a CPU if the ratio is below 1.5 for gpt2_10m or 1.1 for gpt2_124m.
#
#   tests/bench/generate_torch.sh WEFT [MODEL...]    WEFT: the program, or an archive of launcher/bundle.sh; MODEL: gpt2_10m or
#                                                    gpt2_124m, with random weights
#
# On a GPU, which is taken if there is one, it compares in f32 and bf16, with transformers' default and with its static cache and a
# compiled step; on a CPU in f32 with the default. The peer has warmed up. So Weft's rate on a GPU is that between token 8 and the
# last, from two runs, since its start would count for most of it; on a CPU its start and the prompt count. DEVICE=cpu takes the
# CPU. CASES is a list of what to compare, for example "bf16 default,bf16 static". RUNS (4) is the number of runs of each program,
# BATCH (1) the number of texts, TOKENS how many tokens to write of each, LENGTH (32) the tokens of a prompt, PEER=torch the peer of
# PyTorch's ops. OUT is the folder for weights and output, WEFT_PYTHON a Python with torch.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || { sed -n '2,16s/^# \{0,1\}//p' "$0" >&2; exit 2; }
weft=$1 folder= python=${WEFT_PYTHON:-python3} out=${OUT:-$(mktemp -d)} runs=${RUNS:-4} batch=${BATCH:-1} length=${LENGTH:-32}
unset OMP_NUM_THREADS  # both programs use all cores
# shellcheck source=/dev/null
source tests/bundle.sh
if [[ $weft == *.tar.gz ]]; then
  open_bundle "$weft"
  weft=$folder/weft/bin/weft
fi
shift
[ $# -gt 0 ] || set -- gpt2_10m gpt2_124m
export COMMIT=${COMMIT:-$(git rev-parse --short HEAD 2> /dev/null || echo '?')} HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
device=${DEVICE:-$(nvidia-smi > /dev/null 2>&1 && echo cuda || echo cpu)} cases=("f32 default")
[ "$device" = cpu ] || cases=("f32 default" "f32 static" "bf16 default" "bf16 static")
[ -z "${CASES:-}" ] || IFS=, read -ra cases <<< "$CASES"

mkdir -p "$out"
declare -A config=([gpt2_10m]=gpt2-tiny [gpt2_124m]=gpt2_124m) vocab=([gpt2_10m]=256 [gpt2_124m]=50257) least=([gpt2_10m]=1.5 [gpt2_124m]=1.1)
declare -A keys=([gpt2_10m]="model.layers=6 model.heads=6 model.dim=384 model.context=1024" [gpt2_124m]="")
declare -A tokens=([gpt2_10m.cpu]=512 [gpt2_124m.cpu]=96 [gpt2_10m.cuda]=512 [gpt2_124m.cuda]=512)

# must NAME COMMAND...: the output of the command goes to NAME.log. If it fails, prints the end of that.
must() { "${@:2}" > "$out/$1.log" 2>&1 || { tail -n 5 "$out/$1.log"; echo "generate_torch: $1 failed"; exit 1; }; }

# prepare MODEL: random weights as Weft's checkpoint and as exported, a tokenizer whose token i is the character U+20000 + i, and
# the prompts.
prepare() {
  "$python" - "$out/$1" "${vocab[$1]}" "$batch" "$length" << 'PY'
import json, random, sys
path, vocab, batch, length = sys.argv[1], *map(int, sys.argv[2:])
text = lambda ids: "".join(chr(0x20000 + i) for i in ids)
rng = random.Random(1)
prompts = [[rng.randrange(vocab) for _ in range(length)] for _ in range(batch)]
open(f"{path}.chars", "w").write(text(range(vocab)))
open(f"{path}.prompts", "w").write("".join(text(p) + "\n" for p in prompts))
json.dump(prompts, open(f"{path}.prompts.json", "w"))
PY
  rm -rf "$out/$1.run" "$out/$1.hf"
  # shellcheck disable=SC2086  # several keys
  must "$1.train" "$weft" train "configs/${config[$1]}.yaml" ${keys[$1]} "model.vocab=${vocab[$1]}" "data.tokenizer=chars:$out/$1.chars" \
    data.synthetic=true "device=$device" precision.compute=f32 train.steps=1 train.global_batch=1 optimizer.lr=1e-9 schedule.min_lr=0 \
    schedule.warmup_steps=0 "checkpoint.dir=$out/$1.run" checkpoint.every=1
  must "$1.export" "$weft" export "$out/$1.run" "$out/$1.hf"
}

# generate MODEL NAME DTYPE TOKENS: the texts go to NAME.txt. Prints the number of their tokens and the seconds that they took.
generate() {
  "$weft" generate "$out/$1.run" "prompts=$out/$1.prompts" "data.tokenizer=chars:$out/$1.chars" "tokens=$4" greedy=true \
    "batch=$batch" "device=$device" "precision.compute=$3" mesh.dp=1 mesh.tp=1 > "$out/$2.txt" 2> "$out/$2.weft.log" ||
    { tail -n 3 "$out/$2.weft.log" >&2; echo "generate_torch: weft generate failed" >&2; return 1; }
  sed -nE 's/^([0-9]+) tokens in .*, ([0-9.]+) tok\/s$/\1 \2/p' "$out/$2.weft.log" | awk '{ print $1, $1 / $2 }'
}
# run_weft MODEL NAME DTYPE: tokens/s to NAME.speeds, the ids of the texts to NAME.ids.
run_weft() {
  local few="0 0" many
  [ "$device" = cpu ] || few=$(generate "$1" "$2" "$3" 8) || exit 1
  many=$(generate "$1" "$2" "$3" "$count") || exit 1
  awk '{ print ($3 - $1) / ($4 - $2) }' <<< "$few $many" >> "$out/$2.speeds"
  "$python" - "$out/$2" "$length" << 'PY'
import json, sys
path, length = sys.argv[1], int(sys.argv[2])
texts = [line for line in open(f"{path}.txt", encoding="utf-8").read().split("\n") if line and not line.startswith("---")]
json.dump([[ord(c) - 0x20000 for c in text[length:]] for text in texts], open(f"{path}.ids", "w"))
PY
}
# run_peer MODEL NAME DTYPE MODE: appends a JSON line to NAME.peer.
run_peer() {
  "$python" -B tests/bench/torch_generate.py "$out/$1.hf" "$out/$1.prompts.json" --tokens "$count" --device "$device" --dtype "$3" \
    --mode "$4" --peer "${PEER:-auto}" --expect "$out/$2.ids" >> "$out/$2.peer" 2> "$out/$2.peer.log" ||
    { tail -n 3 "$out/$2.peer.log"; echo "generate_torch: $2: the peer failed"; return 1; }
  grep '^torch_generate:' "$out/$2.peer.log" || true
}

failed=0
for model in "$@"; do
  [ -n "${config[$model]:-}" ] || { echo "generate_torch: expected a model of ${!config[*]}, got $model"; exit 2; }
  prepare "$model"
  count=${TOKENS:-${tokens[$model.$device]}}
  for case in "${cases[@]}"; do
    read -r dtype mode <<< "$case"
    name=$model.$dtype.$mode
    rm -f "$out/$name.speeds" "$out/$name.peer"
    # The first run of a type on a machine measures algorithms, and keeps them in files.
    generate "$model" "$name" "$dtype" 8 > /dev/null || { failed=1; continue; }
    for ((i = 0; i < runs; i++)); do
      if ((i % 2)); then
        run_peer "$model" "$name" "$dtype" "$mode" && run_weft "$model" "$name" "$dtype" || { failed=1 && break; }
      else
        run_weft "$model" "$name" "$dtype" && run_peer "$model" "$name" "$dtype" "$mode" || { failed=1 && break; }
      fi
    done
    [ -s "$out/$name.peer" ] || continue
    "$python" - "$out/$name" "$model, $device, $dtype, $batch x $count" "$([ "$device" = cpu ] && echo "${least[$model]}" || echo 0)" << 'PY' || failed=1
import datetime, json, os, statistics, sys
path, what, least = sys.argv[1], sys.argv[2], float(sys.argv[3])
weft = statistics.median(float(line) for line in open(f"{path}.speeds"))
peers = [json.loads(line) for line in open(f"{path}.peer") if line.strip()]
peer, same = statistics.median(s for p in peers for s in p["tokens_per_s"]), min(p["same"] for p in peers)
print(f"| {datetime.date.today()} | {os.environ['COMMIT']} | {what} | {weft:,.1f} | {peers[0]['peer']}, PyTorch {peers[0]['torch']}, {peers[0]['threads']} threads | "
      f"{peer:,.1f} | {weft / peer:.2f} | {same} of {peers[0]['tokens']} |")
if weft / peer < least: sys.exit(f"generate_torch: {what}: expected a ratio of at least {least}, got {weft / peer:.2f}")
PY
  done
done
exit $failed
