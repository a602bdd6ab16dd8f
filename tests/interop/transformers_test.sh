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

for family in gpt2 llama; do
  config=configs/$family-tiny.yaml
  # Ours, after some steps, is theirs.
  run 0 "" train "$config" train.steps=5 data.train=README.md data.val=0 schedule.warmup_steps=0 model.vocab=256 \
    checkpoint.dir="$dir/$family"
  "$weft" export "$dir/$family" "$dir/$family.hf"
  "$logits" "$config" "$dir/logits" model.vocab=256 model.init="$dir/$family.hf"
  "$python" tests/interop/compare_logits.py compare "$dir/$family.hf" "$dir/logits"
  # Theirs is ours.
  "$python" tests/interop/compare_logits.py make $family "$dir/$family.theirs"
  extra=()
  [ $family = gpt2 ] || extra=(model.ffn=192)
  "$logits" "$config" "$dir/logits" model.vocab=256 "${extra[@]}" model.init="$dir/$family.theirs"
  "$python" tests/interop/compare_logits.py compare "$dir/$family.theirs" "$dir/logits"
done
