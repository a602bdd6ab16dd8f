#!/usr/bin/env bash
# Each optimizer moves a GPT-2 in f64 as PyTorch's does, or where PyTorch has none or computes it in bf16, as its formula.
# Usage: optimizers_test.sh ROOT BUILD; exits 77 (skipped) where Python has no torch and transformers. WEFT_PYTHON names
# another Python than python3.
source "$(dirname "$0")/../launcher/prelude.sh"
python=${WEFT_PYTHON:-python3}
"$python" -c 'import numpy, torch, transformers; torch.optim.Muon' 2> /dev/null ||
  { echo "optimizers_test: skipped, $python has no numpy, transformers and torch with Muon (pip install them, or set WEFT_PYTHON)"; exit 77; }
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TRANSFORMERS_VERBOSITY=error HF_HUB_DISABLE_PROGRESS_BARS=1

# A text of its own, because rounding in AdamW depends on the letters: it divides by the size of gradients, however small.
"$python" -c '
state, words = 1, "a loss is given in nats per token; more ranks cut each batch, and no sum depends on where it was made.".split()
for i in range(4000):
    state = (1103515245 * state + 12345) % 2**31
    print(words[state // 65536 % len(words)], end="\n" if i % 12 == 11 else " ")' > "$dir/text.txt"

# First weights are those after a few steps: no bias is zero.
plain=(configs/gpt2-tiny.yaml "data.train=$dir/text.txt" data.val=0 model.vocab=256 schedule.name=constant schedule.warmup_steps=0)
run 0 "" train "${plain[@]}" train.steps=3 "checkpoint.dir=$dir/c"
"$weft" export "$dir/c" "$dir/hf"

# trained NAME STEPS KEYS WORD...: KEYS are for Python: how the optimizer is made there.
compared=()
trained() {
  run 0 "" train "${plain[@]}" "model.init=$dir/hf" precision.compute=f64 data.shuffle=false train.global_batch=4 "train.steps=$2" \
    train.clip=0 "log.jsonl=$dir/$1.jsonl" "${@:4}"
  compared+=("$1" "$dir/$1.jsonl" "$3")
}
trained adamw 20 '{"lr": 1e-3}' optimizer.lr=1e-3
trained sgd 20 '{"lr": 0.1}' optimizer.name=sgd optimizer.lr=0.1
trained sgd_decay 20 '{"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}' optimizer.name=sgd optimizer.lr=0.1 optimizer.momentum=0.9 \
  optimizer.weight_decay=0.1
trained sgd_nesterov 20 '{"lr": 0.02, "momentum": 0.8, "nesterov": true}' optimizer.name=sgd optimizer.lr=0.02 optimizer.momentum=0.8 \
  optimizer.nesterov=true
trained lion 20 '{"lr": 3e-4}' optimizer.name=lion optimizer.lr=3e-4
trained muon 20 '{"lr": 3e-3}' optimizer.name=muon optimizer.lr=3e-3
trained muon_torch 50 '{"lr": 3e-3}' optimizer.name=muon optimizer.lr=3e-3
# The last group that matches decides; what it leaves open is as without groups.
trained groups 20 '{"lr": 3e-3}' optimizer.lr=3e-3 \
  optimizer.groups='[{match: "*.norm*", weight_decay: 0.2}, {match: embed.weight, optimizer: sgd, lr_scale: 30},
    {match: "*.mlp.*", optimizer: lion, lr_scale: 0.1, weight_decay: 0.3}, {match: "*.mlp.*.bias", lr_scale: 0.5}, {match: positions, lr_scale: 0}]'
"$python" tests/interop/compare_optimizers.py "$dir/hf" "$dir/text.txt" "${compared[@]}"
