#!/usr/bin/env bash
# weft generate and weft eval as a user starts them: the same text on any number of ranks, the trainer's loss, and what
# cannot be done is said once, with the exit code that README promises.
# Usage: generate_command_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/prelude.sh"

# weft CODE RANKS WORDS...: runs it, and checks the exit code.
weft() {
  local wanted=$1 ranks=$2
  shift 2
  code=0
  within 120 mpirun -np "$ranks" "$weft" "$@" > "$dir/out" 2> "$dir/err" < /dev/null || code=$?
  [ $code -eq "$wanted" ] || fail "expected exit code $wanted for $*"
}
# refused TEXT WORDS...: exit code 2, and TEXT in one line of three ranks' output.
refused() {
  local text=$1
  shift
  weft 2 3 "$@"
  [ "$(cat "$dir/out" "$dir/err" | grep -cF -- "$text")" -eq 1 ] || fail "expected \"$text\" in one line for $*"
}

printf 'It was a bright cold day in April, and the clocks were striking thirteen.\n%.0s' {1..60} > "$dir/text.txt"
words=(configs/gpt2-tiny.yaml "data.train=$dir/text.txt" data.val=0.1 data.tokenizer=chars train.steps=30 model.context=32
  "checkpoint.dir=$dir/c" checkpoint.every=15 "log.jsonl=$dir/log")
weft 0 2 train "${words[@]}" mesh.tp=2 mesh.dp=1

# Text on stdout, all else on stderr; the same on every mesh and from the config.
write=(tokens=80 seed=3 "prompt=It was")
weft 0 1 generate "$dir/c" "${write[@]}"
cp "$dir/out" "$dir/text"
[ "$(head -c 6 "$dir/text")" = "It was" ] || fail "expected the prompt first"
[ "$(wc -m < "$dir/text")" -eq 87 ] || fail "expected a prompt of 6, 80 characters and a new line"
grep -qE '^80 tokens in [0-9.]+s, [0-9.]+ tok/s$' "$dir/err" || fail "expected the speed"
grep -qF "weights: $dir/c/step-000030" "$dir/err" || fail "expected where the weights are"
for mesh in "2 mesh.tp=2" "2 mesh.dp=2" "4 mesh.dp=2 mesh.tp=2" 3; do
  # shellcheck disable=SC2086  # ranks, then words
  set -- $mesh
  weft 0 "$1" generate "$dir/c" "${write[@]}" "${@:2}"
  cmp -s "$dir/out" "$dir/text" || fail "expected the text of one rank on $mesh ranks: $(cat "$dir/text")"
done
weft 0 1 generate "${words[@]}" tokens=80 seed=3 --prompt "It was"
cmp -s "$dir/out" "$dir/text" || fail "expected the same text from the config"
weft 0 1 generate "$dir/c" "${write[@]}" seed=4
! cmp -s "$dir/out" "$dir/text" || fail "expected another text from another seed"
weft 0 1 generate "$dir/c" tokens=5
[ "$(wc -m < "$dir/out")" -eq 6 ] || fail "expected 5 characters and a new line"

# The number of the log, on the mesh that trained it.
weft 0 2 eval "$dir/c" --json
grep -o '"val_loss":[^,]*' "$dir/out" > "$dir/got"
grep '"event":"eval"' "$dir/log" | tail -n 1 | grep -o '"val_loss":[^,]*' > "$dir/want"
cmp "$dir/got" "$dir/want" || fail "expected the trainer's $(cat "$dir/want"), got $(cat "$dir/got")"
rm "$dir/log"
for ranks in 1 4; do
  weft 0 $ranks eval "$dir/c"
  grep -qE '^validation loss [0-9.]+ nats per token, perplexity [0-9.]+, [0-9.]+ bits per byte \| [0-9]+ tokens in ' "$dir/out" ||
    fail "expected the loss on $ranks ranks"
done
head -c 500 "$dir/text.txt" > "$dir/other.txt"
weft 0 1 eval "$dir/c" --data "$dir/other.txt"
grep -qF '| 499 tokens in' "$dir/out" || fail "expected the other text"

refused "command line: temperature: expected a number >= 0" generate "$dir/c" temperature=-1
refused "command line: top_p: expected a number > 0 and <= 1" generate "$dir/c" top_p=2
refused 'the character "{" at offset 1 is not among the' generate "$dir/c" "prompt=I{"
refused "prompt: expected at most model.context = 32 tokens, got 33" generate "$dir/c" "prompt=$(head -c 33 "$dir/text.txt")"
refused "$dir/absent: no such file or folder" generate "$dir/absent"
refused "$dir/absent: no such file or folder" eval "$dir/absent"
mkdir "$dir/empty"
(cd "$dir/empty" && refused "CHECKPOINT or CONFIG is missing, and no run in" generate tokens=3)
refused "did you mean tokens?" generate "$dir/c" tokns=3
refused "max_new_tokens: unknown word; did you mean tokens? The words here are" generate "$dir/c" max_new_tokens=3
refused "zzz: unknown word; the words here are" generate "$dir/c" zzz=3
refused "a config whose checkpoint.dir is not set" generate configs/gpt2-tiny.yaml
refused "data.val: is required by weft eval; give a text file, token shards or a folder, e.g. data.val=PATH" eval "$dir/c" data.val=0
! grep -q synthetic "$dir/err" "$dir/out" || fail "expected no word about data.synthetic"
refused 'weft eval: unknown flag "--jsno"' eval "$dir/c" --jsno
printf 'x' | dd of="$dir/c/step-000030/rank-00000.safetensors" bs=1 seek=4000 conv=notrunc 2> /dev/null
refused "was changed" generate "$dir/c/step-000030"
weft 0 2 generate "$dir/c" tokens=3
grep -qF "broken, passed over: $dir/c/step-000030" "$dir/err" || fail "expected the broken one to be named"
grep -qF "weights: $dir/c/step-000015" "$dir/err" || fail "expected the one before it"
"$weft" generate --help | grep -q 'usage: weft generate' && "$weft" eval --help | grep -q 'usage: weft eval'
echo "generate and eval: ok"
