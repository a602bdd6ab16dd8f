#!/usr/bin/env bash
# weft generate and weft eval as a user starts them: the same text on any number of ranks, the trainer's loss, and what
# cannot be done is reported once, with the exit code of a refusal.
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

# Control characters reach files and pipes unchanged, although mpirun gives each rank a terminal of its own. They do not
# reach a terminal. script(1) makes one of unknown size.
weft 0 1 train configs/gpt2-tiny.yaml "data.train=$dir/text.txt" data.val=0 schedule.warmup_steps=0 train.steps=1 \
  model.context=32 "checkpoint.dir=$dir/bytes"
controls=(generate "$dir/bytes" prompt=a tokens=2000 temperature=2)
within 60 "$weft" "${controls[@]}" > "$dir/text-of-bytes" 2> "$dir/err" || { code=$?; fail "expected a text of bytes"; }
for byte in '\r' '\x17' '\x1b'; do
  LC_ALL=C grep -qaP "$byte" "$dir/text-of-bytes" || fail "expected a text with $byte"
done
within 60 "$weft" "${controls[@]}" ranks=2 > "$dir/out" 2> "$dir/err" < /dev/null || { code=$?; fail "expected a text of two ranks"; }
cmp "$dir/out" "$dir/text-of-bytes" || fail "expected with ranks=2 the bytes of one rank"
"$weft" "${controls[@]}" ranks=2 2> "$dir/err" < /dev/null | cmp - "$dir/text-of-bytes" || fail "expected these bytes in a pipe"
weft 0 2 "${controls[@]}"
cmp "$dir/out" "$dir/text-of-bytes" || fail "expected under mpirun the bytes of one rank"
if command -v script > /dev/null; then
  for ranks in 1 2; do
    script -qec "$(printf '%q ' "$weft" "${controls[@]}" ranks=$ranks)" /dev/null > "$dir/out" 2>&1 < /dev/null || { code=$?; fail "expected a text on a terminal"; }
    ! LC_ALL=C grep -qaP '\x17|\x1b' "$dir/out" || fail "expected no control characters on a terminal, ranks=$ranks"
    grep -qaF '\x17' "$dir/out" || fail "expected escapes on a terminal, ranks=$ranks"
  done
fi

# Several texts: the first is that of one, the others are the same however many there are and on other ranks; a stop
# string ends each. The prompt from a file.
printf 'It was' > "$dir/prompt"
weft 0 1 generate "$dir/c" tokens=80 seed=3 "prompt=FILE:$dir/prompt" samples=3
cp "$dir/out" "$dir/three"
grep -qE '^240 tokens in ' "$dir/err" || fail "expected the tokens of three texts"
{ echo "--- sample 1 of 3 ---"; cat "$dir/text"; } | cmp -s - <(head -n "$(($(wc -l < "$dir/text") + 1))" "$dir/three") ||
  fail "expected the text of one as the first"
weft 0 2 generate "$dir/c" "${write[@]}" samples=2
sed 's/ of 2 ---$/ of 3 ---/' "$dir/out" | cmp -s - <(sed '/^--- sample 3 of 3/,$d' "$dir/three") ||
  fail "expected the same first two texts of two as of three: $(cat "$dir/three")"
