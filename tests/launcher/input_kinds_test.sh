#!/usr/bin/env bash
# A path that is no file on disk (a FIFO that nobody writes to, a device without an end) is refused by name as any input of any
# command, and a signal ends a run that has not begun.
# Usage: input_kinds_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/prelude.sh"

mkfifo "$dir/fifo"
# refused PATH KIND WORD...: exit code 2 and the reason within 20 s; a command that hangs is killed.
refused() {
  local text="$1: expected a file, got $2" begin code=0
  shift 2
  begin=$(now)
  within 20 "$weft" "$@" > "$dir/out" 2>&1 < /dev/null || code=$?
  [ $code -eq 2 ] || fail "expected exit code 2 for $* after $((($(now) - begin) / 1000000)) ms, got $code"
  grep -qF -- "$text" "$dir/out" || fail "expected \"$text\" for $*"
}
config=(configs/gpt2-tiny.yaml train.steps=1 schedule.warmup_steps=0 data.train=README.md data.val=README.md)
run 0 "done:" train "${config[@]}" "checkpoint.dir=$dir/c" "log.jsonl=$dir/log.jsonl"
run 0 "tensors in f32" export "$dir/c" "$dir/hf"
mkdir "$dir/odd" "$dir/settings" "$dir/published" "$dir/manifest" "$dir/step"
cp "$dir/hf/model.safetensors" "$dir/settings"

for odd in "$dir/fifo:a FIFO" "/dev/zero:a device"; do
  path=${odd%:*} kind=${odd#*:}
  ln -sfn "$path" "$dir/odd/model.safetensors"
  ln -sfn "$path" "$dir/settings/config.json"
  ln -sfn "$path" "$dir/published/tokenizer.json"
  for command in train plan eval generate; do refused "$path" "$kind" "$command" "$path"; done
  for command in train eval; do refused "$path" "$kind" "$command" "${config[@]}" "data.val=$path" "checkpoint.dir=$dir/c"; done
  refused "$path" "$kind" train "${config[@]}" "data.train=$path"
  for command in train eval generate; do
    refused "$path" "$kind" "$command" "${config[@]}" "checkpoint.dir=$dir/c" "data.tokenizer=chars:$path"
    for tokenizer in sentencepiece huggingface tiktoken; do
      refused "$path" "$kind" "$command" "${config[@]}" "data.tokenizer=$tokenizer:$path" "checkpoint.dir=$dir/c"
    done
    refused "$dir/published/tokenizer.json" "$kind" "$command" "${config[@]}" "data.tokenizer=huggingface:$dir/published" \
      "checkpoint.dir=$dir/c"
    refused "$path" "$kind" "$command" "${config[@]}" model.vocab=256 "model.init=$path"
    refused "$dir/odd/model.safetensors" "$kind" "$command" "${config[@]}" model.vocab=256 "model.init=$dir/odd"
    refused "$dir/settings/config.json" "$kind" "$command" "${config[@]}" model.vocab=256 "model.init=$dir/settings"
  done
  refused "$path" "$kind" prepare "$dir/out.data" "$path"
  refused "$path" "$kind" prepare "$dir/out.data" README.md "tokenizer=chars:$path"
  run 2 "$path: expected a file of JSON lines, got something else" report "$path" "$dir/page.html"
  run 2 "OUT would overwrite $path, which is there and is no page" report "$dir/log.jsonl" "out=$path"
  cp "$dir/log.jsonl" "$dir/other.jsonl"
  ln -sfn "$path" "$dir/other.jsonl.config.yaml"
  refused "$dir/other.jsonl.config.yaml" "$kind" report "$dir/other.jsonl" "$dir/page.html"
done
rm -f "$dir/other.jsonl.config.yaml"

# A manifest that is a FIFO: resume=auto takes the checkpoint before it.
mkdir "$dir/c/step-000009"
mkfifo "$dir/c/step-000009/manifest.json"
run 0 "broken, passed over: $dir/c/step-000009/manifest.json: expected a file, got a FIFO" train "${config[@]}" \
  train.steps=2 "checkpoint.dir=$dir/c" checkpoint.resume=auto
refused "$dir/c/step-000009/manifest.json" "a FIFO" eval "$dir/c/step-000009"

# One that is far too large.
truncate -s 1G "$dir/large.yaml" "$dir/large.chars" "$dir/settings/large"
ln -sfn "$dir/settings/large" "$dir/settings/config.json"
run 2 "expected a YAML config, got a file of more than" train "$dir/large.yaml"
run 2 "expected at most 256000000 bytes, got 1073741824" train "${config[@]}" "data.tokenizer=chars:$dir/large.chars"
run 2 "expected at most 100000000 bytes, got 1073741824" train "${config[@]}" model.vocab=256 "model.init=$dir/settings"

# A disk that fails while it is read: the newest checkpoint is passed over; published weights and shards are named.
eio() { WEFT_FAULT=$1 run "${@:2}"; }
rm -r "$dir/c/step-000009"
eio map:eio:1 0 "broken, passed over: $dir/c/step-000002/manifest.json: byte" \
  train "${config[@]}" train.steps=3 "checkpoint.dir=$dir/c" checkpoint.resume=auto
eio map:eio:1 2 "cannot be read (Input/output error)" eval "$dir/c/step-000003"
eio map:eio:2 2 "$dir/hf/config.json: byte 0 cannot be read (Input/output error)" train "${config[@]}" model.vocab=256 \
  "model.init=$dir/hf"
run 0 "" prepare "$dir/data" README.md val=0 tokenizer=bytes shard=1000
eio map:eio:2 2 "cannot be read (Input/output error)" train configs/gpt2-tiny.yaml train.steps=1 \
  schedule.warmup_steps=0 "data.train=$dir/data/train_*.bin" data.val=0 model.vocab=256

# Slow files: each takes a second to open, so the run is still reading when the signal comes.
for signal in TERM:143 INT:130; do
  WEFT_FAULT=map:slow:1+ "$weft" train configs/gpt2-tiny.yaml train.steps=1 schedule.warmup_steps=0 \
    "data.train=$dir/data/train_*.bin" data.val=0 model.vocab=256 > "$dir/out" 2>&1 < /dev/null &
  job=$!
  sleep 1.5
  begin=$(now) code=0
  kill "-${signal%:*}" $job || fail "expected a run that still reads"
  wait $job || code=$?
  [ $code -eq "${signal#*:}" ] || fail "expected exit code ${signal#*:} after SIG${signal%:*}"
  [ $((($(now) - begin) / 1000000)) -le 4000 ] || fail "expected SIG${signal%:*} to end it within 4 s"
  grep -q "weft: SIG${signal%:*} before the run had begun" "$dir/out" || fail "expected a line about SIG${signal%:*}"
done
echo "inputs: ok"
