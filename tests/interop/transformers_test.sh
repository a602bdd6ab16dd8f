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

# vocab FAMILY: bytes, and the mask, or the end and the padding of texts.
vocab() {
  case $1 in
    bert) echo model.vocab=257 ;;
    marian) echo model.vocab=258 ;;
    *) echo model.vocab=256 ;;
  esac
}
# The comparisons by one Python at the end, because it takes long to start: FOLDER LOGITS TITLE.
compared=()
# both FAMILY FOLDER TITLE WORD...: the logits of its weights on one rank and on a mesh of 2 x 2.
both() {
  local mesh at
  for mesh in "mesh.dp=1 mesh.tp=1" "mesh.dp=2 mesh.tp=2"; do
    at=$dir/${#compared[@]}.logits
    # shellcheck disable=SC2086  # two words
    "$logits" "configs/$1-tiny.yaml" "$at" "$(vocab "$1")" "model.init=$2" $mesh "${@:4}"
    compared+=("$2" "$at" "$3: $1 $mesh ${*:4}")
  done
}
# ours FAMILY WORD...: after some steps, it is theirs. The first of a family trains on a mesh of 2 x 2.
ours() {
  local at=$dir/${#compared[@]} ranks=()
  [[ " $trained " == *" $1 "* ]] || ranks=(ranks=4 mesh.dp=2 mesh.tp=2)
  trained+=" $1"
  run 0 "" train "configs/$1-tiny.yaml" train.steps=5 data.train=README.md data.val=0 schedule.warmup_steps=0 \
    "$(vocab "$1")" data.synthetic=false "checkpoint.dir=$at.c" "${ranks[@]}" "${@:2}"
  "$weft" export "$at.c" "$at.hf"
  both "$1" "$at.hf" ours "${@:2}"
}
trained=
# theirs NAME WORD...: a model that Python made is ours with these arguments.
theirs() { both "${1%%.*}" "$dir/$1" theirs "${@:2}"; }

# As they are, and with what the families leave open: tied and untied heads, as many key and value heads, the numbers of
# norms and rotary positions and their scaling, a context and a feed-forward of other sizes, the keys of each family; and
# weights in several files.
"$python" tests/interop/compare_logits.py make \
  gpt2 "$dir/gpt2.plain" '{}' \
  gpt2 "$dir/gpt2.other" '{"tie_word_embeddings": false, "layer_norm_epsilon": 1e-3, "n_inner": 100, "shard": "60KB"}' \
  llama "$dir/llama.plain" '{}' \
  llama "$dir/llama.other" '{"tie_word_embeddings": true, "rms_norm_eps": 1e-3, "rope_theta": 500.0, "shard": "60KB"}' \
  llama "$dir/llama.sizes" '{"num_key_value_heads": 4, "max_position_embeddings": 40}' \
  llama "$dir/llama.scaled" '{"rope_theta": 100.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
    "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32, "rope_theta": 100.0}}' \
  neox "$dir/neox.plain" '{}' \
  neox "$dir/neox.other" '{"use_parallel_residual": false, "attention_bias": false, "hidden_act": "gelu_fast",
    "layer_norm_eps": 1e-3, "rotary_pct": 0.5, "rotary_emb_base": 500, "tie_word_embeddings": true, "shard": "60KB"}' \
  neox "$dir/neox.scaled" '{"rotary_pct": 1.0, "rotary_emb_base": 100, "rope_scaling": {"rope_type": "llama3",
    "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}}' \
  bert "$dir/bert.plain" '{}' \
  bert "$dir/bert.other" '{"hidden_act": "gelu_new", "layer_norm_eps": 1e-12, "type_vocab_size": 3,
    "intermediate_size": 100, "max_position_embeddings": 40, "shard": "60KB"}' \
  marian "$dir/marian.plain" '{}' \
  marian "$dir/marian.other" '{"activation_function": "gelu", "scale_embedding": false, "decoder_layers": 1,
    "encoder_ffn_dim": 100, "decoder_ffn_dim": 100, "shard": "60KB"}' \
  mistral "$dir/mistral.plain" '{}' \
  mistral "$dir/mistral.other" '{"sliding_window": null, "head_dim": 24, "num_key_value_heads": 1, "shard": "60KB"}' \
  gemma2 "$dir/gemma2.plain" '{}' \
  gemma2 "$dir/gemma2.other" '{"sliding_window": 5, "head_dim": 16, "query_pre_attn_scalar": 16, "shard": "60KB",
    "attn_logit_softcapping": null, "final_logit_softcapping": null, "tie_word_embeddings": false}'
scaled=(model.rope_theta=100 model.rope_factor=8 model.rope_low=1 model.rope_high=4 model.rope_context=32)
ours gpt2
ours gpt2 model.tie_embeddings=false model.norm_eps=1e-3 model.ffn=100
ours gpt2 model.kv_heads=2
ours gpt2 model.kv_heads=1
ours llama
ours llama model.tie_embeddings=true model.norm_eps=1e-3 model.rope_theta=500
ours llama model.kv_heads=4 model.ffn=72 model.context=40
ours llama "${scaled[@]}"
neox=(model.parallel_residual=false model.attention_bias=false model.exact_gelu=false model.norm_eps=1e-3
  model.rotary_share=0.5 model.rope_theta=500 model.tie_embeddings=true)
ours neox
ours neox "${neox[@]}" model.kv_heads=2
ours neox model.rotary_share=1 "${scaled[@]}"
bert=(model.exact_gelu=false model.norm_eps=1e-12 model.token_types=3 model.ffn=100 model.context=40)
ours bert
ours bert "${bert[@]}" model.kv_heads=2
ours bert model.tie_embeddings=false
ours mistral
ours mistral model.window=0 model.head_dim=24 model.kv_heads=1
gemma2=(model.layers=3 model.ffn=192 model.head_dim=32 model.query_scalar=20 model.window=16 model.attention_softcap=2
  model.logit_softcap=4)
for i in {1..40}; do echo "{\"source\": \"$i ab\", \"target\": \"ba $i\"}"; done > "$dir/pairs.jsonl"
marian=(model.swish=false model.scale_embedding=false model.decoder_layers=1 model.ffn=100)
ours marian data.train="$dir/pairs.jsonl"
ours marian data.train="$dir/pairs.jsonl" "${marian[@]}" model.kv_heads=2
ours gemma2
ours gemma2 "${gemma2[@]}"
theirs gpt2.plain
theirs gpt2.other model.tie_embeddings=false model.norm_eps=1e-3 model.ffn=100
theirs llama.plain model.ffn=192
theirs llama.other model.ffn=192 model.tie_embeddings=true model.norm_eps=1e-3 model.rope_theta=500
theirs llama.sizes model.ffn=192 model.kv_heads=4 model.context=40
theirs llama.scaled model.ffn=192 "${scaled[@]}"
theirs neox.plain
theirs neox.other "${neox[@]}"
theirs neox.scaled model.rotary_share=1 "${scaled[@]}"
theirs bert.plain
theirs bert.other "${bert[@]}"
theirs marian.plain model.context=64
theirs marian.other model.context=64 "${marian[@]}"
theirs mistral.plain model.ffn=192 model.window=16
theirs mistral.other model.ffn=192 model.window=0 model.head_dim=24 model.kv_heads=1
theirs gemma2.plain "${gemma2[@]}"
theirs gemma2.other "${gemma2[@]}" model.window=5 model.head_dim=16 model.query_scalar=16 model.attention_softcap=0 \
  model.logit_softcap=0 model.tie_embeddings=false
"$python" tests/interop/compare_logits.py compare "${compared[@]}"

# What Weft takes for neutral is neutral: f32 sums differ where another implementation of attention is chosen.
neutral=()
for family in gpt2 llama neox bert mistral gemma2 marian; do
  "$logits" --neutral "$family" > "$dir/$family.keys"
  neutral+=("$family" "$dir/$family.keys" 1e-6)
done
"$python" tests/interop/compare_logits.py neutral "${neutral[@]}"
