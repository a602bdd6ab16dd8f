#!/usr/bin/env bash
# ranks=N: the program starts mpirun itself, with the variables of launcher/environment.sh; exit codes and signals pass
# through, and under a launcher the number must be the launcher's.
# Usage: ranks_word_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/prelude.sh"

# What environment.sh exports, and only that: the user's own values win.
mkdir "$dir/bin"
printf '#!/bin/bash\nenv | grep -E "^(OMPI|PRTE|PMIX|OMP)_" | sort\nprintf "<%%s>" "$@"\nexit ${PRETENDED:-0}\n' > "$dir/bin/mpirun"
chmod +x "$dir/bin/mpirun"
plain=(env -i "PATH=$dir/bin:$PATH" HOME="$HOME")
"${plain[@]}" "$weft" train a.yaml ranks=3 x=y > "$dir/out" 2>&1 || { code=$?; fail "expected the pretended mpirun to run"; }
"${plain[@]}" bash -c 'source launcher/environment.sh; env | grep -E "^(OMPI|PRTE|PMIX|OMP)_" | sort' > "$dir/want"
[ "$(grep -c '_execute_quiet=1$' "$dir/out")" -eq 2 ] || fail "expected mpirun to be quiet"
grep -E '^(OMPI|PRTE|PMIX|OMP)_' "$dir/out" | grep -v '_execute_quiet=' | diff "$dir/want" - || fail "expected the variables of environment.sh"
[ "$(tail -n 1 "$dir/out")" = "<-np><3><$weft><train><a.yaml><ranks=3><x=y>" ] || fail "expected the command under mpirun"
"${plain[@]}" OMP_NUM_THREADS=2 "$weft" generate --ranks 2 > "$dir/out" 2>&1
grep -qx OMP_NUM_THREADS=2 "$dir/out" || fail "expected the user's own value"
for wanted in 0 1 2 77; do
  code=0
  "${plain[@]}" PRETENDED=$wanted "$weft" eval ranks=2 > "$dir/out" 2>&1 || code=$?
  [ $code -eq $wanted ] || fail "expected exit code $wanted"
done
code=0
env -i "PATH=$dir" "$weft" train a.yaml ranks=2 > "$dir/out" 2>&1 || code=$?
[ $code -eq 1 ] && grep -qF "weft: ranks: mpirun cannot be started (No such file or directory); install Open MPI" "$dir/out" ||
  fail "expected a line on the missing mpirun"
code=
for bad in 0 -1 x 65537 ""; do run 2 "command line: ranks: expected an integer >= 1 and <= 65536, got" train a.yaml "ranks=$bad"; done
run 2 " on this host, 32 for each core (" train a.yaml ranks=65536

# The real one, as root and on fewer cores than ranks.
config=(configs/gpt2-tiny.yaml data.train=README.md data.val=0 model.layers=1 schedule.name=constant schedule.warmup_steps=0)
unset "${!OMPI_@}" "${!PRTE_@}" "${!PMIX_@}" OMP_NUM_THREADS
run 0 "dp=2 x tp=2 on 4 ranks" train "${config[@]}" train.steps=2 ranks=4 mesh.dp=2 mesh.tp=2 "checkpoint.dir=$dir/c"
! grep -q $'\x1b' "$dir/out" || fail "expected no colours in a file, although mpirun gives ranks a terminal"
if command -v script > /dev/null; then  # a real terminal: colours, and lines of its width
  command=$(printf '%q ' "$weft" train "${config[@]}" train.steps=2 ranks=2 mesh.dp=2)
  script -qec "stty cols 40; $command" /dev/null > "$dir/out" 2>&1 < /dev/null || { code=$?; fail "expected the run to succeed"; }
  grep -qF $'\x1b[1mloss' "$dir/out" || fail "expected colours on a terminal"
  grep '^step 1/2' "$dir/out" | grep -qv ' norm ' || fail "expected a line that fits 40 columns"
