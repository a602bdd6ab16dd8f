#!/usr/bin/env bash
# A note that cannot be written must not end a run: stderr may be closed, full, or a pipe that nobody reads any more.
# Usage: closed_stderr_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/../launcher/prelude.sh"

# Notes come before the first step (the log of another run is replaced; checkpoints of later steps are there) and after a
# save (a folder that cannot be removed).
tiny=(configs/gpt2-tiny.yaml data.train=README.md data.val=0 model.layers=1 schedule.warmup_steps=0 checkpoint.every=1
  train.steps=3)
# goes_on HOW: the run with stderr as HOW says reaches its end, and its files hold what they should and no notes.
goes_on() {
  local how=$1 case=$dir/$1 step
  mkdir -p "$case/c/step-000009" "$case/c/.tmp-step-2"
  echo '{"event":"step","step":1}' > "$case/log"
  run=("$weft" train "${tiny[@]}" "checkpoint.dir=$case/c" "log.jsonl=$case/log")
  code=0
  export WEFT_FAULT=remove:eacces
  case $how in
    open) within 60 "${run[@]}" > "$dir/out" 2> "$dir/err" < /dev/null || code=$? ;;
    closed) within 60 "${run[@]}" > "$dir/out" 2>&- < /dev/null || code=$? ;;
    full) within 60 "${run[@]}" > "$dir/out" 2> /dev/full < /dev/null || code=$? ;;
    unread) { within 60 "${run[@]}" 2>&1 > "$dir/out" < /dev/null || echo $? > "$case/code"; } | true
      code=$(cat "$case/code" 2> /dev/null || echo 0) ;;
  esac
  unset WEFT_FAULT
  [ "$code" -eq 0 ] && grep -q 'step  *3/3 ' "$dir/out" || fail "expected the run to reach its end with stderr $how"
  [ "$(grep -c '"event":"step"' "$case/log")" = 3 ] || fail "expected 3 steps in the log with stderr $how"
  ! grep -rlE 'note: ' "$case" > "$dir/found" || fail "expected no note in a file of the run with stderr $how"
  for step in 1 2 3; do
    run 0 '"val_loss"' eval "$case/c/step-00000$step" data.val=README.md train.eval_batches=1 --json
  done
}
goes_on open
[ "$(grep -c '^note: ' "$dir/err")" -ge 2 ] || fail "expected notes where stderr is open"
goes_on closed
goes_on full
goes_on unread

# Closed files: what cannot be written to stdout is an error as on a full disk, and a prompt from stdin is no file.
code=0
within 60 "$weft" plan "${tiny[@]}" checkpoint.every=0 >&- 2> "$dir/err" < /dev/null || code=$?
[ $code -eq 1 ] && grep -q 'stdout: cannot be written (Bad file descriptor)' "$dir/err" || fail "expected a closed stdout to be an error"
code=0
within 60 "$weft" train "${tiny[@]}" "checkpoint.dir=$dir/none" "log.jsonl=$dir/none.jsonl" <&- > "$dir/out" 2>&- || code=$?
[ $code -eq 0 ] || fail "expected a run with stdin and stderr closed to reach its end"
code=0
within 60 "$weft" train "${tiny[@]}" train.stepz=1 <&- >&- 2>&- || code=$?
[ $code -eq 2 ] || fail "expected a refusal with all files closed to exit with 2"
echo "closed stderr: ok"
