#!/usr/bin/env bash
# A run that is killed again and again, at random times and at every fault point of a save, continues each time from the
# newest whole checkpoint, and its losses are those of a run that was never stopped. WEFT_TEST_KILLS: how many kills.
# Usage: checkpoint_kill_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/prelude.sh"
kills=${WEFT_TEST_KILLS:-$([ "${WEFT_TEST_SHARE:-1}" -gt 1 ] && echo 4 || echo 12)}
mkdir "$dir/c"

# Rank ODD runs with the fault; a random one of the two.
cat > "$dir/rank.sh" <<'END'
#!/usr/bin/env bash
[ "$OMPI_COMM_WORLD_RANK" = "${ODD:-}" ] || unset WEFT_FAULT
echo $$ > "$DIR/pid.$OMPI_COMM_WORLD_RANK"
exec "$PROGRAM" train "$@"
END
chmod +x "$dir/rank.sh"
export PROGRAM=$weft DIR=$dir
fail() { echo "checkpoint_kill_test: $1; output:"; cat "$dir/out"; ls -laR "$dir/c"; exit 1; }
limit_s=60
# Open MPI 4.1's mpirun at times does not end after a rank died: it loses a rank that was connecting to it, or it has
# reported that a rank was killed and hangs then. This notes whether it had ranks left shortly before the limit.
train() {
  local code=0 watch
  rm -f "$dir"/pid.* "$dir/hung"
  { sleep $((limit_s - 10)) && { rank_lives || touch "$dir/hung"; }; } > /dev/null 2>&1 &
  watch=$!
  within $limit_s mpirun -np 2 "$dir/rank.sh" "${config[@]}" "$@" > "$dir/out" 2>&1 < /dev/null || code=$?
  kill $watch 2> /dev/null || true
  return $code
}
rank_lives() {
  local rank
  for rank in 0 1; do
    [ ! -s "$dir/pid.$rank" ] || ! grep -q '^State:.[^Z]' "/proc/$(cat "$dir/pid.$rank")/status" || return 0
  done
  return 1
}
mpirun_hung() { [ -e "$dir/hung" ] || grep -q 'PMIX ERROR: UNREACHABLE' "$dir/out"; }
# The loss of each step, as written; of a step that was run twice, the last.
losses() { sed -nE 's/^\{"event":"step","step":([0-9]+),"loss":([^,]+),.*/\1 \2/p' "$1" | awk '{ l[$1] = $2 } END { for (s in l) print s, l[s] }' | sort -n; }
newest() { find "$dir/c" -maxdepth 1 -name 'step-*' -printf '%f\n' 2> /dev/null | sort | tail -n 1; }

cp README.md "$dir/text"  # which may be edited meanwhile
config=(configs/gpt2-tiny.yaml "data.train=$dir/text" data.val=0 model.layers=1 schedule.name=constant
  schedule.warmup_steps=0 mesh.dp=2 parallel.fsdp=full checkpoint.every=1 checkpoint.keep=2 checkpoint.resume=auto)
points=(mkdir create write fsync rename fsync_dir remove)
RANDOM=${WEFT_TEST_SEED:-1}
steps=0 killed=0 hung=0
declare -A hits=()  # kills at each point
while [ $killed -lt "$kills" ]; do
  steps=$((steps + 4))
  words=("train.steps=$steps" "checkpoint.dir=$dir/c" "log.jsonl=$dir/log")
  while :; do
    before=$(newest) begin=$SECONDS
    export ODD=$((RANDOM % 2)) WEFT_FAULT=""
    if [ $((RANDOM % 2)) -eq 0 ]; then
      WEFT_FAULT="${points[RANDOM % ${#points[@]}]}:kill:$((RANDOM % 12 + 1))"
      train "${words[@]}" && ended=0 || ended=$?
      [ $ended -eq 0 ] || hits[${WEFT_FAULT%%:*}]=$((${hits[${WEFT_FAULT%%:*}]:-0} + 1))
    else
      rm -f "$dir/pid.$ODD"  # the last run's, before this one's is waited for
      train "${words[@]}" & job=$!
      while [ ! -s "$dir/pid.$ODD" ] && kill -0 $job 2> /dev/null; do sleep 0.01; done
      sleep "0.$(printf '%03d' $((RANDOM % 700)))"
      kill -KILL "$(cat "$dir/pid.$ODD")" 2> /dev/null || true
      wait $job && ended=0 || ended=$?
    fi
    after=$(newest)
    [[ ! $after < $before ]] || fail "expected a checkpoint not before $before, got ${after:-none} (fault '$WEFT_FAULT')"
    ! grep -q 'broken' "$dir/out" || fail "expected no broken checkpoint after fault '$WEFT_FAULT'"
    [ $ended -ne 0 ] || break
    [ $ended -ne 2 ] || fail "expected the run to be killed, got exit code $ended"
    if [ $((SECONDS - begin)) -ge $limit_s ]; then
      mpirun_hung || fail "expected the run to end within $limit_s s of a kill"
      hung=$((hung + 1))
      kill -KILL "$(cat "$dir/pid.0")" "$(cat "$dir/pid.1")" 2> /dev/null || true
    fi
    killed=$((killed + 1))
    [ $killed -lt "$kills" ] || break
  done
done
for point in "${points[@]}"; do
  [ "$kills" -lt 100 ] || [ "${hits[$point]:-0}" -gt 0 ] || fail "expected a kill at $point among $kills"
done
echo "shown: kills at fault points: $(for point in "${points[@]}"; do printf '%s %s, ' "$point" "${hits[$point]:-0}"; done)$((killed)) in all"
unset ODD WEFT_FAULT
train "train.steps=$((steps + 1))" "checkpoint.dir=$dir/c" "log.jsonl=$dir/log" || fail "expected the last run to succeed"
train "train.steps=$((steps + 1))" checkpoint.resume=never checkpoint.every=0 checkpoint.keep=0 "log.jsonl=$dir/whole" ||
  fail "expected the run in one go to succeed"
losses "$dir/log" > "$dir/a"
losses "$dir/whole" > "$dir/b"
cmp "$dir/a" "$dir/b" || { diff "$dir/a" "$dir/b" | head -20; fail "expected the losses of a run that was never stopped"; }
[ -z "$(find "$dir/c" -name '.tmp-*')" ] || fail "expected nothing unfinished to be left"
[ $hung -eq 0 ] || echo "mpirun itself hung after $hung of the kills"

# The state of the last step is on its way before the evaluation after it, which may take long: a run that dies there
# has lost only that, and the next one makes it.
long=(train.steps=3 data.train=src data.val=0.5 "checkpoint.dir=$dir/d" checkpoint.every=0 "log.jsonl=$dir/eval")
train "${long[@]}" & job=$!
for _ in $(seq 1200); do
  [ ! -e "$dir/d/step-000003" ] || break
  sleep 0.05
done
kill -KILL "$(cat "$dir/pid.0")"
! wait $job || fail "expected the run to be killed in its evaluation"
! grep -q '"event":"eval"' "$dir/eval" || fail "expected the run to be killed before its evaluation was made"
train "${long[@]}" || fail "expected the evaluation to be made up"
[ "$(sed -nE 's/^\{"event":"(eval|step|end)","step":([0-9]+).*/\1 \2/p' "$dir/eval" | tail -n 2 | tr '\n' ' ')" = "eval 3 end 3 " ] ||
  fail "expected the evaluation of step 3 and the end"
train "${long[@]}" && grep -q 'nothing to do' "$dir/out" || fail "expected nothing to be left to do"
echo "checkpoint kills: $killed kills over $((steps + 1)) steps: ok"
