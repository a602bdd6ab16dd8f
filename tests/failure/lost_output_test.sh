#!/usr/bin/env bash
# What a command prints must not be lost without a word: on a full disk it says so, once, and exits with 1.
# Usage: lost_output_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/../launcher/prelude.sh"

# lost WORD...: the command, whose stdout is full.
lost() {
  code=0
  within 60 "$@" > /dev/full 2> "$dir/err" < /dev/null || code=$?
  [ $code -eq 1 ] || fail "expected exit code 1 of $*"
  [ "$(grep -Ec 'stdout: cannot be written \((No space left on device|an earlier write failed)\), so output is lost' "$dir/err")" = 1 ] ||
    fail "expected one line of $* about stdout"
}
tiny=(configs/gpt2-tiny.yaml data.train=README.md data.val=README.md train.eval_batches=1 train.steps=2
  schedule.warmup_steps=0 "checkpoint.dir=$dir/c")
"$weft" train "${tiny[@]}" "log.jsonl=$dir/log" > /dev/null
lost "$weft" --version
lost "$weft" --help
lost "$weft" train --help
lost "$weft" plan "${tiny[@]}"
lost "$weft" plan "${tiny[@]}" --json
lost "$weft" train "${tiny[@]}"
lost "$weft" train "${tiny[@]}" checkpoint.resume=auto
lost "$weft" eval "$dir/c"
lost "$weft" eval "$dir/c" --json
lost "$weft" generate "$dir/c" tokens=3
lost "$weft" report "$dir/log"
lost "$weft" export "$dir/c" "$dir/exported"
lost "$weft" prepare README.md --out "$dir/shards"
lost "$weft" doctor
printf '#!/bin/sh\nexec "$@" > /dev/full\n' > "$dir/full.sh"
chmod +x "$dir/full.sh"
lost mpirun -np 2 "$dir/full.sh" "$weft" generate "$dir/c" tokens=3
lost mpirun -np 2 "$dir/full.sh" "$weft" eval "$dir/c"

# In a run: before its first step, and by one rank for all.
rm -r "$dir/c"
lost "$weft" train "${tiny[@]}" checkpoint.every=1 "log.jsonl=$dir/log"
[ ! -e "$dir/c/step-000001" ] || fail "expected a run whose lines are lost not to begin"
lost mpirun -np 2 "$dir/full.sh" "$weft" train "${tiny[@]}" mesh.dp=2

# In a run that is under way: it continues without what cannot be written, saves what it has learnt, and fails at its end.
mkfifo "$dir/fifo"
for ranks in 1 2; do
  rm -rf "$dir/p" "$dir/q"
  run=("$weft" train "${tiny[@]}" train.steps=40 log.every=1 "mesh.dp=$ranks")
  [ $ranks -eq 1 ] || run=(mpirun -np $ranks "${run[@]}")
  # A reader of stdout that has seen enough; mpirun reads it to its end.
  if [ $ranks -eq 1 ]; then
    { within 60 "${run[@]}" "checkpoint.dir=$dir/p" 2> "$dir/err" < /dev/null || echo $? > "$dir/code"; } | head -n 2 > /dev/null
    code=$(cat "$dir/code" || true)
    [ "$code" = 1 ] && [ -e "$dir/p/step-000040" ] || fail "expected a run whose reader has gone to save its last step and to fail"
    grep -q 'weft: stdout: cannot be written (Broken pipe).*; the run continues without it' "$dir/err" || fail "expected a line about stdout"
  fi
  # Opened for both, it waits for no writer, and one that comes and goes is no end.
  ( exec 9<> "$dir/fifo"; touch "$dir/ready"; head -c 6000 <&9 > /dev/null ) &
  while [ ! -e "$dir/ready" ]; do sleep 0.01; done
  rm "$dir/ready"
  code=0
  within 60 "${run[@]}" "checkpoint.dir=$dir/q" "log.jsonl=$dir/fifo" > "$dir/out" 2> "$dir/err" < /dev/null || code=$?
  [ "$code" = 1 ] && [ -e "$dir/q/step-000040" ] || fail "expected a run without its log to save its last step and to fail, on $ranks"
  grep -q 'step  *40/40 ' "$dir/out" || fail "expected the terminal to have all steps"
  [ "$(grep -c "weft: $dir/fifo: cannot be written (Broken pipe); the run continues without it" "$dir/err")" = 1 ] &&
    [ "$(grep -c "not all of its log is there: $dir/fifo: cannot be written (Broken pipe)" "$dir/err")" = 1 ] ||
    fail "expected one line when the log was lost and one at the end, on $ranks"
done

# A log that is removed while the run writes it: reported once, and what follows is a whole log.
"$weft" train "${tiny[@]}" train.steps=100000 "log.jsonl=$dir/removed" "checkpoint.dir=$dir/r" > "$dir/out" 2> "$dir/err" < /dev/null &
job=$!
logged() { # STEPS: until the log has so many
  for _ in $(seq 1000); do
    [ ! -e "$dir/removed" ] || [ "$(grep -c '"event":"step"' "$dir/removed")" -lt "$1" ] || return 0
    sleep 0.02
  done
  fail "expected $1 steps in the log"
}
logged 3
rm "$dir/removed"
logged 3
kill -TERM $job
code=0
wait $job || code=$?
[ $code -eq 0 ] || fail "expected a run whose log was removed to stop as it was asked to"
[ "$(grep -c "^note: $dir/removed was removed while the run writes to it" "$dir/err")" = 1 ] || fail "expected one note that the log was removed"
head -n 1 "$dir/removed" | grep -q '"event":"start"' && tail -n 1 "$dir/removed" | grep -q '"event":"stop"' || fail "expected a whole log"
run 0 "the run of" report "$dir/removed"

# A failure for another reason reports only that reason.
code=0
"$weft" plan "${tiny[@]}" train.stepz=1 > /dev/full 2> "$dir/err" || code=$?
[ $code -eq 2 ] || fail "expected exit code 2 of a misspelt key"
! grep -q stdout "$dir/err" || fail "expected no word about stdout where nothing was printed"
echo "lost output: ok"
