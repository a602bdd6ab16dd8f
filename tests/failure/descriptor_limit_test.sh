#!/usr/bin/env bash
# Few file descriptors, on one rank of four or on all: the job succeeds, or each line that names a rank or a reason names
# the limit. A soft limit is raised by the ranks themselves.
# Usage: descriptor_limit_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/../launcher/prelude.sh"
source "$root/tests/failure/cases.sh"
config=(configs/gpt2-tiny.yaml data.train=README.md data.val=0 model.layers=1 schedule.warmup_steps=0 train.steps=1
  mesh.dp=2 mesh.tp=2 dist.timeout_s=20)
# limited SOFT HARD RANK|all: four ranks as torchrun starts them, which ends the others soon when one fails; `codes` of all.
limited() {
  local rank soft hard pids=()
  codes=""
  for rank in 0 1 2 3; do
    soft=4096 hard=4096
    [ "$3" != all ] && [ "$3" != $rank ] || { soft=$1 hard=$2; }
    (
      ulimit -Sn "$soft"
      ulimit -Hn "$hard"
      RANK=$rank WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port exec timeout --kill-after=5 60 "$weft" train \
        "${config[@]}" "checkpoint.dir=$dir/c" > "$dir/out.$rank" 2>&1 < /dev/null
    ) &
    pids+=($!)
  done
  for rank in 0 1 2 3; do
    code=0
    wait -n || code=$?
    codes+="$code "
    [ $code -eq 0 ] || { sleep 0.5 && kill "${pids[@]}" 2> /dev/null; } || true
  done
  cat "$dir"/out.? > "$dir/out"
}
# limit RANK|all LIMIT: as the descriptors of the rank. The job succeeds, or the limit is named.
limit() {
  local rank=$1 limit=$2
  limited "$limit" "$limit" "$rank"
  if [ "$codes" = "0 0 0 0 " ]; then
    grep -q '^done: 1 step' "$dir/out" || fail "limit $limit of rank $rank: expected the job to succeed"
    return
  fi
  [ "$limit" != 64 ] || fail "expected a limit of 64 to do for rank $rank"
  grep -Eq "needs up to [0-9]+ file descriptors in this process, and its limit is $limit " "$dir/out" ||
    fail "limit $limit of rank $rank: expected the limit to be named, got exit codes $codes"
  [ "$rank" = all ] || ! grep -Eq 'rank [0-9]+' "$dir/out" || ! grep -E 'rank [0-9]+ \(' "$dir/out" | grep -Fvq "rank $rank (" ||
    fail "limit $limit of rank $rank: expected no other rank to be named"
}
soft_limit() {
  limited 12 4096 all
  [ "$codes" = "0 0 0 0 " ] || fail "expected ranks to raise their soft limit, got exit codes $codes"
}
for rank in 0 2 all; do
  for limit in 8 12 14 16 20 24 28 36 48 64; do in_background "limit-$limit-of-$rank" limit $rank $limit; done
done
in_background soft-limit soft_limit
collect

# Strangers that say nothing take no descriptor that two ranks need: 50 of them, before the second rank comes.
port=$((port + 1))
rm -f "$dir"/c -r
pids=()
for rank in 0 1; do
  (
    [ $rank -eq 0 ] || sleep 2
    ulimit -n 48
    RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port exec timeout --kill-after=5 60 "$weft" train \
      "${config[@]/mesh.tp=2/mesh.tp=1}" > "$dir/out.$rank" 2>&1 < /dev/null
  ) &
  pids+=($!)
done
for _ in $(seq 100); do [ -z "$(ss -Hltn "sport = :$port")" ] || break; sleep 0.05; done
for _ in $(seq 50); do exec {stranger}<> "/dev/tcp/127.0.0.1/$port"; done
cat "$dir"/out.? > "$dir/out"
for pid in "${pids[@]}"; do
  code=0
  wait "$pid" || code=$?
  cat "$dir"/out.[01] > "$dir/out"
  [ $code -eq 0 ] || fail "limit 48 of two ranks with 50 silent strangers: expected the job to succeed"
done

# As many ranks as the variables may name: refused, or waited for in a short line.
code=0
RANK=0 WORLD_SIZE=1000000 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port timeout --kill-after=5 8 "$weft" train "${config[@]}" \
  > "$dir/out" 2>&1 < /dev/null || code=$?
[ "$(wc -c < "$dir/out")" -le 400 ] || fail "expected a short line about a million ranks"
grep -Eq 'a job of 1000000 ranks needs up to [0-9]+ file descriptors|for these of the 1000000 ranks: 1-999999$' "$dir/out" ||
  fail "expected a word about a million ranks"
echo "descriptor limits: ok"
