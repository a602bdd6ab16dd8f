#!/usr/bin/env bash
# Runs every training command of README for two steps, as it stands there but for the build folder.
# Usage: readme_commands_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
set -euo pipefail
cd "$1"
build=$2
[ -x "$build/weft" ] || exit 77
source launcher/environment.sh
log=$(mktemp)
trap 'rm -f "$log" "$log.out" "$log.config.yaml"' EXIT

ran=0
while read -r command; do
  short="train.steps=2 schedule.warmup_steps=1 train.eval_every=0 train.eval_batches=1 log.jsonl=$log"
  echo "$command"
  eval "${command//build\/release/$build} $short" > "$log.out" 2>&1 < /dev/null || { cat "$log.out"; exit 1; }
  grep -q '"event":"end"' "$log" || { echo "no end event in the log"; cat "$log" "$log.out"; exit 1; }
  ran=$((ran + 1))
done < <(awk '/^```/ { inside = !inside } inside && /weft train /' README.md)
[ $ran -gt 0 ]
echo "$ran commands ran"
