#!/usr/bin/env bash
# weft plan: what it assumes it says, and absurd words are refused at once, as weft train refuses them.
# Usage: plan_command_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/prelude.sh"

# plan CODE TEXT WORDS...: the exit code, and TEXT in the output; an empty TEXT: no note.
plan() {
  local wanted=$1 text=$2
  shift 2
  code=0
  within 10 "$weft" plan "$@" > "$dir/out" 2>&1 || code=$?
  [ $code -eq "$wanted" ] || fail "expected exit code $wanted for $*"
  if [ -n "$text" ]; then
    grep -qF -- "$text" "$dir/out" || fail "expected \"$text\" for $*"
  else
    ! grep -qiE 'note|assumed' "$dir/out" || fail "expected no note for $*"
  fi
}
chars=(configs/shakespeare_char.yaml "data.train=$dir/text.txt")
# The exact bytes, which stand in the report with --verbose.
parameters() { sed -nE 's/^  parameters .* \(([0-9]+) B\)$/\1/p' "$dir/out"; }

plan 0 "note: model.vocab = 256 is assumed; give model.vocab=N" "${chars[@]}" --verbose
assumed=$(parameters)
[ "$assumed" -gt 100000 ] || fail "expected the bytes of parameters"
plan 0 "" "${chars[@]}" model.vocab=256 --verbose
grep -qF "data is not counted: $dir/text.txt: no such file" "$dir/out" || fail "expected a line on the missing text"
[ "$(parameters)" = "$assumed" ] || fail "expected the parameters of a vocabulary of 256, $assumed bytes"
plan 0 "$dir/text.txt: no such file" "${chars[@]}" --json
for _ in {1..500}; do printf 'abc\n'; done > "$dir/text.txt"
plan 0 "" "${chars[@]}" --verbose
with_text=$(parameters)
# 2,000 characters of 4 bytes each are held as tokens.
grep -qE '^  data +7\.8 KiB \(8000 B\)$' "$dir/out" || fail "expected the memory of the text's tokens"
plan 0 "" "${chars[@]}" --verbose model.vocab=4
[ "$(parameters)" = "$with_text" ] || fail "expected the parameters of the text's 4 characters, $with_text bytes"

plan 2 "model.vocab: expected at least the 256 kinds of token of tokenizer bytes, got 9" configs/gpt2-tiny.yaml model.vocab=9
# An encoder's vocabulary has the mask too, which the bytes do not have.
plan 2 "at least the 257 kinds of token of tokenizer bytes with the mask, got 256" configs/bert-tiny.yaml model.vocab=256
plan 0 "" configs/bert-tiny.yaml --verbose model.vocab=257
with_mask=$(parameters)
plan 0 "" configs/bert-tiny.yaml --verbose
[ "$(parameters)" = "$with_mask" ] || fail "expected the parameters of 256 bytes and the mask, $with_mask bytes"
plan 0 "leave 65528 ranks without any" configs/gpt2-tiny.yaml ranks=65536
for ranks in 0 -1 x 1e3 65537 2147483648 4294967297 99999999999999999999; do
  plan 2 "command line: ranks: expected an integer >= 1 and <= 65536, got \"$ranks\"" configs/gpt2-tiny.yaml "ranks=$ranks"
