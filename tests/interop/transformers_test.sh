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

# ours FAMILY WORD...: after some steps, it is theirs.
ours() {
  local config=configs/$1-tiny.yaml
  rm -rf "$dir/c" "$dir/hf"
  run 0 "" train "$config" train.steps=5 data.train=README.md data.val=0 schedule.warmup_steps=0 model.vocab=256 \
    "checkpoint.dir=$dir/c" "${@:2}"
  "$weft" export "$dir/c" "$dir/hf"
  "$logits" "$config" "$dir/logits" model.vocab=256 "model.init=$dir/hf" "${@:2}"
  "$python" tests/interop/compare_logits.py compare "$dir/hf" "$dir/logits" "ours: $*"
}
# theirs FAMILY KEYS WORD...: a model of transformers, its config's KEYS in JSON, is ours with these words.
theirs() {
  rm -rf "$dir/hf"
  "$python" tests/interop/compare_logits.py make "$1" "$dir/hf" "$2"
  "$logits" "configs/$1-tiny.yaml" "$dir/logits" model.vocab=256 "model.init=$dir/hf" "${@:3}"
  "$python" tests/interop/compare_logits.py compare "$dir/hf" "$dir/logits" "theirs: $*"
}

# As they are, and with what the families leave open: tied and untied heads, as many key and value heads, the numbers of
# norms and rotary positions and their scaling, a context and a feed-forward of other sizes; and weights in several
# files.
ours gpt2
ours gpt2 model.tie_embeddings=false model.norm_eps=1e-3 model.ffn=100
ours llama
ours llama model.tie_embeddings=true model.norm_eps=1e-3 model.rope_theta=500
ours llama model.kv_heads=4 model.ffn=72 model.context=40
scaled=(model.rope_theta=100 model.rope_factor=8 model.rope_low=1 model.rope_high=4 model.rope_context=32)
ours llama "${scaled[@]}"
theirs gpt2 '{}'
theirs gpt2 '{"tie_word_embeddings": false, "layer_norm_epsilon": 1e-3, "n_inner": 100, "shard": "60KB"}' \
  model.tie_embeddings=false model.norm_eps=1e-3 model.ffn=100
theirs llama '{}' model.ffn=192
theirs llama '{"tie_word_embeddings": true, "rms_norm_eps": 1e-3, "rope_theta": 500.0, "shard": "60KB"}' \
  model.ffn=192 model.tie_embeddings=true model.norm_eps=1e-3 model.rope_theta=500
theirs llama '{"num_key_value_heads": 4, "max_position_embeddings": 40}' model.ffn=192 model.kv_heads=4 model.context=40
theirs llama '{"rope_theta": 100.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
  "high_freq_factor": 4.0, "original_max_position_embeddings": 32, "rope_theta": 100.0}}' model.ffn=192 "${scaled[@]}"
