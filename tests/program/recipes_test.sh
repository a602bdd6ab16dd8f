#!/usr/bin/env bash
# Every model family has a small recipe, configs/FAMILY-tiny.yaml, that trains on the CPU: the loss falls.
# Usage: recipes_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/../launcher/prelude.sh"

# The families, as the program lists them.
run 2 "model.family: expected one of " train configs/gpt2-tiny.yaml model.family=none
families=$(sed -n 's/.*model.family: expected one of \(.*\), got .*/\1/p' "$dir/out" | tr -d ',')
[ "$(wc -w <<< "$families")" -ge 7 ] || fail "expected at least seven families, got $families"

for family in $families; do
  recipe=configs/$family-tiny.yaml
  grep -q "family: $family" "$recipe" || fail "expected $recipe, of family $family"
  text=(data.train=README.md data.val=0)
  [ "$family" != marian ] || text=()  # its recipe makes its pairs
  run 0 "done: 12 steps" train "$recipe" device=cpu "${text[@]}" train.steps=12 schedule.warmup_steps=2 log.every=1 \
    "log.jsonl=$dir/$family.jsonl"
  # shellcheck disable=SC2207  # numbers
  losses=($(sed -n 's/.*"event":"step".*"loss":\([0-9.]*\),.*/\1/p' "$dir/$family.jsonl"))
  [ "${#losses[@]}" -eq 12 ] || fail "expected 12 losses of $recipe, got ${losses[*]}"
  awk -v first="${losses[0]}" -v last="${losses[11]}" 'BEGIN { exit !(last < first) }' ||
    fail "expected a loss of $recipe that falls, got ${losses[*]}"
done
echo "shown: the recipes of $families train"
