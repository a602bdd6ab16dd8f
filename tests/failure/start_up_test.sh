#!/usr/bin/env bash
# A rank that hangs, is suspended or dies before the first collective or after the last one ends the job soon, and each
# line names it. One that is never started is waited for with a word, and a signal ends the wait.
# Usage: start_up_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/../launcher/prelude.sh"
source "$root/tests/failure/cases.sh"
start_up=$build/tests/failure/start_up
slack=${WEFT_TEST_SLACK_MS:-1500}

by_mpirun() { within 60 mpirun -np 3 "$start_up" "$@"; }
# As torchrun starts ranks; the exit code is that of one that is not the odd one.
by_variables() {
  local rank code=0 others=()
  for rank in 0 1 2; do
    RANK=$rank WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port within 60 "$start_up" "$@" &
    [ $rank -eq "$3" ] || others+=($!)
  done
  for rank in "${others[@]}"; do wait "$rank" || code=$?; done
  kill -KILL "$(sed -nE 's/^fault: rank [0-9]+ pid ([0-9]+) .*/\1/p' "$dir/out")" 2> /dev/null || true
  wait
  return $code
}
# judge_fault LAUNCH PLACE ACTION RANK PATTERN: with dist.timeout_s=2; in addition, what asking all ranks takes, which is up to
# 2 s, as in failure_test.
judge_fault() {
  local code=0 pid moment
  "by_$1" "$2" "$3" "$4" > "$dir/out" 2>&1 < /dev/null || code=$?
  read -r pid moment < <(sed -nE "s/^fault: rank $4 pid ([0-9]+) at ([0-9]+)\$/\1 \2/p" "$dir/out") ||
    fail "$1 $2 $3: expected a line of the fault"
  judged $code $((($(now) - moment) / 1000000)) $((4000 + slack)) "rank $4 \(host $host, pid $pid\) $5"
}
faulty() { in_background "$1-$2-$3-$4" judge_fault "$@"; }
launches=(mpirun variables)
[ "${WEFT_TEST_SHARE:-1}" -eq 1 ] || launches=(variables)  # sanitized: what a rank does is alike
faultless() { "by_$1" none none 0 > "$dir/out" 2>&1 || fail "$1: expected three ranks to meet and to end"; }
for launch in "${launches[@]}"; do
  in_background "$launch" faultless $launch
  for place in load mesh call end; do
    faulty $launch $place stop 2 'was suspended first: '
  done
  faulty $launch load sleep 1 'failed first: it has not come to exchange [0-9]+ of all ranks, in which rank [02] waits'
  faulty $launch call sleep 1 'failed first: (all_reduce #1 on (dp|world)|it has not come to exchange [0-9]+)'
  faulty $launch end sleep 1 'failed first: it has not come to exchange [0-9]+ .*the last call it finished: all_reduce #1 on world'
  faulty $launch load stop 0 'was suspended first: before any collective'
  faulty $launch end stop 0 'was suspended first: after all_reduce #1 on world'
done
faulty variables load kill 2 'died first: before any collective'
# While groups connect with dist.timeout_s=60: noticed at once.
for rank in 0 1 2; do faulty variables connect kill $rank 'died first: before any collective'; done
# One that hangs there: within dist.timeout_s, which meeting and connecting share.
for rank in 0 1 2; do
  faulty variables connect hang $rank 'failed first: it has not come to exchange [0-9]+ of all ranks, in which rank [0-2] waits'
done
collect

# Rank 1 of two is never started.
lonely=$((port + 1))
RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$lonely within 60 "$weft" train configs/gpt2-tiny.yaml \
  data.train=README.md > "$dir/out" 2>&1 &
for _ in $(seq 160); do
  ! grep -q "rank 0 waits at 127.0.0.1:$lonely for these of the 2 ranks: 1\$" "$dir/out" || break
  sleep 0.05
done
grep -q 'rank 0 waits at' "$dir/out" || fail "expected a line that rank 0 waits for rank 1"
begin=$(now) code=0
pkill -TERM -P $! || fail "expected rank 0 to wait"
wait $! || code=$?
[ $code -eq 143 ] || fail "expected exit code 143 after SIGTERM"
[ $((($(now) - begin) / 1000000)) -le $((2500 + slack)) ] || fail "expected SIGTERM to end the wait"
grep -q 'weft: SIGTERM before the run had begun' "$dir/out" || fail "expected a line about SIGTERM"
echo "start-up: ok"
