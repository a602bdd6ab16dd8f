#!/usr/bin/env bash
# Ranks on hosts of one name, which network namespaces stand in for, in a training run whose network is cut: between
# two ranks, and around one. The lines name both ends, or the one. The one itself reaches nobody, so its own line says
# that another rank is silent.
# Usage: partition_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built, or where no network namespaces
# may be made, and says so.
source "$(dirname "$0")/../launcher/prelude.sh"
source "$(dirname "$0")/namespaces.sh"
make_hosts 3

timeout_s=3
config=(configs/gpt2-tiny.yaml data.train=README.md data.val=0 model.layers=1 schedule.name=constant
  schedule.warmup_steps=0 train.steps=100000 "dist.timeout_s=$timeout_s" mesh.dp=3)
# cut NAME WAY HOSTS PATTERN: a run whose HOSTS can no longer reach each other (isolate) or anybody (unplug) after its
# third step. The pattern is for the lines of the ranks that can still reach one.
cut() {
  local case=$dir/$1 rank begin code=0 pids=()
  mkdir "$case"
  export WEFT_SECRET=secret-of-$1-$$
  for rank in 0 1 2; do
    RANK=$rank WORLD_SIZE=3 MASTER_ADDR=10.98.0.1 MASTER_PORT=29500 within 60 ip netns exec "$(host_space "$rank")" \
      "$weft" train "${config[@]}" "log.jsonl=$case/log" > "$case/out.$rank" 2>&1 < /dev/null &
    pids+=($!)
  done
  for _ in $(seq 600); do
    ! grep -q '"step":3,' "$case/log" 2> /dev/null || break
    sleep 0.05
  done
  begin=$(now)
  for rank in $3; do "$2" "$rank"; done
  for rank in "${pids[@]}"; do wait "$rank" || code=$?; done
  for rank in 0 1 2; do [[ $2 == unplug && $rank == "$3" ]] || cat "$case/out.$rank"; done > "$dir/out"
  judged $code $((($(now) - begin) / 1000000)) $(((timeout_s + 2) * 1000 + ${WEFT_TEST_SLACK_MS:-3000})) "$4"
  echo "shown: $1: ended $((($(now) - begin) / 1000000)) ms after the cut: $(grep -m 1 '^weft: ' "$dir/out")"
  for rank in 0 1 2; do join "$rank"; done
}
who() { echo "rank $1 \\(host $host, pid [0-9]+\\)"; }
cut between_1_and_2 isolate "1 2" "$(who 1) and $(who 2) lost their connection first: .*all_[a-z]+ #[0-9]+ on (dp|world)"
cut between_0_and_2 isolate "0 2" "$(who 0) and $(who 2) lost their connection first: .*all_[a-z]+ #[0-9]+ on (dp|world)"
# From here on the third host has no network.
cut around_2 unplug 2 "$(who 2) fell silent first: .*all_[a-z]+ #[0-9]+ on (dp|world)"
cp "$dir/around_2/out.2" "$dir/out"
grep -Eq "^weft: ($(who 0)|$(who 1)) fell silent first: " "$dir/out" || fail "expected a line of the third rank"

# The ranks know that hosts of one name are not one.
export WEFT_SECRET=secret-of-doctor-$$
for rank in 0 1; do
  RANK=$rank WORLD_SIZE=2 MASTER_ADDR=10.98.0.1 MASTER_PORT=29501 within 60 ip netns exec "$(host_space "$rank")" \
    "$weft" doctor "$dir" > "$dir/out.$rank" 2>&1 < /dev/null &
done
wait
cat "$dir"/out.[01] > "$dir/out"
grep -q '2 on 2 hosts' "$dir/out" || fail "expected two hosts"
echo "partition: ok"
