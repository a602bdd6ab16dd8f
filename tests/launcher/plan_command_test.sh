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
parameters() { sed -nE 's/^ *parameters ([0-9]+) B.*/\1/p' "$dir/out"; }

plan 0 "note: model.vocab = 256 is assumed; give model.vocab=N" "${chars[@]}"
assumed=$(parameters)
plan 0 "" "${chars[@]}" model.vocab=256
[ "$(parameters)" = "$assumed" ] || fail "expected the parameters of a vocabulary of 256, $assumed bytes"
plan 0 "$dir/text.txt: no such file" "${chars[@]}" --json
for _ in {1..500}; do printf 'abc\n'; done > "$dir/text.txt"
plan 0 "" "${chars[@]}"
with_text=$(parameters)
plan 0 "" "${chars[@]}" model.vocab=4
[ "$(parameters)" = "$with_text" ] || fail "expected the parameters of the text's 4 characters, $with_text bytes"

plan 2 "model.vocab: expected at least the 256 kinds of token of tokenizer bytes, got 9" configs/gpt2-tiny.yaml model.vocab=9
plan 0 "" configs/gpt2-tiny.yaml ranks=65536
for ranks in 0 -1 x 1e3 65537 2147483648 4294967297 99999999999999999999; do
  plan 2 "command line: ranks: expected an integer >= 1 and <= 65536, got \"$ranks\"" configs/gpt2-tiny.yaml "ranks=$ranks"
done
plan 0 "" configs/gpt2-tiny.yaml --ranks 4 mesh.dp=-1
plan 2 'command line: ranks: expected an integer >= 1 and <= 65536, got "x"' configs/gpt2-tiny.yaml --ranks=x
plan 2 'weft plan: unknown flag "--jsno"' configs/gpt2-tiny.yaml --jsno
# Token shards have no vocabulary of their own: magic 20240520, version 1, 9 tokens.
{ printf '\x88\xd8\x34\x01\x01\0\0\0\x09\0\0\0'; head -c $((1012 + 18)) /dev/zero; } > "$dir/shard.bin"
plan 2 "model.vocab: is required with token shards" configs/gpt2-tiny.yaml "data.train=$dir/shard.bin"
plan 0 "" configs/gpt2-tiny.yaml "data.train=$dir/shard.bin" model.vocab=9
# What weft train says and ends with where there is no CUDA library.
if [ ! -e "$2/libweft_cuda.so" ]; then
  plan 2 "command line: device: device cuda: cannot open the CUDA library" configs/gpt2-tiny.yaml device=cuda
  train=$("$weft" train configs/gpt2-tiny.yaml device=cuda 2>&1) && code=0 || code=$?
  [ "$code:$train" = "2:$(cat "$dir/out")" ] || fail "expected of weft train what weft plan says, got $code: $train"
fi
# Of GPUs, several ranks can be planned only: a driver makes auto mean a GPU, the library makes cuda known.
mkdir "$dir/driver"
if ${CC:-cc} -shared -o "$dir/driver/libcuda.so.1" -x c /dev/null; then
  LD_LIBRARY_PATH="$dir/driver:${LD_LIBRARY_PATH:-}" plan 0 "note: device: auto is the CPU here, although this host has a \
GPU: cuda on 8 ranks is not built yet, as nothing moves tensors between GPUs" configs/gpt2-tiny.yaml mesh.tp=4 mesh.dp=2
  LD_LIBRARY_PATH="$dir/driver:${LD_LIBRARY_PATH:-}" plan 0 "" configs/gpt2-tiny.yaml device=cpu mesh.tp=4 mesh.dp=2
fi
if [ -e "$2/libweft_cuda.so" ]; then
  plan 0 "note: command line: device: weft train refuses what is planned here: cuda on 8 ranks is not built yet" \
    configs/gpt2-tiny.yaml device=cuda mesh.tp=4 mesh.dp=2
fi
plan 0 "note: command line: loss_scale.initial: has no effect" configs/gpt2-tiny.yaml loss_scale.initial=8
echo "plan: ok"

# WEFT_DUMP: each program after each pass.
WEFT_DUMP=$dir/dump plan 0 "" configs/gpt2-tiny.yaml train.micro_batch=1
for name in step accumulate eval; do
  for stage in 1.trace 2.partition 3.fuse 4.simplify; do
    grep -q '^%[0-9]* = einsum(' "$dir/dump/$name.$stage.txt" || fail "expected an einsum in the dump $name.$stage.txt"
  done
done
WEFT_DUMP=$dir/text.txt/dump plan 1 "$dir/text.txt/dump" configs/gpt2-tiny.yaml
