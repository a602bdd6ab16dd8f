#!/usr/bin/env bash
# weft export: what it says and how it ends; that what it writes is right, hf_export_test and transformers_test show.
# Usage: export_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/prelude.sh"

tiny=(configs/gpt2-tiny.yaml data.train=README.md data.val=0 schedule.warmup_steps=0 train.steps=2)
run 0 "" train "${tiny[@]}" checkpoint.every=1 "checkpoint.dir=$dir/c"
run 0 "$dir/a: 28 tensors in f32" export "$dir/c" "$dir/a/"
run 0 "from $dir/c/step-000001" export "$dir/c/step-000001" "$dir/b" dtype=bf16
run 0 "weights of $dir/a" train "${tiny[@]}" model.vocab=256 "model.init=$dir/a"
[ ! -e "$dir/a/tokenizer.model" ] || fail "expected no tokenizer.model of bytes"
run 2 "expected a folder to be made, got one that is there" export "$dir/c" "$dir/a"
run 2 "dtype: expected one of f32, bf16, f16, got \"f8\"" export "$dir/c" "$dir/x" dtype=f8
run 2 "OUT is missing" export "$dir/c"
run 2 "CHECKPOINT and OUT are missing" export
run 2 "--force" export "$dir/c" "$dir/x" --force
run 2 "$dir/nowhere: expected a checkpoint (a folder with manifest.json) or a folder of them (step-000100 and so on), got no folder" \
  export "$dir/nowhere" "$dir/x"
run 0 "usage: weft export" export --help
# A broken checkpoint is named and passed over if there is an older one, and refused if it was asked for by name.
printf x | dd of="$dir/c/step-000002/rank-00000.safetensors" bs=1 seek=5000 conv=notrunc 2> "$dir/dd"
run 2 "rank-00000.safetensors" export "$dir/c/step-000002" "$dir/x"
mkdir "$dir/c/step-000003"
run 0 "from $dir/c/step-000001" export "$dir/c" "$dir/older"
grep -qF "broken, passed over: $dir/c/step-000002/rank-00000.safetensors: header: the checksum" "$dir/out" ||
  fail "expected the changed file to be named"
grep -qF "broken, passed over: $dir/c/step-000003/manifest.json: " "$dir/out" || fail "expected the missing file to be named"
run 0 "" export "$dir/c/step-000001" "$dir/first"
cmp "$dir/older/model.safetensors" "$dir/first/model.safetensors" || fail "expected the weights of step 1"
rm "$dir/c/step-000001/config.yaml"
run 2 "$dir/c: expected a whole checkpoint, got only broken ones:" export "$dir/c" "$dir/x"
[ ! -e "$dir/x" ] && [ ! -e "$dir/x.unfinished" ] || fail "expected nothing to be left"
# The model that the text was cut into pieces by goes with the weights, byte for byte.
code=0
"$weft" prepare "$dir/text" README.md tokenizer=sentencepiece vocab=500 > "$dir/out" 2>&1 < /dev/null || code=$?
if [ $code -eq 2 ] && grep -q 'built without sentencepiece' "$dir/out"; then
  echo "without sentencepiece: tokenizer.model not tried"
else
  [ $code -eq 0 ] || fail "expected the text to be prepared, got exit code $code"
  for family in gpt2 llama; do
    run 0 "" train configs/$family-tiny.yaml data.train=README.md data.val=0 schedule.warmup_steps=0 train.steps=1 \
      "data.tokenizer=sentencepiece:$dir/text/tokenizer.model" "checkpoint.dir=$dir/$family"
    run 0 "MiB, tokenizer.model, from" export "$dir/$family" "$dir/$family.hf"
    cmp "$dir/$family.hf/tokenizer.model" "$dir/text/tokenizer.model" || fail "expected the tokenizer of $family"
  done
fi
echo "export: ok"
