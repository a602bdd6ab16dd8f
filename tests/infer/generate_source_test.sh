#!/usr/bin/env bash
# weft generate of an encoder-decoder, as a user starts it: the same text of a source by itself, in a batch, as a line of a
# conversation, on any number of ranks and without the cache; and what cannot be done is reported once.
# Usage: generate_source_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/../launcher/prelude.sh"

# weft CODE RANKS WORDS...: runs generate, and checks the exit code.
weft() {
  local wanted=$1 ranks=$2
  shift 2
  code=0
  within 120 mpirun -np "$ranks" "$weft" generate "$@" > "$dir/out" 2> "$dir/err" < /dev/null || code=$?
  [ $code -eq "$wanted" ] || fail "expected exit code $wanted for $*"
}
# refused TEXT WORDS...: exit code 2, and TEXT in one line of three ranks' output.
refused() {
  local text=$1
  shift
  weft 2 3 "$@"
  [ "$(cat "$dir/out" "$dir/err" | grep -cF -- "$text")" -eq 1 ] || fail "expected \"$text\" in one line for $*"
}

for word in abc bca cab aab bbc cca abca bcab; do
  echo "{\"source\": \"$word\", \"target\": \"$(rev <<< "$word")\"}"
done > "$dir/pairs.jsonl"
printf abc > "$dir/abc"
run 0 "" train configs/marian-tiny.yaml data.synthetic=false "data.train=$dir/pairs.jsonl" "data.tokenizer=chars:$dir/abc" model.vocab=5 train.global_batch=8 train.steps=40 \
  schedule.warmup_steps=0 optimizer.lr=1e-2 "checkpoint.dir=$dir/c"

# Only the target is shown. A sampled text depends on the seed, and on nothing else.
sources=(abc b cabcabc bb)
write=(tokens=6 seed=3)
for source in "${sources[@]}"; do
  weft 0 1 "$dir/c" "${write[@]}" "prompt=$source"
  cat "$dir/out"
  grep -qE '^[1-6] tokens in [0-9.]+s, [0-9.]+ tok/s$' "$dir/err" || fail "expected the speed"
done > "$dir/apart"
[ "$(wc -l < "$dir/apart")" -eq 4 ] || fail "expected a line per source: $(cat "$dir/apart")"
printf '%s\n' "${sources[@]}" > "$dir/sources"
for words in 1 "1 batch=3" "1 cache=false" "2 mesh.dp=2" "2 mesh.tp=2" "4 mesh.dp=2 mesh.tp=2"; do
  # shellcheck disable=SC2086  # ranks, then words
  set -- $words
  weft 0 "$1" "$dir/c" "${write[@]}" "prompts=$dir/sources" "${@:2}"
  grep -v '^---' "$dir/out" | cmp -s - "$dir/apart" || fail "expected the texts of each source with $words: $(cat "$dir/apart")"
  [ "$(grep -c '^--- prompt [1-4] of 4 ---$' "$dir/out")" -eq 4 ] || fail "expected a line before each text"
done
weft 0 1 "$dir/c" "${write[@]}" prompt=abc samples=3
[ "$(sed -n 2p "$dir/out")" = "$(head -n 1 "$dir/apart")" ] || fail "expected the text of one as the first of three"
printf 'abc' > "$dir/prompt"
weft 0 1 "$dir/c" "${write[@]}" "prompt=FILE:$dir/prompt"
cmp -s "$dir/out" <(head -n 1 "$dir/apart") || fail "expected the text of a source from a file"
weft 0 1 "$dir/c" prompt=abca greedy=true
text=$(cat "$dir/out")
[ ${#text} -ge 2 ] || fail "expected a text of some letters"
weft 0 1 "$dir/c" prompt=abca greedy=true "stop=${text:1:1}"
[ "$(cat "$dir/out")" = "${text%%"${text:1:1}"*}" ] || fail "expected the text before ${text:1:1}"

# Each line is a source, and one that cannot be read is named.
{ cat "$dir/sources"; echo 'a{'; } > "$dir/lines"
for ranks in 1 3; do
  code=0
  within 60 "$weft" generate "$dir/c" "${write[@]}" repl=true ranks=$ranks < "$dir/lines" > "$dir/out" 2> "$dir/err" || code=$?
  [ $code -eq 0 ] || fail "expected a conversation to end with its input on $ranks ranks"
  cmp -s "$dir/out" "$dir/apart" || fail "expected the texts of each line on $ranks ranks: $(cat "$dir/apart")"
  grep -qF 'the line is left out: the character "{"' "$dir/err" || fail "expected the line to be named on $ranks ranks"
done

refused "command line: prompt: expected a source of at most 7 tokens, got 8; give a shorter one" "$dir/c" prompt=abcabcab
refused "command line: prompt: is required by a model that writes from a source" "$dir/c" tokens=3
refused "command line: prompt: has no meaning with repl=true and a model that writes from a source" "$dir/c" repl=true prompt=a
refused 'command line: prompt: the character "{" at offset 1 is not among the' "$dir/c" "prompt=a{"
code=0
within 60 "$weft" train configs/marian-tiny.yaml train.sample_every=1 train.steps=1 > "$dir/out" 2>&1 < /dev/null || code=$?
[ $code -eq 2 ] && grep -qF "train.sample_every: expected 0, as family marian does not continue texts, got 1" "$dir/out" ||
  fail "expected train.sample_every to be refused"
echo "generate from a source: ok"
