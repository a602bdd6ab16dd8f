#!/usr/bin/env bash
# Names of files and keys, values and contents of files come from outside: what they hold must not reach the terminal as
# escape sequences. Each command is given them wherever it takes text, and prints them as \xNN.
# Usage: hostile_names_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/prelude.sh"

# Clears the screen, sets the title, is C1's form of ESC [, turns the direction of text, and is no UTF-8.
evil=$'a\e[2J\e]0;t\a\r\xc2\x9b1m\xe2\x80\xaeb'
raw=$evil$'\xff'
tiny=(data.val=0 model.layers=1 schedule.warmup_steps=0 train.steps=2)
mkdir "$dir/$evil"
config=$dir/$evil/$raw.yaml text=$dir/$evil/$evil.txt
cp configs/gpt2-tiny.yaml "$config"
cp README.md "$text"

# shown CODE COMMAND...: it prints the name, and no byte of it that is no text.
shown() {
  local wanted=$1
  shift
  code=0
  within 60 "$@" > "$dir/out" 2> "$dir/err" < /dev/null || code=$?
  [ $code -eq "$wanted" ] || fail "expected exit code $wanted for $(printf '%q ' "$@")"
  ! LC_ALL=C grep -qP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xff|\xe2\x80\xae' "$dir/out" "$dir/err" ||
    fail "expected no control characters from $(printf '%q ' "$@")"
  [ -n "${quiet:-}" ] || grep -qiE '\\x\{?1b' "$dir/out" "$dir/err" || fail "expected the name as \\x1B from $(printf '%q ' "$@")"
}
shown 2 "$weft" "$raw"
for command in export prepare; do shown 2 "$weft" $command "$dir/$raw/none" "$dir/$raw/none/out"; done
for command in train plan eval generate report prepare export doctor bench help completions; do
  [[ $command =~ export|prepare|doctor ]] || shown 2 "$weft" $command "$dir/$raw/none"
  shown 2 "$weft" $command "--$raw"
  shown 2 "$weft" $command "$config" "$raw=$raw" "$raw"
done
shown 2 "$weft" help keys "$raw"
for word in "$raw=1" "m=$evil" "dtype=$evil" "device=$evil"; do shown 2 "$weft" bench gemm "$word"; done
step=$dir/$evil/step.yaml  # keys of bench take UTF-8 only
cp "$config" "$step"
for word in "$raw=1" "run=$evil" "model.family=$evil"; do shown 2 "$weft" bench step "config=$step" "$word"; done
shown 2 "$weft" bench step "config=$dir/$evil/none"
for word in "$raw=1" "run=$evil" "train.steps=$evil" "train.$evil=1" "data.train=$evil" "model.init=$dir/$evil" \
  "optimizer.name=$evil" "data.tokenizer=$evil" "mesh.dp=$evil" "checkpoint.resume=$evil" "log.jsonl=$text/x" "checkpoint.dir=$text"; do
  shown 2 "$weft" train "$config" "data.train=$text" "${tiny[@]}" "$word"
done
quiet=1 shown 2 "$weft" train "$config" "data.train=$raw"  # which names no more than the byte
for yaml in 'model: {"a\e[2J": 1}' 'model: {layers: "a\e[2J"}' 'data: {train: "a\e[2J"}' 'a\e[2J'; do
  echo "$yaml" > "$dir/text.yaml"
  [ "$yaml" != 'a\e[2J' ] || printf 'a\e[2J' > "$dir/text.yaml"
  quiet=1 shown 2 "$weft" train "$dir/text.yaml"
done

# The messages of a run that succeeds, and of commands on its files.
job=("$weft" train "$config" "data.train=$text" "${tiny[@]}" "checkpoint.dir=$dir/$evil/c" "log.jsonl=$dir/$evil/log")
shown 0 "${job[@]}"
shown 0 "${job[@]}" "log.tensorboard=$dir/$evil/tb"
shown 0 "${job[@]}" checkpoint.resume=auto train.steps=3
shown 0 "${job[@]}" checkpoint.resume=auto train.steps=3
shown 0 "$weft" report "$dir/$evil/log"
shown 0 "$weft" export "$dir/$evil/c" "$dir/$evil/exported"
shown 0 "$weft" prepare "$text" --out "$dir/$evil/shards"
quiet=1 shown 0 "$weft" bench step "config=$step" model.layers=1 schedule.warmup_steps=0 repeats=1 executor=compiled
quiet=1 shown 0 "$weft" plan "$config" "data.train=$text" "${tiny[@]}"
quiet=1 shown 0 "$weft" eval "$dir/$evil/c" "data.val=$text" train.eval_batches=1
truncate -s 100 "$dir/$evil/c/step-000003"/*.safetensors
shown 2 "${job[@]}" "checkpoint.resume=$dir/$evil/c/step-000003" train.steps=4

# Several ranks: the reason of one, printed by another.
shown 2 mpirun -np 2 "$weft" train "$config" "data.train=$evil" "${tiny[@]}" mesh.dp=2
shown 1 env RANK=1 WORLD_SIZE=2 "MASTER_ADDR=$evil" MASTER_PORT=1 "$weft" train "$config"

# What a model writes is no message: a file gets its bytes, a terminal gets what can be shown.
prompt=$'\e[2Jx'
within 60 "$weft" generate "$dir/$evil/c/step-000002" "prompt=$prompt" tokens=1 > "$dir/out" 2> "$dir/err" < /dev/null || fail "expected text"
[ "$(head -c 5 "$dir/out")" = "$prompt" ] || fail "expected the bytes of the prompt in a file"
within 60 script -qec "'$weft' generate '$dir/'*/c/step-000002 'prompt=$prompt' tokens=1" /dev/null > "$dir/out" 2> "$dir/err" < /dev/null || fail "expected text"
grep -qF '\x1B[2Jx' "$dir/out" && ! grep -qF "$prompt" "$dir/out" || fail "expected what a terminal shows of the prompt"
echo "hostile names: ok"
