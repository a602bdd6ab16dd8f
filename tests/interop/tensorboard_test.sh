#!/usr/bin/env bash
# tensorboard reads the event files of a run that was resumed, and of one in f16, as the JSON lines have them.
# Usage: tensorboard_test.sh ROOT BUILD; exits 77 (skipped) where Python has no tensorboard. WEFT_PYTHON names another
# Python than python3.
source "$(dirname "$0")/../launcher/prelude.sh"
python=${WEFT_PYTHON:-python3}
"$python" -c 'import tensorboard' 2> /dev/null ||
  { echo "tensorboard_test: skipped, $python has no tensorboard (pip install it, or set WEFT_PYTHON)"; exit 77; }

config=(configs/gpt2-tiny.yaml data.train=README.md data.val=0.05 train.eval_batches=2 train.eval_every=3
  schedule.warmup_steps=1 "checkpoint.dir=$dir/c" checkpoint.every=3)
train() { run 0 "" train "${config[@]}" "$@"; }
train train.steps=8 "log.jsonl=$dir/a" "log.tensorboard=$dir/events"
"$python" tests/interop/compare_events.py "$dir/events" "$dir/a"
train train.steps=9 "log.jsonl=$dir/b" "log.tensorboard=$dir/events" "checkpoint.resume=$dir/c/step-000003" optimizer.lr=0.01
"$python" tests/interop/compare_events.py "$dir/events" "$dir/a" "$dir/b"
train train.steps=6 "log.jsonl=$dir/c16" "log.tensorboard=$dir/f16" precision.compute=f16 loss_scale.initial=1e12
"$python" tests/interop/compare_events.py "$dir/f16" "$dir/c16"
