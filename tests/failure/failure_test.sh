#!/usr/bin/env bash
# One rank of a training run dies, is suspended, has an error, leaves out a collective, or makes it with another shape,
# of another type or in another order. The run ends with a code that is not 0, within 10 s of a death or an error and
# dist.timeout_s + 2 s of the rest, and each line names that rank, its host and pid, the collective and its number.
# mpirun sends the survivors of a death SIGTERM at once: there is a line at all because they hold it off.
# dist.timeout_s is 5, or WEFT_TEST_TIMEOUT_S. Five runs wait at the same time; for this, and for what else a
# machine may be busy with, WEFT_TEST_SLACK_MS is added to the limits (1500).
# Usage: failure_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/../launcher/prelude.sh"
timeout_s=${WEFT_TEST_TIMEOUT_S:-5}
config=(configs/gpt2-tiny.yaml data.train=README.md data.val=0 model.layers=1 schedule.name=constant
  schedule.warmup_steps=0 train.steps=100000 "dist.timeout_s=$timeout_s")
cat > "$dir/rank.sh" <<'END'
#!/usr/bin/env bash
[ "$OMPI_COMM_WORLD_RANK" = "$ODD" ] || unset WEFT_FAULT
echo $$ > "$CASE/pid.$OMPI_COMM_WORLD_RANK"
[[ $CASE != */SIG* ]] || set -- "$@" "checkpoint.dir=$CASE/c"
exec "$PROGRAM" train "$@" "log.jsonl=$CASE/log"
END
chmod +x "$dir/rank.sh"
export PROGRAM=$weft
declare -A case_of=() row_of=()

