#!/usr/bin/env bash
# Runs the commands of README as they stand there but for the folders they build or write: those that prepare text,
# every training for two steps, and every command on a trained model, in place of runs/quickstart.
# Usage: readme_commands_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
set -euo pipefail
cd "$1"
build=$2
[ -x "$build/weft" ] || exit 77
source launcher/environment.sh
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

ran=0
# run WORDS: the next command, with these words behind it.
run() {
  echo "$command"
  command=${command//build\/release/$build}
  command=${command//build\/mine/$dir/mine}
  eval "${command//runs\/quickstart/$dir\/c} $*" > "$dir/out" 2>&1 < /dev/null || {
    cat "$dir/out"
    ! grep -q 'built without sentencepiece' "$dir/out" || exit 77
    exit 1
  }
  ran=$((ran + 1))
}
commands() { awk -v pattern="weft $1 " '/^```/ { inside = !inside } inside && $0 ~ pattern' README.md; }

while read -r command; do
  run
  [ -s "$dir/mine/config.yaml" ] || { echo "expected a config"; cat "$dir/out"; exit 1; }
done < <(commands prepare)
[ $ran -gt 0 ]
while read -r command; do
  run train.steps=2 schedule.warmup_steps=1 train.eval_every=0 train.eval_batches=1 "log.jsonl=$dir/log" "checkpoint.dir=$dir/c"
  grep -q '"event":"end"' "$dir/log" || { echo "no end event in the log"; cat "$dir/log" "$dir/out"; exit 1; }
done < <(commands train)
[ $ran -gt 5 ]
while read -r command; do
  run tokens=5
  grep -q '5 tokens in ' "$dir/out" || { echo "expected 5 tokens"; cat "$dir/out"; exit 1; }
done < <(commands generate)
while read -r command; do
  run train.eval_batches=1
  grep -q '^validation loss ' "$dir/out" || { echo "expected a loss"; cat "$dir/out"; exit 1; }
done < <(commands eval)
[ $ran -gt 9 ]
echo "$ran commands ran"
