#!/usr/bin/env bash
# Runs every training command of README for two steps, and what prepares text for one, as they stand there but for the
# build folder and that of the prepared text.
# Usage: readme_commands_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
set -euo pipefail
cd "$1"
build=$2
[ -x "$build/weft" ] || exit 77
source launcher/environment.sh
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
log=$dir/log

ran=0
while read -r command; do
  short="train.steps=2 schedule.warmup_steps=1 train.eval_every=0 train.eval_batches=1 log.jsonl=$log"
  [[ $command != *" prepare "* ]] || short=""
  echo "$command"
  command=${command//build\/mine/$dir/mine}
  eval "${command//build\/release/$build} $short" > "$log.out" 2>&1 < /dev/null || {
    cat "$log.out"
    ! grep -q 'built without sentencepiece' "$log.out" || exit 77
    exit 1
  }
  [ -n "$short" ] || continue
  grep -q '"event":"end"' "$log" || { echo "no end event in the log"; cat "$log" "$log.out"; exit 1; }
  ran=$((ran + 1))
done < <(awk '/^```/ { inside = !inside } inside && /weft (train|prepare) /' README.md)
[ $ran -gt 0 ]
echo "$ran commands ran"