# start NAME DP TP RANK FAULT LIMIT_S PATTERN: a run in the background, what RANK of it does, and how it is to end.
start() {
  local case=$dir/$1 fault=""
  [[ $5 != collective:* ]] || fault=$5
  mkdir "$case"
  TMPDIR=$case ODD=$4 CASE=$case WEFT_FAULT=$fault timeout --kill-after=5 90 mpirun -np $(($2 * $3)) "$dir/rank.sh" "${config[@]}" \
    "mesh.dp=$2" "mesh.tp=$3" > "$case/out" 2>&1 < /dev/null &
  case_of[$!]=$1
  row_of[$1]=$*
}
# strike NAME SIGNAL: to the odd rank of a run that is under way, at a moment that no call of its own decides.
strike() {
  local case=$dir/$1 rank pid
  for _ in $(seq 600); do
    ! grep -q '"step":3,' "$case/log" 2> /dev/null || break
    sleep 0.05
  done
  read -r _ _ _ rank _ <<< "${row_of[$1]}"
  pid=$(cat "$case/pid.$rank")
  echo "fault: rank $rank pid $pid at $(now) since 1970: SIG$2" > "$case/fault"
  kill "-$2" "$pid"
}
# planned: the line names the collective that the others waited in by the module and the line of a row of the step's plan,
# of that op and axis.
planned() {
  local op axis scope line
  read -r op axis scope line < <(sed -nE "s/^weft: .* first: (all_[a-z]+) #[0-9]+ on (dp|tp), .*$at, in which ranks? .*/\1 \2 \3 \4/p" "$dir/out") ||
    fail "expected a collective on dp or tp with its module and line"
  "$weft" plan "${config[@]}" mesh.dp=2 mesh.tp=2 --json 2> "$dir/err" |
    grep "\"op\":\"$op\",\"axis\":\"$axis\",.*\"scope\":\"$scope\",\"line\":\"$line\"" > "$dir/row" ||
    fail "expected $op on $axis at $scope $line in the plan of a step"
}
# ended NAME CODE TIME: as the row of its start says. CALL in the pattern is the one that the fault hit; LATER that one or
# one of the next of its group: what was left out shows at the first call that is unlike its successor.
ended() {
  local rank fault limit pattern pid moment call ms number later
  read -r _ _ _ rank fault limit pattern <<< "${row_of[$1]}"
  tr -d '\0' < "$dir/$1/out" > "$dir/out"  # mpirun of Open MPI 5 ends its own message with a null byte
  read -r pid moment call < <(cat "$dir/$1/fault" "$dir/out" 2> /dev/null |
    sed -nE "s/^fault: rank $rank pid ([0-9]+) at ([0-9]+) since 1970: [a-zA-Z]+ ?(.*)/\1 \2 \3/p") ||
    fail "$1: expected a line of the fault"
  ms=$((($3 - moment) / 1000000))
  number=${call#*#} number=${number%% *}
  later="all_[a-z]+ #($(seq -s '|' "${number:-0}" $((${number:-0} + 4)))) on ${call##* }"
  judged "$2" $ms $((limit * 1000 + ${WEFT_TEST_SLACK_MS:-1500})) "rank $rank \(host $host, pid $pid\) $(sed "s/CALL/$call/; s/LATER/$later/" <<< "$pattern")"
  [[ $1 != kill* && $1 != stop ]] || planned
  [[ $1 != SIG* ]] || grep -qxF "started again with checkpoint.resume=auto, the run continues from the highest step in $dir/$1/c, if one was saved" "$dir/out" ||
    fail "$1: expected a line about how to continue"
  echo "shown: $1: ended $ms ms after it (limit $limit s) with $2: $(grep -m 1 '^weft: ' "$dir/out")"
}
finish() {
  local job code
  while [ ${#case_of[@]} -gt 0 ]; do
    code=0
    wait -n -p job "${!case_of[@]}" || code=$?
    ended "${case_of[$job]}" $code "$(now)"
    unset "case_of[$job]"
  done
}

at=' at ([a-z0-9_.]+) ([a-z_]+\.cc:[0-9]+)'  # the module and the line of a collective
late=$((timeout_s + 2)) call='all_[a-z]+ #[0-9]+ on (dp|tp|world)'
start kill 2 2 2 collective:kill:150 10 "died first: CALL, all_reduce f32 x [0-9]+ sum$at, in which rank"
start kill-earlier 2 2 1 collective:kill:106 10 "died first: CALL, all_reduce f32 x [0-9]+ (sum|max)$at, in which rank"
start stop 2 2 1 collective:stop:150 $late "was suspended first: CALL, all_reduce f32 x [0-9]+ sum$at, in which rank"
start skip 2 2 2 collective:skip:151 $late 'failed first: LATER: it called'
start shape 2 2 3 collective:shape:150 $late "failed first: CALL: it called all_reduce f32 x [0-9]+ sum$at, but rank"
start dtype 2 2 0 collective:dtype:150 $late "failed first: CALL: it called all_reduce i32 x [0-9]+ sum$at, but rank"
finish
start order 2 2 1 collective:order:151 $late "failed first: CALL: it called all_reduce f32 x [0-9]+ sum$at, but rank"
start error 2 2 3 collective:throw:150 10 "failed first: the error that WEFT_FAULT asks for; its last call: $call"
start skip-of-two 2 1 0 collective:skip:100 $late 'failed first: LATER: it called'
start SIGKILL 2 2 1 SIGKILL 10 "died first: .*$call"
start SIGSTOP 2 2 2 SIGSTOP $late "was suspended first: .*$call"
strike SIGKILL KILL
strike SIGSTOP STOP
finish
# generate and eval catch no signal to stop by. mpirun sends SIGTERM to the ranks that are left when one dies, at times
# before they know of it: they still say which one it was. Here it comes before.
cat > "$dir/writer.sh" <<'END'
#!/usr/bin/env bash
echo $$ > "$CASE/pid.$OMPI_COMM_WORLD_RANK"
exec "$PROGRAM" "$@"
END
chmod +x "$dir/writer.sh"
"$weft" train "${config[@]}" train.steps=1 "checkpoint.dir=$dir/c" > /dev/null
# writes SIGNAL RANK LIMIT_MS PATTERN [OTHERS]: the signal to a rank of a generate, after SIGTERM to the others
writes() {
  local begin code=0 rank
  rm -f "$dir"/pid.* "$dir/text"  # before the loop below looks for them
  CASE=$dir timeout --kill-after=5 60 mpirun -np 4 "$dir/writer.sh" generate "$dir/c" tokens=1000000 \
    > "$dir/text" 2> "$dir/out" < /dev/null &
  for _ in $(seq 400); do
    [ ! -s "$dir/text" ] || break
    sleep 0.05
  done
  begin=$(now)
  for rank in ${5:-}; do kill -TERM "$(cat "$dir/pid.$rank")"; done
  kill "-$1" "$(cat "$dir/pid.$2")"
  if [ "$1" = TERM ]; then
    while kill -0 "$(cat "$dir/pid.$2")" 2> /dev/null; do sleep 0.02; done
    held=$((($(now) - begin) / 1000000))
    echo "shown: SIGTERM was held off for $held ms (limit 1 s)"
    [ $held -le $((1000 + ${WEFT_TEST_SLACK_MS:-1500} / 3)) ] || fail "expected SIGTERM to be held off for at most 1 s"
  fi
  wait $! || code=$?
  judged $code $((($(now) - begin) / 1000000)) "$3" "rank $2 \(host $host, pid $(cat "$dir/pid.$2")\) $4"
}
writes KILL 1 4000 "died first: .*$call" "0 2 3"
writes INT 2 4000 "died first: .*$call"
writes TERM 0 6000 "died first: .*$call"
# Alone there is nobody to tell of.
"$weft" generate "$dir/c" tokens=1000000 > "$dir/text" 2> "$dir/out" < /dev/null &
while [ ! -s "$dir/text" ] && kill -0 $!; do sleep 0.05; done
begin=$(now) code=0
kill -TERM $!
wait $! || code=$?
[ $code -eq 143 ] || fail "expected SIGTERM to end one rank with exit code 143, got $code"
[ $((($(now) - begin) / 1000000)) -le 1000 ] || fail "expected SIGTERM to end one rank at once"
echo "failures: ok"