fi
run 0 "weights: $dir/c/step-000002" generate "$dir/c" tokens=3 ranks=2
run 0 "validation loss" eval "$dir/c" data.val=README.md train.eval_batches=1 ranks=2
run 0 "on 1 rank" train "${config[@]}" train.steps=1 ranks=1
# An error is one line: mpirun adds none about the rank that ended.
run 2 "train.steps: expected an integer" train "${config[@]}" train.steps=many ranks=2
[ "$(wc -l < "$dir/out")" -eq 1 ] || fail "expected one line"
run 2 "mesh: dp=3 x tp=1 is 3 ranks, but 2 started" train "${config[@]}" mesh.dp=3 ranks=2
[ "$(wc -l < "$dir/out")" -eq 1 ] || fail "expected one line"
run 1 "TiB asked for (2 ranks" train "${config[@]}" mesh.dp=2 ranks=2 train.global_batch=30000000

# Under a launcher its number counts; the reason is printed once.
source launcher/environment.sh
for wrong in 1 2 4; do
  code=0
  within 60 mpirun -np 3 "$weft" train "${config[@]}" mesh.dp=3 train.steps=1 ranks=$wrong > "$dir/out" 2>&1 < /dev/null || code=$?
  [ $code -eq 2 ] && [ "$(grep -cF "command line: ranks: expected 3, as many as the launcher started, got $wrong" "$dir/out")" -eq 1 ] ||
    fail "expected ranks=$wrong to be refused once on three ranks"
done
within 60 mpirun -np 3 "$weft" train "${config[@]}" mesh.dp=3 train.steps=1 ranks=3 > "$dir/out" 2>&1 < /dev/null || { code=$?; fail "expected ranks=3 on three"; }
code=0
RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 10000)) within 60 "$weft" train "${config[@]}" train.steps=1 \
  ranks=2 > "$dir/out" 2>&1 || code=$?
[ $code -eq 2 ] && grep -qF "ranks: expected 1, as many" "$dir/out" || fail "expected torchrun's number to count"

# start: a run in the background that is past its third step, as process $job.
start() {
  rm -rf "$dir/c" "$dir/log"
  "$weft" train "${config[@]}" mesh.dp=2 ranks=2 train.steps=100000 "log.jsonl=$dir/log" "checkpoint.dir=$dir/c" > "$dir/out" 2>&1 < /dev/null &
  job=$!
  for _ in $(seq 600); do
    ! grep -q '"step":3,' "$dir/log" 2> /dev/null || return 0
    kill -0 $job 2> /dev/null || fail "expected the run to reach step 3"
    sleep 0.05
  done
  fail "expected step 3 within 30 s"
}
ranks_left() { pgrep -f -- "train .*checkpoint.dir=$dir/c" > /dev/null; }
for signal in TERM INT USR1; do
  start
  kill "-$signal" $job
  code=0
  wait $job || code=$?
  [ $code -eq 0 ] || fail "expected exit code 0 after SIG$signal"
  step=$(sed -nE 's/^stopped after step ([0-9]+) by SIGUSR1; continue with checkpoint.resume=auto$/\1/p' "$dir/out")
  [ -n "$step" ] && [ -e "$dir/c/step-$(printf %06d "$step")/manifest.json" ] || fail "expected a checkpoint after SIG$signal"
done
# All ranks killed at once, as by a host that runs out of memory: none is left to report it.
start
pgrep -f -- "^$weft train .*checkpoint.dir=$dir/c" | grep -vx $job | xargs kill -KILL
code=0
wait $job || code=$?
[ $code -eq 137 ] && grep -qx "mpirun: signal 9 (Killed) ended a rank" "$dir/out" || fail "expected a line on the signal"
# With the process gone, so are mpirun and the ranks.
start
kill -KILL $job
wait $job || code=$?
for _ in $(seq 100); do
  ranks_left || break
  sleep 0.1
done
! ranks_left || fail "expected no rank to be left"
echo "ranks: ok"
