#!/usr/bin/env bash
# Signals that stop a run: to one rank or through mpirun, once and twice, and to mpirun itself. It finishes its step,
# saves and exits with 0, and the run that continues from there has the losses of a run that was never stopped.
# Usage: signal_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/../launcher/prelude.sh"

cat > "$dir/rank.sh" <<'END'
#!/usr/bin/env bash
echo $$ > "$DIR/pid.$OMPI_COMM_WORLD_RANK"
exec "$PROGRAM" train "$@"
END
chmod +x "$dir/rank.sh"
export PROGRAM=$weft DIR=$dir
losses() { sed -nE 's/^\{"event":"step","step":([0-9]+),"loss":([^,]+),.*/\1 \2/p' "$1"; }

config=(configs/gpt2-tiny.yaml data.train=README.md data.val=0 model.layers=1 schedule.name=constant
  schedule.warmup_steps=0 mesh.dp=2)
# start WORD...: a run in the background that is past its third step, of the process `job`.
start() {
  rm -rf "$dir/c" "$dir/log" "$dir"/pid.*
  # timeout passes no SIGUSR1 on: the shell that turns into mpirun says its process id.
  timeout --kill-after=5 60 bash -c 'echo $$ > "$DIR/pid.mpirun"; exec mpirun "$@"' bash -np 2 "$dir/rank.sh" \
    "${config[@]}" train.steps=100000 log.every=1 "log.jsonl=$dir/log" "$@" > "$dir/out" 2>&1 < /dev/null &
  watch=$!
  for _ in $(seq 600); do
    if grep -q "\"step\":${reached:-3}," "$dir/log" 2> /dev/null; then
      job=$(cat "$dir/pid.mpirun")
      return
    fi
    kill -0 $watch 2> /dev/null || fail "expected the run to reach step 3"
    sleep 0.05
  done
  fail "expected step 3 within 30 s"
}
# ends CODE SECONDS: the run's exit code, and how soon it came.
ends() {
  local begin got=0 ms
  begin=$(now)
  wait $watch || got=$?
  ms=$((($(now) - begin) / 1000000))
  [ $got -eq "$1" ] || fail "expected exit code $1, got $got"
  [ $ms -le $(($2 * 1000)) ] || fail "expected the end within $2 s, got $ms ms"
}
stopped_at() { sed -nE "s/^stopped after step ([0-9]+) by $1; $2\$/\1/p" "$dir/out"; }

for case in TERM:0 TERM:1 INT:0 INT:1 USR1:mpirun; do
  signal=${case%:*} to=${case#*:}
  start "checkpoint.dir=$dir/c"
  if [ "$to" = mpirun ]; then kill "-$signal" "$job"; else kill "-$signal" "$(cat "$dir/pid.$to")"; fi
  ends 0 15
  step=$(stopped_at "SIG$signal" "continue with checkpoint.resume=auto")
  [ -n "$step" ] || fail "expected a line with how to continue after SIG$signal"
  [ -e "$dir/c/step-$(printf %06d "$step")/manifest.json" ] || fail "expected a checkpoint of step $step"
  [ "$(losses "$dir/log" | tail -n 1 | cut -d' ' -f1)" = "$step" ] || fail "expected step $step to be the last"
  [ "$(tail -n 1 "$dir/log")" = "{\"event\":\"stop\",\"step\":$step,\"reason\":\"SIG$signal\"}" ] ||
    fail "expected the stop as the log's last record, got $(tail -n 1 "$dir/log")"
done

# It continues as if nothing had been, here once more than it had.
within 60 mpirun -np 2 "$PROGRAM" train "${config[@]}" "train.steps=$((step + 1))" "log.jsonl=$dir/log" "checkpoint.dir=$dir/c" \
  checkpoint.resume=auto > "$dir/out" 2>&1 < /dev/null || fail "expected the resumed run to succeed"
within 60 mpirun -np 2 "$PROGRAM" train "${config[@]}" "train.steps=$((step + 1))" "log.jsonl=$dir/whole" > "$dir/out" 2>&1 < /dev/null ||
  fail "expected the run in one go to succeed"
cmp <(losses "$dir/log") <(losses "$dir/whole") || fail "expected the losses of a run that was never stopped"

# A resumed run holds none of the files that it has loaded: one that is removed meanwhile frees its space.
mv "$dir/c" "$dir/old"
reached=$((step + 2)) start "checkpoint.resume=$dir/old/step-$(printf %06d $((step + 1)))" "train.steps=$((step + 100000))"
! grep -l "$dir/old" /proc/"$(cat "$dir/pid.0")"/maps /proc/"$(cat "$dir/pid.1")"/maps ||
  fail "expected a resumed run to hold no file of its checkpoint"
kill -USR1 "$job"
ends 0 15

start
kill -USR1 "$job"
ends 0 15
[ -n "$(stopped_at SIGUSR1 "no checkpoint saved: checkpoint.dir is not set")" ] || fail "expected a line that nothing is saved"

# A second signal does not wait for the first: the rank that is to agree is suspended.
start "checkpoint.dir=$dir/c"
kill -STOP "$(cat "$dir/pid.0")"
kill -TERM "$(cat "$dir/pid.1")"
sleep 0.2
kill -TERM "$(cat "$dir/pid.1")"
got=0
wait $watch || got=$?
[ $got -ne 0 ] || fail "expected a run that is ended at once to fail"

# mpirun itself kills whatever it has started; what was saved is whole.
start "checkpoint.dir=$dir/c" checkpoint.every=1
kill -TERM "$job"
got=0
wait $watch || got=$?
[ $got -eq 1 ] || fail "expected mpirun to return 1 after SIGTERM, got $got"
alive() { kill -0 "$(cat "$dir/pid.0")" 2> /dev/null || kill -0 "$(cat "$dir/pid.1")" 2> /dev/null; }
for _ in $(seq 40); do  # the last of them may be on its way out
  alive || break
  sleep 0.05
done
! alive || fail "expected no rank to be left"
within 60 mpirun -np 2 "$PROGRAM" train "${config[@]}" train.steps=1 "checkpoint.dir=$dir/c" checkpoint.resume=auto > "$dir/out" 2>&1 < /dev/null ||
  fail "expected the newest checkpoint to load"
grep -q '^nothing to do' "$dir/out" || fail "expected a checkpoint to continue from"
! grep -q 'broken' "$dir/out" || fail "expected no broken checkpoint"
echo "signals: ok"
