#!/usr/bin/env bash
# transformers opens what weft export writes, Weft opens what transformers writes, and both compute the same logits.
# Usage: transformers_test.sh ROOT BUILD; exits 77 (skipped) where Python has no torch and transformers. WEFT_PYTHON
# names another Python than python3.
source "$(dirname "$0")/../launcher/prelude.sh"
python=${WEFT_PYTHON:-python3} logits=$build/tests/interop/logits
[ -x "$logits" ] || exit 77
"$python" -c 'import numpy, torch, transformers' 2> /dev/null ||
  { echo "transformers_test: skipped, $python has no numpy, torch and transformers (pip install them, or set WEFT_PYTHON)"; exit 77; }
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TRANSFORMERS_VERBOSITY=error HF_HUB_DISABLE_PROGRESS_BARS=1

# The comparisons by one Python at the end, because it takes long to start: FOLDER LOGITS TITLE.
compared=()
# ours FAMILY WORD...: after some steps, it is theirs.
ours() {
  local config=configs/$1-tiny.yaml at=$dir/${#compared[@]}
  run 0 "" train "$config" train.steps=5 data.train=README.md data.val=0 schedule.warmup_steps=0 model.vocab=256 \
    "checkpoint.dir=$at.c" "${@:2}"
  "$weft" export "$at.c" "$at.hf"
  "$logits" "$config" "$at.logits" model.vocab=256 "model.init=$at.hf" "${@:2}"
  compared+=("$at.hf" "$at.logits" "ours: $*")
}
# theirs NAME WORD...: a model that Python made is ours with these arguments.
theirs() {
  local family=${1%%.*} at=$dir/$1
  "$logits" "configs/$family-tiny.yaml" "$at.logits" model.vocab=256 "model.init=$at" "${@:2}"
  compared+=("$at" "$at.logits" "theirs: $*")
}

# As they are, and with what the families leave open: tied and untied heads, as many key and value heads, the numbers of
# norms and rotary positions and their scaling, a context and a feed-forward of other sizes; and weights in several
# files.
"$python" tests/interop/compare_logits.py make \
  gpt2 "$dir/gpt2.plain" '{}' \
  gpt2 "$dir/gpt2.other" '{"tie_word_embeddings": false, "layer_norm_epsilon": 1e-3, "n_inner": 100, "shard": "60KB"}' \
  llama "$dir/llama.plain" '{}' \
  llama "$dir/llama.other" '{"tie_word_embeddings": true, "rms_norm_eps": 1e-3, "rope_theta": 500.0, "shard": "60KB"}' \
  llama "$dir/llama.sizes" '{"num_key_value_heads": 4, "max_position_embeddings": 40}' \
  llama "$dir/llama.scaled" '{"rope_theta": 100.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
    "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32, "rope_theta": 100.0}}'
scaled=(model.rope_theta=100 model.rope_factor=8 model.rope_low=1 model.rope_high=4 model.rope_context=32)
ours gpt2
ours gpt2 model.tie_embeddings=false model.norm_eps=1e-3 model.ffn=100
ours gpt2 model.kv_heads=2
ours gpt2 model.kv_heads=1
ours llama
ours llama model.tie_embeddings=true model.norm_eps=1e-3 model.rope_theta=500
ours llama model.kv_heads=4 model.ffn=72 model.context=40
ours llama "${scaled[@]}"
theirs gpt2.plain
theirs gpt2.other model.tie_embeddings=false model.norm_eps=1e-3 model.ffn=100
theirs llama.plain model.ffn=192
theirs llama.other model.ffn=192 model.tie_embeddings=true model.norm_eps=1e-3 model.rope_theta=500
theirs llama.sizes model.ffn=192 model.kv_heads=4 model.context=40
theirs llama.scaled model.ffn=192 "${scaled[@]}"
"$python" tests/interop/compare_logits.py compare "${compared[@]}"

# What Weft takes for neutral is neutral: f32 sums differ where another implementation of attention is chosen.
for family in gpt2 llama; do "$logits" --neutral "$family" > "$dir/$family.keys"; done
"$python" tests/interop/compare_logits.py neutral gpt2 "$dir/gpt2.keys" 1e-6 llama "$dir/llama.keys" 1e-6