done
plan 0 "" configs/gpt2-tiny.yaml --ranks 4 mesh.dp=-1
plan 2 'command line: ranks: expected an integer >= 1 and <= 65536, got "x"' configs/gpt2-tiny.yaml --ranks=x
plan 2 'command line: jsno: unknown argument; did you mean --json?' configs/gpt2-tiny.yaml --jsno
# Token shards have no vocabulary of their own: magic 20240520, version 1, 9 tokens.
{ printf '\x88\xd8\x34\x01\x01\0\0\0\x09\0\0\0'; head -c $((1012 + 18)) /dev/zero; } > "$dir/shard.bin"
plan 2 "model.vocab: is required with token shards" configs/gpt2-tiny.yaml "data.train=$dir/shard.bin"
plan 0 "" configs/gpt2-tiny.yaml "data.train=$dir/shard.bin" model.vocab=9
# The summary names a block once and has units; --verbose has each collective.
plan 0 "" configs/gpt2-tiny.yaml mesh.tp=2
grep -qE '^  blocks\.0 to blocks\.[0-9]+: the same$' "$dir/out" || fail "expected the blocks to be folded"
grep -qE '^compute per step: [0-9.]+ [MG]FLOP in products, [0-9.]+ [MG]FLOP per rank$' "$dir/out" || fail "expected FLOPs with units"
! grep -q 'transformer.cc:[0-9]* *$' <(grep '^all_reduce' "$dir/out") || fail "expected no single collectives"
plan 0 "every collective of a rank" configs/gpt2-tiny.yaml mesh.tp=2 --verbose
grep -qE '^all_reduce +tp .* B .* x1  blocks\.1\.mlp\.down  transformer\.cc:[0-9]+$' "$dir/out" || fail "expected each collective"
# GPUs are planned with in every build; a run on one needs the CUDA library.
plan 0 "predicted peak" configs/gpt2-tiny.yaml device=cuda
if ! ldconfig -p | grep -q 'libcuda\.so\.1'; then
  train=$("$weft" train configs/gpt2-tiny.yaml data.train=README.md device=cuda 2>&1) && code=0 || code=$?
  [[ $code = 2 && $train = *"command line: device: device cuda: this host has no NVIDIA driver"* ]] ||
    fail "expected weft train to refuse a GPU without a driver, got $code: $train"
fi
plan 0 "predicted peak" configs/gpt2-tiny.yaml device=cuda mesh.tp=4 mesh.dp=2
plan 0 "too much: device.memory is 104.9 KiB, so that weft train refuses such a run" configs/gpt2-tiny.yaml device=cuda device.memory=0.0001
plan 0 "kernels.combine: joins the products of 4 groups of weights" configs/llama-tiny.yaml kernels.combine=true
plan 0 "kernels.combine: joins nothing here" configs/gpt2-tiny.yaml kernels.combine=true
plan 0 "4 heads over 6 tensor parallel ranks leave 2 ranks without any; give at most 4" configs/gpt2-tiny.yaml mesh.tp=6
plan 0 "note: command line: loss_scale.initial: has no effect" configs/gpt2-tiny.yaml loss_scale.initial=8
echo "plan: ok"

# WEFT_DUMP: each program after each pass.
WEFT_DUMP=$dir/dump plan 0 "" configs/gpt2-tiny.yaml train.micro_batch=1
for name in step accumulate eval; do
  for stage in 1.trace 2.partition 4.fuse 6.simplify; do
    grep -q '^%[0-9]* = einsum(' "$dir/dump/$name.$stage.txt" || fail "expected an einsum in the dump $name.$stage.txt"
  done
done
WEFT_DUMP=$dir/text.txt/dump plan 1 "$dir/text.txt/dump" configs/gpt2-tiny.yaml

# Missing words of a search, and a file without rates.
tiny=configs/gpt2-tiny.yaml
plan 2 "weft plan: --search needs devices=N" --search $tiny rates=no
plan 2 "weft plan: --search needs rates=FILE, which weft bench rates config=CONFIG --json makes" --search $tiny devices=2
plan 2 "weft plan: --search needs devices=N, and not ranks=N" --search $tiny devices=2 ranks=2 rates=no
plan 2 "weft plan: devices and memory are for --search" $tiny devices=2
plan 2 "weft plan: devices and memory are for --search" $tiny memory=2
plan 2 'command line: devices: expected an integer >= 1 and <= 64, got "65"' --search $tiny devices=65 rates=no
plan 2 "rates: $dir/none cannot be read" $tiny rates="$dir/none"
plan 2 "rates: $dir/none cannot be read" --search $tiny devices=2 rates="$dir/none"
echo text > "$dir/none"
plan 2 "rates: $dir/none:1: expected a JSON object" $tiny rates="$dir/none"
