#!/usr/bin/env bash
# weft generate writes the texts of an encoder-decoder that transformers' generate writes: with weights that transformers made, and
# with weights that Weft trained and exported; on one rank and on a mesh of 2 x 2, in batches of sources of different lengths.
# Usage: marian_texts_test.sh ROOT BUILD; exits 77 (skipped) where Python has no torch and transformers. WEFT_PYTHON names another
# Python than python3. With WEFT_TEST_DEVICE=cuda Weft runs on one GPU.
source "$(dirname "$0")/../launcher/prelude.sh"
python=${WEFT_PYTHON:-python3}
"$python" -c 'import torch, transformers' 2> /dev/null ||
  { echo "marian_texts_test: skipped, $python has no torch and transformers (pip install them, or set WEFT_PYTHON)"; exit 77; }
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TRANSFORMERS_VERBOSITY=error HF_HUB_DISABLE_PROGRESS_BARS=1

"$python" tests/interop/compare_texts.py make "$dir" 201
device=${WEFT_TEST_DEVICE:-cpu} meshes=("ranks=1" "ranks=4 mesh.dp=2 mesh.tp=2")
[ "$device" = cpu ] || meshes=("mesh.dp=1 mesh.tp=1")
compared=()
# both FOLDER TITLE WORD...: FOLDER is the model for Python, and the arguments name it for Weft.
both() {
  local at mesh
  for mesh in "${meshes[@]}"; do
    at=$dir/${#compared[@]}.texts code=0
    # shellcheck disable=SC2086  # several words
    within 120 "$weft" generate "${@:3}" "prompts=$dir/prompts" batch=4 greedy=true device=$device $mesh > "$at" 2> "$dir/err" < /dev/null || code=$?
    [ $code -eq 0 ] || fail "expected texts of $2, $mesh"
    compared+=("$1" "$at" "$2, $mesh")
  done
}
sizes=(configs/marian-tiny.yaml model.context=64 model.vocab=202 "data.tokenizer=chars:$dir/chars")
both "$dir/plain" "theirs" "${sizes[@]}" "model.init=$dir/plain"
both "$dir/plain" "theirs, cache=false" "${sizes[@]}" "model.init=$dir/plain" cache=false
both "$dir/other" "theirs, other keys" "${sizes[@]}" "model.init=$dir/other" model.swish=false model.scale_embedding=false model.decoder_layers=1

# Sources are the prompts, and targets their first letters.
for i in {1..5}; do
  while read -r line; do printf '{"source": "%s", "target": "%s"}\n' "$line" "${line:0:9}"; done < "$dir/prompts"
done > "$dir/pairs.jsonl"
run 0 "" train "${sizes[@]}" data.synthetic=false "data.train=$dir/pairs.jsonl" train.steps=60 device=$device "checkpoint.dir=$dir/c"
"$weft" export "$dir/c" "$dir/ours" > "$dir/out"
both "$dir/ours" ours "$dir/c"
"$python" tests/interop/compare_texts.py compare "$dir" "${compared[@]}"
