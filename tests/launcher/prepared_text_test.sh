#!/usr/bin/env bash
# weft prepare, train, generate and eval one after the other, with every kind of tokenizer: a checkpoint is all that the
# last two need, wherever it lies, and where it says nothing of its tokens the command line does.
# Usage: prepared_text_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/prelude.sh"
cd "$dir"  # where runs go to

# weft CODE WORDS...: runs it, and checks the exit code.
weft() {
  local wanted=$1
  shift
  code=0
  within 120 "$weft" "$@" > "$dir/out" 2> "$dir/err" < /dev/null || code=$?
  [ $code -eq "$wanted" ] || fail "expected exit code $wanted for $*"
}
refused() {
  local text=$1
  shift
  weft 2 "$@"
  grep -qF -- "$text" "$dir/err" || fail "expected \"$text\" for $*"
}

printf 'It was a bright cold day in April, \xe2\x80\x9cand the clocks were striking thirteen\xe2\x80\x9d.\n%.0s' {1..80} > "$dir/text.txt"
head -c 1000 "$dir/text.txt" > "$dir/other.txt"
short=(model.layers=1 model.dim=16 model.context=32 train.steps=10 train.eval_batches=1 schedule.warmup_steps=1)
write=("prompt=It was a" tokens=60 seed=3)  # more than the context
tried=0
# make_json FILE: a tokenizer.json of 256 bytes, a few merges, and <|begin|> before every text.
make_json() {
  local byte code pair next=256 id=256 merges=() vocab=""
  for byte in {0..255}; do
    code=$byte
    if ((byte < 33 || byte == 127 || (byte > 127 && byte < 161) || byte == 173)); then code=$((next++)); fi
    printf -v code '\\u%04x' "$code"
    vocab+="\"$code\":$byte,"
  done
  for pair in 't h' 'th e' 'w a' '\u0120 the' '\u00e2 \u0122'; do
    merges+=("\"$pair\"")
    vocab+="\"${pair/ /}\":$((id++)),"
  done
  cat > "$1" <<JSON
{"version": "1.0", "truncation": null, "padding": null, "normalizer": null,
 "added_tokens": [{"id": $id, "content": "<|begin|>", "single_word": false, "lstrip": false, "rstrip": false,
                   "normalized": false, "special": true}],
 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
 "post_processor": {"type": "TemplateProcessing", "pair": [],
   "single": [{"SpecialToken": {"id": "<|begin|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
   "special_tokens": {"<|begin|>": {"id": "<|begin|>", "ids": [$id], "tokens": ["<|begin|>"]}}},
 "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
 "model": {"type": "BPE", "dropout": null, "unk_token": null, "vocab": {${vocab%,}},
           "merges": [$(IFS=,; echo "${merges[*]}")]}}
JSON
}
# lives KIND FILE WORDS...: all commands on text that was prepared with these arguments. FILE is the tokenizer's in the
# checkpoint.
lives() {
  local kind=$1 file=$2 trained="$dir/$1" moved="$dir/moved $1"
  shift 2
  weft 0 prepare "$dir/data" "$dir/text.txt" val=0.2 "$@"
  weft 0 train "$dir/data/config.yaml" "${short[@]}" "checkpoint.dir=$trained"
  grep -q 'bits per byte' "$dir/out" || fail "expected bits per byte with $kind"
  [ -s "$trained/step-000010/$file" ] || fail "expected $file in the checkpoint"
  [ ! -e "$dir/data/$file" ] || cmp "$dir/data/$file" "$trained/step-000010/$file" || fail "expected the file of the shards"
  # As evaluated by its own validation shards, whatever has become of the tokenizer's file in their folder.
  rm -f "$dir/data/$file"
  weft 0 eval "$trained"
  grep -q 'bits per byte' "$dir/out" || fail "expected bits per byte of shards with $kind"
  # All but the checkpoint goes.
  rm -r "$dir/data"
  mv "$trained" "$moved"
  weft 0 generate "$moved" "${write[@]}"
  [ "$(head -c 8 "$dir/out")" = "It was a" ] || fail "expected the prompt first with $kind"
  [ "$(wc -c < "$dir/out")" -gt 60 ] || fail "expected the text of 60 tokens with $kind"
  iconv -f UTF-8 -t UTF-8 "$dir/out" > /dev/null || fail "expected UTF-8 with $kind"
  cp "$dir/out" "$dir/want"
  weft 0 generate "$moved/step-000010" "${write[@]}"
  cmp -s "$dir/out" "$dir/want" || fail "expected the same text again with $kind"
  weft 0 generate "$moved" tokens=5
  weft 0 eval "$moved" "data.val=$dir/other.txt"
  grep -q 'bits per byte' "$dir/out" || fail "expected bits per byte of another text with $kind"
  tried=$((tried + 1))
}

lives bytes tokenizer.bytes tokenizer=bytes
lives chars tokenizer.chars tokenizer=chars
mkdir "$dir/published"
make_json "$dir/published/tokenizer.json"
echo '{"tokenizer_class": "PreTrainedTokenizerFast"}' > "$dir/published/tokenizer_config.json"
lives huggingface tokenizer.json "tokenizer=huggingface:$dir/published"
for file in tokenizer.json tokenizer_config.json; do
  cmp "$dir/published/$file" "$dir/moved huggingface/step-000010/$file" || fail "expected the published $file"
done
# Weights take the tokenizer along, out and back in, and take no other one.
weft 0 export "$dir/moved huggingface" "$dir/exported"
grep -q ', tokenizer.json, from' "$dir/out" || fail "expected tokenizer.json to be named"
for file in tokenizer.json tokenizer_config.json; do
  cmp "$dir/published/$file" "$dir/exported/$file" || fail "expected the published $file again"
done
same=("$root/configs/gpt2-tiny.yaml" "data.train=$dir/text.txt" data.val=0.2 model.layers=1 model.dim=16 model.context=32
  schedule.warmup_steps=0 train.steps=2 train.eval_batches=1 "model.init=$dir/exported")
weft 0 train "${same[@]}" "checkpoint.dir=$dir/again"
cmp "$dir/published/tokenizer.json" "$dir/again/step-000002/tokenizer.json" || fail "expected the tokenizer of model.init"
weft 0 eval "${same[@]}"
grep -q 'bits per byte' "$dir/out" || fail "expected bits per byte of published weights"
weft 0 generate "${same[@]}" "${write[@]}"
[ "$(head -c 8 "$dir/out")" = "It was a" ] || fail "expected the prompt first with published weights"
weft 0 plan "${same[@]}"
for words in "data.tokenizer=bytes model.vocab=262" "data.tokenizer=chars model.vocab=400"; do
  # shellcheck disable=SC2086  # words
  refused "data.tokenizer: expected the tokenizer of model.init, of model.vocab = " train "${same[@]}" $words
done
refused 'prompt: the character "{" at offset 1 is not among the' generate "$dir/moved chars" "prompt=I{"
code=0
"$weft" prepare "$dir/learnt" "$dir/text.txt" tokenizer=sentencepiece vocab=300 > "$dir/out" 2> "$dir/err" || code=$?
if [ $code -eq 2 ] && grep -q 'built without sentencepiece' "$dir/err"; then
  echo "without sentencepiece: not tried"
else
  [ $code -eq 0 ] || fail "expected prepare to learn pieces"
  lives sentencepiece tokenizer.model tokenizer=sentencepiece vocab=300
  lives "a given model" tokenizer.model "tokenizer=sentencepiece:$dir/learnt/tokenizer.model"
  # A checkpoint's own file is one that data.tokenizer can name.
  weft 0 generate "$dir/moved sentencepiece" "${write[@]}" \
    "data.tokenizer=sentencepiece:$dir/moved sentencepiece/step-000010/tokenizer.model"
fi
refused "data.tokenizer: expected the tokenizer of $dir/moved chars/step-000010, which is there as tokenizer.chars, got another; remove it" \
  generate "$dir/moved chars" data.tokenizer=bytes
refused "data.tokenizer: $dir/no.chars: cannot be opened" generate "$dir/moved chars" "data.tokenizer=chars:$dir/no.chars"

# Shards of more kinds than bytes say nothing of their text.
weft 0 prepare "$dir/data" "$dir/text.txt"
weft 0 train "$dir/data/config.yaml" "${short[@]}" model.vocab=300 "checkpoint.dir=$dir/unknown"
refused "data.tokenizer: is not known of a model that was trained on token shards" generate "$dir/unknown" "${write[@]}"
weft 0 generate "$dir/unknown" "${write[@]}" data.tokenizer=bytes
weft 0 eval "$dir/unknown"
echo "prepared text: $tried tokenizers ok"