stop=$(cut -c 40-42 <(tr -d '\n' < "$dir/text"))
weft 0 1 generate "$dir/c" "${write[@]}" stop=zzz "stop=$stop"
whole=$(tr -d '\n' < "$dir/text") whole=${whole#It was}
[ "$(tr -d '\n' < "$dir/out")" = "It was${whole%%"$stop"*}" ] || fail "expected the text before \"$stop\""

# Without the cache, and several prompts: each text is that of its prompt by itself, whatever the batch and the mesh.
weft 0 1 generate "$dir/c" "${write[@]}" cache=false
cmp -s "$dir/out" "$dir/text" || fail "expected the same text without the cache: $(cat "$dir/text")"
printf 'It was\n\nthe clocks\r\n' > "$dir/prompts"
few=(tokens=40 seed=3 samples=2)
for prompt in 1 2; do
  weft 0 1 generate "$dir/c" "${few[@]}" "prompt=$(sed -n "$((2 * prompt - 1))p" "$dir/prompts" | tr -d '\r')"
  sed "s/^--- sample/--- prompt $prompt of 2, sample/" "$dir/out"
done > "$dir/apart"
for words in "1 batch=1" "1 batch=3" "1" "2 mesh.dp=2" "4 mesh.dp=2 mesh.tp=2 batch=4"; do
  # shellcheck disable=SC2086  # ranks, then words
  set -- $words
  weft 0 "$1" generate "$dir/c" "${few[@]}" "prompts=$dir/prompts" "${@:2}"
  cmp -s "$dir/out" "$dir/apart" || fail "expected the texts of each prompt with $words: $(cat "$dir/apart")"
  grep -qE '^160 tokens in ' "$dir/err" || fail "expected the tokens of four texts"
done
weft 0 1 generate "$dir/c" "${few[@]}" "prompt=It was" --prompt "the clocks"
cmp -s "$dir/out" "$dir/apart" || fail "expected the texts of two prompts: $(cat "$dir/apart")"

# A conversation: the lines are read, an empty one continues, and what cannot be read is named; the same on ranks.
printf 'It was\n\nthe {\nclock' > "$dir/lines"
for ranks in 1 3; do
  code=0
  within 60 "$weft" generate "$dir/c" tokens=20 seed=3 repl=true ranks=$ranks < "$dir/lines" > "$dir/out" 2> "$dir/err" || code=$?
  [ $code -eq 0 ] || fail "expected a conversation to end with its input on $ranks ranks"
  grep -qF 'the line is left out: the character "{"' "$dir/err" || fail "expected the line to be named on $ranks ranks"
  [ "$(wc -m < "$dir/out")" -eq 63 ] || fail "expected three texts of 20 characters and their line ends on $ranks ranks"
  [ $ranks -eq 1 ] && cp "$dir/out" "$dir/talk"
  cmp -s "$dir/out" "$dir/talk" || fail "expected the texts of one rank on $ranks ranks: $(cat "$dir/talk")"
done

# ctrl-C stops the text in progress, and between texts it ends the conversation.
grows() { local before; before=$(wc -c < "$dir/out"); for _ in {1..200}; do sleep 0.1; [ "$(wc -c < "$dir/out")" -le "$before" ] || return 0; done; return 1; }
rests() { local before=-1; for _ in {1..50}; do sleep 0.4; [ "$(wc -c < "$dir/out")" -ne "$before" ] || return 0; before=$(wc -c < "$dir/out"); done; return 1; }
# begun RANKS LINE: the text after the line is in progress. Under Open MPI 5 that of several ranks is printed when it ends.
late=$(mpirun --version | grep -c 'Open MPI) 5' || true)
begun() {
  if [ "$late" -eq 0 ] || [ "$1" -eq 1 ]; then
    grows || fail "expected a text after '$2' on $1 ranks"
    return
  fi
  for _ in {1..200}; do ! grep -q '^weights: ' "$dir/err" || break; sleep 0.1; done
  sleep 3
}
mkfifo "$dir/typed"
for ranks in 1 2; do
  : > "$dir/out"
  "$weft" generate "$dir/c" tokens=1000000 repl=true ranks=$ranks < "$dir/typed" >> "$dir/out" 2> "$dir/err" &
  job=$!
  exec 9> "$dir/typed"
  for line in "It was" "the clock"; do
    echo "$line" >&9
    begun $ranks "$line"
    before=$(wc -c < "$dir/out")
    kill -INT $job
    if [ "$late" -eq 1 ] && [ $ranks -eq 2 ]; then
      for _ in {1..200}; do [ "$(wc -c < "$dir/out")" -le "$before" ] || break; sleep 0.1; done
      [ "$(wc -c < "$dir/out")" -gt "$before" ] || fail "expected a text after '$line' on $ranks ranks"
    fi
    rests || fail "expected SIGINT to stop the text on $ranks ranks"
  done
  kill -INT $job
  code=0
  wait $job || code=$?
  exec 9>&-
  [ $code -eq 0 ] || fail "expected SIGINT to end the conversation on $ranks ranks"
done

# Endings: one line per item, on any mesh, and what is wrong is named.
printf '%s\n' '{"ctx": "It was", "endings": ["a cold day", "bright a dloc"], "label": 0}' '' \
  '{"ctx": "and the ", "endings": ["clocks", "skcolc", "thirteen."], "label": "0", "ind": 1}' > "$dir/items.jsonl"
weft 0 1 eval "$dir/c" "choices=$dir/items.jsonl" "out=$dir/choices"
grep -qE '^acc [01]\.[05]000, acc_norm [01]\.[05]000 \| 2 items, 5 endings of 52 tokens in ' "$dir/out" || fail "expected the shares"
grep -qE '^\{"line":1,"label":0,"choice":[01],"choice_norm":[01],"log_likelihoods":\[-[0-9.]+,-[0-9.]+\]\}$' "$dir/choices" &&
  grep -qE '^\{"line":3,' "$dir/choices" && [ "$(wc -l < "$dir/choices")" -eq 2 ] || fail "expected two items: $(cat "$dir/choices")"
rounded() { sed -E 's/(\.[0-9]{3})[0-9]*/\1/g' "$dir/choices"; }
rounded > "$dir/rounded"
for mesh in "2" "2 mesh.tp=2" "4 mesh.dp=2 mesh.tp=2"; do
  # shellcheck disable=SC2086  # ranks, then words
  set -- $mesh
  weft 0 "$1" eval "$dir/c" "choices=$dir/items.jsonl" "out=$dir/choices" --json "${@:2}"
  grep -qE '^\{"event":"choices","acc":[01.5]+,"acc_norm":[01.5]+,"items":2,"endings":5,"tokens":52,' "$dir/out" || fail "expected JSON"
  rounded | cmp -s - "$dir/rounded" || fail "expected the numbers of one rank on $mesh: $(cat "$dir/rounded" "$dir/choices")"
done
mkfifo "$dir/fifo"
echo '{"ctx": "It", "endings": ["a"], "label": 0}' >> "$dir/items.jsonl"
refused "$dir/items.jsonl:4: endings: expected a list of 2 to 1000 texts that are not empty" eval "$dir/c" "choices=$dir/items.jsonl"
refused "$dir/fifo: expected a file, got a FIFO" eval "$dir/c" "choices=$dir/fifo"
refused "prompt: $dir/fifo: expected a file, got a FIFO" generate "$dir/c" "prompt=FILE:$dir/fifo"
refused "out: has no meaning without choices=FILE" eval "$dir/c" "out=$dir/choices"
sed -i '$d' "$dir/items.jsonl"
refused "out: $dir/items.jsonl is there and holds no choices" eval "$dir/c" "choices=$dir/items.jsonl" "out=$dir/items.jsonl"
refused "out: $dir/fifo is there and holds no choices" eval "$dir/c" "choices=$dir/items.jsonl" "out=$dir/fifo"
refused "samples: expected 1 with repl=true" generate "$dir/c" repl=true samples=2
refused "prompt: expected one with repl=true" generate "$dir/c" repl=true prompt=a prompt=b

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
refused "max_new_tokens: unknown argument; did you mean tokens? The arguments here are" generate "$dir/c" max_new_tokens=3
refused "zzz: unknown argument; the arguments here are" generate "$dir/c" zzz=3
refused "a config whose checkpoint.dir is not set" generate configs/gpt2-tiny.yaml
refused "data.val: is required by weft eval; give a text file, token shards or a folder, e.g. data.val=PATH" eval "$dir/c" data.val=0
! grep -q synthetic "$dir/err" "$dir/out" || fail "expected no word about data.synthetic"
refused "command line: model.layers: expected 2, as $dir/c/step-000030 has it, got 1" eval "$dir/c" model.layers=1
refused "command line: model.norm_eps: expected 1e-05, as $dir/c/step-000030 has it, got 0.5" generate "$dir/c" model.norm_eps=0.5
cp -r "$dir/c" "$dir/lr=1e-3"
weft 0 1 eval "$dir/lr=1e-3"
refused 'which is there as tokenizer.chars, got another; remove it' eval "$dir/c" data.tokenizer=bytes
refused 'command line: jsno: unknown argument; did you mean --json?' eval "$dir/c" --jsno
printf 'x' | dd of="$dir/c/step-000030/rank-00000.safetensors" bs=1 seek=4000 conv=notrunc 2> /dev/null
refused "was changed" generate "$dir/c/step-000030"
weft 0 2 generate "$dir/c" tokens=3
grep -qF "broken, passed over: $dir/c/step-000030" "$dir/err" || fail "expected the broken one to be named"
grep -qF "weights: $dir/c/step-000015" "$dir/err" || fail "expected the one before it"
"$weft" generate --help | grep -q 'usage: weft generate' && "$weft" eval --help | grep -q 'usage: weft eval'
echo "generate and eval: ok"
