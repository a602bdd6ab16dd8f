#!/usr/bin/env bash
# weft export: what it says and how it ends; that what it writes is right, hf_export_test and transformers_test show.
# Usage: export_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/prelude.sh"

tiny=(configs/gpt2-tiny.yaml data.train=README.md data.val=0 schedule.warmup_steps=0 train.steps=2)
run 0 "" train "${tiny[@]}" checkpoint.every=1 "checkpoint.dir=$dir/c"
run 0 "$dir/a: 28 tensors in f32" export "$dir/c" "$dir/a/"
run 0 "from $dir/c/step-000001" export "$dir/c/step-000001" "$dir/b" dtype=bf16
run 0 "weights of $dir/a" train "${tiny[@]}" model.vocab=256 "model.init=$dir/a"
run 2 "expected a folder to be made, got one that is there" export "$dir/c" "$dir/a"
run 2 "dtype: expected f32, bf16 or f16, got \"f8\"" export "$dir/c" "$dir/x" dtype=f8
run 2 "OUT is missing" export "$dir/c"
run 2 "CHECKPOINT and OUT are missing" export
run 2 "--force" export "$dir/c" "$dir/x" --force
run 2 "manifest.json" export "$dir/nowhere" "$dir/x"
run 0 "usage: weft export" export --help
printf x | dd of="$dir/c/step-000002/rank-00000.safetensors" bs=1 seek=5000 conv=notrunc 2> "$dir/dd"
run 2 "rank-00000.safetensors" export "$dir/c" "$dir/x"
[ ! -e "$dir/x" ] && [ ! -e "$dir/x.unfinished" ] || fail "expected nothing to be left"
echo "export: ok"
