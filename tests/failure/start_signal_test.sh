#!/usr/bin/env bash
# Signals to a program with ranks=N while it starts. Whenever the signal comes, the job ends soon: a run stops after the
# step in progress, or ends with the signal's exit code if it does not begin in time.
# Usage: start_signal_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/../launcher/prelude.sh"
source "$root/tests/failure/cases.sh"
slack=${WEFT_TEST_SLACK_MS:-0}

run 0 "done: 1 step" train configs/gpt2-tiny.yaml data.train=README.md data.val=0 model.layers=1 schedule.warmup_steps=0 \
  train.steps=1 "checkpoint.dir=$dir/c"
number() { if [ "$1" = TERM ]; then echo 15; else echo 2; fi; }
# signalled SIGNAL SECONDS COMMAND...: starts the command, sends it the signal, and sets `code`. A shell has its jobs in the
# background ignore SIGINT, which env undoes.
signalled() {
  local job ms begin
  env --default-signal=INT "${@:3}" > "$dir/out" 2>&1 < "${input:-/dev/null}" &
  job=$!
  sleep "$2"
  begin=$(now) code=0
  kill "-$1" $job 2> /dev/null || true  # it may have ended
  (sleep 15; exec kill -KILL $job) 2> /dev/null &
  wait $job || code=$?
  ms=$((($(now) - begin) / 1000000))
  kill $! 2> /dev/null || true
  [ $ms -le $((5000 + slack)) ] || fail "${*:3}: expected the end within 5 s of SIG$1 at $2 s, got $ms ms"
  ! grep -qE 'mpirun|does not answer|lost|died' "$dir/out" || fail "${*:3}: expected no other message after SIG$1 at $2 s"
}
# stopped SIGNAL: the run has stopped in order, or has ended with the signal's code and at most one message.
stopped() {
  [ $code -ne 0 ] || grep -qE '^stopped after step [0-9]+ by SIGUSR1; no checkpoint saved' "$dir/out" ||
    fail "expected the run to stop after SIG$1"
  [ $code -eq 0 ] || [ $code -eq $((128 + $(number "$1"))) ] || fail "expected the exit code of SIG$1"
  [ "$(grep -c '^weft: ' "$dir/out")" -le 1 ] || fail "expected one message after SIG$1"
}
for seconds in 0.01 0.03 0.05 0.08 0.12 0.2 0.35 0.6; do
  for signal in TERM INT; do
    for ranks in 2 4; do
      signalled $signal $seconds "$weft" train configs/gpt2-tiny.yaml data.train=README.md data.val=0 model.layers=1 \
        train.steps=100000 log.every=1000 "log.jsonl=$dir/log-$signal-$seconds-$ranks" ranks=$ranks
      stopped $signal
    done
  done
done

# From here on the ranks mostly wait. A run that does not begin: its ranks wait for a file for an hour.
unbegun() {  # SIGNAL SECONDS
  WEFT_FAULT=read:hang signalled "$@" "$weft" train configs/gpt2-tiny.yaml data.train=README.md "log.jsonl=$dir/log" ranks=2
  [ $code -eq $((128 + $(number "$1"))) ] || fail "expected the exit code of SIG$1"
  [ "$(grep '^weft: ' "$dir/out")" = "weft: SIG$1 before the run had begun" ] || fail "expected one line on SIG$1"
}
for seconds in 0.05 0.6; do
  in_background "unbegun-TERM-$seconds" unbegun TERM $seconds
  in_background "unbegun-INT-$seconds" unbegun INT $seconds
done
twice() {  # a second signal does not wait for the first
  (sleep 1; exec pkill -TERM -of "^$weft train .*log.jsonl=$dir/log") &
  WEFT_FAULT=read:hang signalled TERM 0.5 "$weft" train configs/gpt2-tiny.yaml data.train=README.md "log.jsonl=$dir/log" ranks=2
  [ $code -eq 143 ] && ! grep -q '^weft: ' "$dir/out" || fail "expected a second SIGTERM to end the run at once"
}
in_background twice twice

# Other commands end. A conversation ends by SIGINT too, until it reads lines, and with 0 from then on.
mkfifo "$dir/lines"
exec 3<> "$dir/lines"
lines=$dir/lines checkpoint=$dir/c
ended() {  # SIGNAL SECONDS COMMAND...
  signalled "$@"
  [ $code -eq $((128 + $(number "$1"))) ] || fail "${*:3}: expected the exit code of SIG$1 at $2 s"
}
left() {  # SECONDS
  input=$lines signalled INT "$1" "$weft" generate "$checkpoint" tokens=10 repl=true ranks=2
  [ $code -eq 130 ] || [ $code -eq 0 ] || fail "expected a conversation to end by SIGINT at $1 s"
}
for seconds in 0.02 0.06 0.1 0.15 0.8; do
  in_background "generate-$seconds" ended TERM $seconds "$weft" generate "$checkpoint" tokens=1000000 ranks=2
  in_background "bench-$seconds" ended INT $seconds "$weft" bench step config=configs/gpt2-tiny.yaml repeats=1000 ranks=2
  input=$lines in_background "repl-$seconds" ended TERM $seconds "$weft" generate "$checkpoint" tokens=10 repl=true ranks=2
  in_background "interrupt-$seconds" left $seconds
done
for seconds in 0.02 0.05; do
  in_background "eval-$seconds" ended TERM $seconds "$weft" eval "$checkpoint" data.val=README.md ranks=2
  in_background "doctor-$seconds" ended TERM $seconds "$weft" doctor ranks=2
done
collect

for _ in $(seq 40); do  # the last of them may be on its way out
  pgrep -f -- "$dir/" > /dev/null || break
  sleep 0.05
done
! pgrep -f -- "$dir/" > "$dir/out" || fail "expected no rank to be left"
echo "start signals: ok"
