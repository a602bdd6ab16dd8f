#!/usr/bin/env bash
# Strangers connect to every socket of a rank that begins to listen while jobs start (stranger.cc): they close, say nothing, send
# lengths of 2^40, speak an earlier protocol, guess a proof, send back what they are sent. 20 jobs by torchrun's
# variables, 20 of which a rank comes late, so that strangers are first, and 5 such jobs under mpirun: none is harmed. In
# each job with a late rank strangers connect, and ranks turn some of them away. The others may start faster than strangers
# look. Then secrets: whose differ, two jobs on one port, and addresses that other hosts reach.
# Usage: strangers_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/../launcher/prelude.sh"
# By a name of its own: strangers do not disturb other tests.
start_up=$dir/strange.$$
ln -s "$build/tests/failure/start_up" "$start_up"
port=$((20000 + $$ % 9000))
jobs=20
[ "${WEFT_TEST_SHARE:-1}" -eq 1 ] || jobs=4  # sanitized

mkfifo "$dir/hold"
# beside_strangers COMMAND...: runs it while strangers, which are there before it begins, look for its listeners. Its
# output is in `out`. Adds to the counts of listeners that they found, of connections that they made and of lines about
# them. Returns 1 if there are no connections or no lines.
beside_strangers() {
  local strangers met made turned_away
  jobs_run=$((jobs_run + 1))
  rm -f "$dir/found"
  "$build/tests/failure/stranger" 60 "$(basename "$start_up")" < "$dir/hold" > "$dir/found" &
  strangers=$!
  exec 9> "$dir/hold"
  for _ in $(seq 200); do ! grep -qs ready "$dir/found" || break; sleep 0.02; done
  code=0
  "$@" > "$dir/out" 2>&1 < /dev/null || code=$?
  exec 9>&-
  wait $strangers
  [ $code -eq 0 ] || fail "expected strangers not to harm a job of $*"
  read -r met made < <(sed -n 's/^found \([0-9]*\) listeners, made \([0-9]*\) connections$/\1 \2/p' "$dir/found")
  turned_away=$(grep -c '^note: rank [0-9]* turned away 127.0.0.1:[0-9]*: ' "$dir/out" || true)
  listeners=$((listeners + met)) connections=$((connections + made)) lines=$((lines + turned_away))
  [ "$made" -gt 0 ] && [ "$turned_away" -gt 0 ]
}
# with_strangers COMMAND...: a job with a late rank, which strangers meet. On a busy machine they may look only after the
# job has ended, so it has three attempts.
with_strangers() {
  for _ in 1 2 3; do ! beside_strangers "$@" || return 0; done
  fail "expected strangers to connect to each job, and its ranks to turn some away: $(cat "$dir/found")"
}
# met WHAT: prints the counts, and clears them.
met() {
  echo "shown: strangers made $connections connections to $listeners listeners of $jobs_run $1: 0 harmed, $lines lines"
  listeners=0 connections=0 lines=0 jobs_run=0
}
listeners=0 connections=0 lines=0 jobs_run=0
# ranks SECONDS: three ranks as torchrun starts them, the last one so many seconds later.
ranks() {
  local rank codes=0 pids=()
  port=$((port + 1))
  for rank in 0 1 2; do
    [ $rank -lt 2 ] || sleep "$1"
    RANK=$rank WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port within 60 "$start_up" none none 0 &
    pids+=($!)
  done
  for rank in "${pids[@]}"; do wait "$rank" || codes=$?; done
  return $codes
}

for _ in $(seq $jobs); do
  beside_strangers ranks 0 || true
  with_strangers ranks 0.3
done
# A job has four listeners, and strangers find most of those that wait for a late rank. A busy machine looks late.
[ $lines -ge $listeners ] || fail "expected more lines about strangers than $lines"
met "jobs"
# shellcheck disable=SC2016  # of the inner shell
late='[ "$OMPI_COMM_WORLD_RANK" -lt 2 ] || sleep 0.3; exec "$@"'
for _ in $(seq $((jobs / 4))); do with_strangers within 60 mpirun -np 3 sh -c "$late" sh "$start_up" none none 0; done
met "jobs under mpirun"

# On one host no rank listens on more than the loopback: seen while three ranks wait for one that sleeps.
env -u OMPI_MCA_btl timeout 60 mpirun -np 4 "$start_up" call sleep 1 > "$dir/out" 2>&1 < /dev/null &
for _ in $(seq 200); do
  ss -Hltnp 2> /dev/null | grep "\"$(basename "$start_up")\"" > "$dir/err" || true
  [ "$(wc -l < "$dir/err")" -lt 4 ] || break
  sleep 0.02
done
wait $! || true
[ "$(wc -l < "$dir/err")" -eq 4 ] || fail "expected one listener a rank"
! awk '{ print $4 }' "$dir/err" | grep -qv '^127\.0\.0\.1:' || fail "expected listeners on the loopback only"
rm "$dir/err"

# rank RANK SIZE: in the background, its output in out.RANK.
rank() {
  RANK=$1 WORLD_SIZE=$2 MASTER_ADDR=${address:-127.0.0.1} MASTER_PORT=$port \
    within 60 ${space:+ip netns exec $space} "$start_up" none none "${word:-0}" > "$dir/out.$1${job:-}" 2>&1 < /dev/null &
}
# says FILE TEXT
says() {
  cp "$dir/$1" "$dir/out"
  grep -qF -- "$2" "$dir/out" || fail "expected \"$2\" in $1"
}

