#!/usr/bin/env bash
# weft eval choices=FILE gives the log-likelihoods and the choices that transformers gives with the same weights in f32:
# 500 made-up items like HellaSwag's, a GPT-2 and a Llama, on one rank and on several.
# Usage: hellaswag_test.sh ROOT BUILD; exits 77 (skipped) where Python has no torch, transformers and tokenizers.
# WEFT_PYTHON names another Python than python3.
source "$(dirname "$0")/../launcher/prelude.sh"
python=${WEFT_PYTHON:-python3}
"$python" -c 'import tokenizers, torch, transformers' 2> /dev/null ||
  { echo "hellaswag_test: skipped, $python has no tokenizers, torch and transformers (pip install them, or set WEFT_PYTHON)"; exit 77; }
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TRANSFORMERS_VERBOSITY=error HF_HUB_DISABLE_PROGRESS_BARS=1

"$python" tests/interop/compare_hellaswag.py make "$dir/items" gpt2 "$dir/gpt2" llama "$dir/llama"
compared=()
# ours FAMILY TITLE WORD...
ours() {
  local family=$1 out=$dir/$1.${#compared[@]}
  run 0 "500 items, 2000 endings" eval "configs/$family-tiny.yaml" "model.init=$dir/$family" "choices=$dir/items" "out=$out" \
    device=cpu precision.compute=f32 "${@:3}"
  grep -o 'acc [0-9.]*, acc_norm [0-9.]*' "$dir/out" > "$out.acc"
  compared+=("$dir/$family" "$out" "$family, $2")
}
for family in gpt2 llama; do
  words=()
  [ $family = gpt2 ] || words=(model.ffn=192)
  ours $family "1 rank" "${words[@]}"
  ours $family "dp=2 x tp=2" ranks=4 mesh.dp=2 mesh.tp=2 "${words[@]}"
done
"$python" tests/interop/compare_hellaswag.py compare "$dir/items" "${compared[@]}" | tee "$dir/compared"

# The shares that are printed are those of the file.
for out in "$dir"/*.acc; do
  grep -qF "; $(cat "$out")" "$dir/compared" || fail "expected $(cat "$out") of $out in the comparison"
done