# The second job on a port ends, at once, and the first one continues: while its ranks still come, and when they are there.
# Its last rank is one for which the first job still waits. Both have no secret, or one, or each its own.
for secrets in none one two; do
  port=$((port + 1)) secret=""
  [ $secrets = none ] || secret="first-job-0123456789"
  export WEFT_SECRET=$secret
  [ -n "$secret" ] || unset WEFT_SECRET
  job="" rank 0 3
  first=$!
  for _ in $(seq 100); do [ -z "$(ss -Hltn "sport = :$port")" ] || break; sleep 0.05; done
  job="" rank 1 3
  first+=" $!"
  sleep 0.5
  [ $secrets != two ] || export WEFT_SECRET=second-job-0123456789
  for r in 0 1 2; do
    job=.second code=0 word=1
    rank $r 3
    wait $! || code=$?
    [ $code -eq 1 ] || fail "expected rank $r of the second job to end with 1 (secrets: $secrets)"
  done
  word=""
  says out.0.second "Address already in use"
  why="it is of another job"
  [ $secrets != two ] || why="it has another secret"
  for r in 1 2; do
    says out.$r.second "rank $r cannot join rank 0 at 127.0.0.1:$port (MASTER_ADDR, MASTER_PORT): $why"
  done
  [ -z "$secret" ] || export WEFT_SECRET=$secret
  job="" rank 2 3
  first+=" $!"
  for pid in $first; do wait "$pid" || fail "expected the first job to succeed"; done
  unset WEFT_SECRET
  job=""
done

# A program at the first address of rank 0's host, which a rank calls first, passes everything on to the second one: rank 0
# does not listen there instead. Names come from a file of this test's own.
printf '::1 localhost\n127.0.0.1 localhost\n' > "$dir/hosts"
if unshare --mount mount --bind "$dir/hosts" /etc/hosts 2> /dev/null && grep -q ' ::1$\|::1/' < <(ip -6 addr show lo); then
  port=$((port + 1))
  "$build/tests/failure/stranger" relay $port 5 > "$dir/relay" &
  relay=$!
  for _ in $(seq 100); do ! grep -qs ready "$dir/relay" || break; sleep 0.02; done
  for r in 1 0; do
    # shellcheck disable=SC2016  # of the inner shell
    RANK=$r WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$port WEFT_SECRET=a-secret-that-no-relay-knows within 4 \
      unshare --mount sh -c 'mount --bind "$1" /etc/hosts; shift; exec "$@"' sh "$dir/hosts" "$start_up" none none 0 \
      > "$dir/out.$r" 2>&1 < /dev/null &
  done
  code=0
  wait $! || code=$?
  wait $relay
  [ $code -eq 1 ] || fail "expected rank 0 to end with 1 where another program holds its first address: $(cat "$dir/relay")"
  says out.0 "rank 0 cannot listen at [::1]:$port: Address already in use; another program or job holds this port"
else
  echo "strangers: no hosts file of a test's own may be used here, so no program holds one of two addresses"
fi

# A caller with no secret, or another one. An address that other hosts reach is one of a network namespace.
port=$((port + 1)) code=0
address=10.99.0.1 rank 0 2
wait $! || code=$?
[ $code -eq 1 ] || fail "expected an address that others reach to be refused without a secret"
says out.0 "export the same WEFT_SECRET to all ranks"
if ip netns add weft-strangers-$$ 2> /dev/null; then
  trap 'ip netns del weft-strangers-$$; jobs -p | xargs -r kill 2> /dev/null || true; rm -rf "$dir"' EXIT
  ip -n weft-strangers-$$ link set lo up
  ip -n weft-strangers-$$ addr add 10.99.0.1/24 dev lo
  export WEFT_SECRET=a-secret-of-two-ranks
  for r in 0 1; do
    address=10.99.0.1 space=weft-strangers-$$ rank $r 2
    pids[r]=$!
  done
  for r in 0 1; do wait ${pids[r]} || { cat "$dir"/out.[01] > "$dir/out"; fail "expected two ranks with a secret to meet at $address"; }; done
  unset WEFT_SECRET
  # A scheduler's job id is a weak secret, and one rank says so.
  port=$((port + 1))
  export SLURM_JOB_ID=$$
  for r in 0 1; do
    address=10.99.0.1 space=weft-strangers-$$ rank $r 2
    pids[r]=$!
  done
  for r in 0 1; do wait ${pids[r]} || { cat "$dir"/out.[01] > "$dir/out"; fail "expected two ranks of a scheduler's job to meet"; }; done
  unset SLURM_JOB_ID
  [ "$(cat "$dir/out.0" "$dir/out.1" | grep -c '^note: the ranks know each other by SLURM_JOB_ID, which other users of this cluster can read')" -eq 1 ] ||
    fail "expected one note about the job id"
else
  echo "strangers: no network namespace may be made here, so no address but the loopback's is tried"
fi
unset address
(umask 077 && echo a-secret-of-this-file > "$dir/secret")
export WEFT_SECRET_FILE=$dir/secret
port=$((port + 1))
rank 0 2
first=$!
WEFT_SECRET=another-secret-than-that rank 1 2
wait $! && fail "expected another secret to be refused"
says out.1 "it has another secret"
grep -q "^note: rank 0 turned away 127.0.0.1:[0-9]*: its proof does not fit" "$dir/out.0" || { cp "$dir/out.0" "$dir/out"; fail "expected a line of rank 0"; }
rank 1 2
wait $! && wait $first || fail "expected the rank with the right secret to come in still"
unset WEFT_SECRET_FILE
# On the loopback a scheduler's job id is not all that ranks prove.
port=$((port + 1))
export SLURM_JOB_ID=$$
rank 0 2
first=$!
rank 1 2
wait $! && wait $first || fail "expected two ranks of a scheduler's job to meet"
! grep -q '^note:' "$dir/out.0" "$dir/out.1" || fail "expected no note about the job id"
echo "strangers: ok"
