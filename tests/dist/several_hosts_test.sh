#!/usr/bin/env bash
# Training over 2 and 4 hosts, which network namespaces stand in for, at the ends of slow cables. Shown:
#   - started by mpirun, or by no launcher but with the variables that Slurm sets, the losses are bit for bit those of
#     the same mesh on one host;
#   - a step takes the time that the collectives of `weft plan` need at the rate and the latency of the cables;
#   - a rank that is killed on another host is named with that host.
# Usage: several_hosts_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built, or where no network
# namespaces may be made or no rates limited, and says so.
source "$(dirname "$0")/../launcher/prelude.sh"
source "$(dirname "$0")/../failure/namespaces.sh"
make_hosts 4
name_hosts

common=(configs/gpt2-tiny.yaml data.train=README.md data.val=0 schedule.name=constant schedule.warmup_steps=0
  train.steps=8 mesh.dp=2 mesh.tp=2 device=cpu)
# losses NAME: of each step of a run, and the norms of its gradients.
losses() { sed -nE 's/.*"event":"step",("step":[0-9]+,"loss":[^,]*,"grad_norm":[^,]*),.*/\1/p' "$dir/log.$1"; }
# step_ms NAME: the median of a run's steps, without the first three, in which connections warm up.
step_ms() {
  sed -nE 's/.*"event":"step","step":([0-9]+),.*"ms":([0-9.e+-]+).*/\1 \2/p' "$dir/log.$1" | awk '$1 > 3 { print $2 }' |
    sort -g | awk '{ ms[NR] = $1 } END { print ms[int((NR + 1) / 2)] }'
}
# ended_well NAME CODE: with a loss for each step, those of the run on one host.
ended_well() {
  code=$2
  cat "$dir"/out."$1"* > "$dir/out"
  [ "$code" -eq 0 ] || fail "expected the run $1 to succeed"
  [ "$(losses "$1" | wc -l)" -eq 8 ] || fail "expected 8 steps of the run $1"
  diff <(losses "${1%.*}.one_host") <(losses "$1") > "$dir/out" || fail "expected the losses of one host (<) from $1 (>)"
}

# cost AXES SHARING MBIT MS WORDS...: of the collectives of a step over these axes, which have two ranks each: how many
# milliseconds they need, how many times a rank waits for the latency, and how many bytes it sends. gloo_collectives.cc has
# the messages of a collective; one above 16 KiB waits for the receiver's permit too (socket_pair.h). SHARING ranks send
# through one cable at a time, so their bytes add up.
cost() {
  "$weft" plan "${common[@]}" "${@:5}" --json 2> "$dir/err" |
    sed -nE 's/.*"op":"([a-z_]+)","axis":"([a-z]+)","bytes":([0-9]+),.*"times":([0-9]+),.*/\1 \2 \3 \4/p' |
    awk -v axes="$1" -v sharing="$2" -v mbit="$3" -v ms="$4" '
      function send(messages, each) { waits += messages * (each > 16384 ? 2 : 1); bytes += messages * each }
      index(axes, $2) == 0 { next }
      $1 == "all_reduce" && $3 > 8192 { send(2 * $4, $3 / 2); next }
      $1 == "all_reduce" || $1 == "all_gather" { send($4, $3); next }
      $1 == "reduce_scatter" { send($4, $3 / 2); next }
      { unknown = 1 }
      END { if (waits && !unknown) printf "%.1f %d %d\n", waits * ms + sharing * bytes * 8 / mbit / 1e3, waits, bytes }'
}
# timed NAME ONE_HOST AXES SHARING MBIT MS WORDS...: a step of the run NAME takes what it takes on one host and what its
# collectives cost, within a factor of 3: other work on this machine delays ranks. A quick machine is at 0.9 to 1.05; below
# 1 where the two ranks of a host overlap, one sending while the other waits.
timed() {
  local ms alone cost waits bytes
  ms=$(step_ms "$1") alone=$(step_ms "$2")
  read -r cost waits bytes < <(cost "${@:3}") || fail "expected a plan whose collectives have known costs"
  awk -v ms="$ms" -v alone="$alone" -v cost="$cost" -v what="$1 at $5 Mbit/s and $6 ms" -v waits="$waits" \
    -v bytes="$bytes" 'BEGIN {
      printf "shown: %s: %.0f ms per step, %.2f of %.0f expected: %.0f on one host, %.0f for %d waits and %d bytes of a rank\n",
        what, ms, ms / (alone + cost), alone + cost, alone, cost, waits, bytes
      exit !(ms < 3 * (alone + cost) && ms > (alone + cost) / 3)
    }' || fail "expected a step of $1 to take between a third and three times of what is expected"
}

# one_host NAME WORDS...: the same mesh on this host.
one_host() {
  local code=0
  within 100 mpirun -np 4 "$weft" train "${common[@]}" "${@:2}" "log.jsonl=$dir/log.$1.one_host" \
    > "$dir/out.$1.one_host" 2>&1 < /dev/null || code=$?
  ended_well "$1.one_host" $code
}
# by_mpirun NAME HOSTS WORDS...: 4 ranks on as many hosts.
by_mpirun() {
  local code=0
  mpi_hosts=$2 mpi_slots=$((4 / $2)) mpirun_on_hosts sh -c 'echo $$ > "$0.$OMPI_COMM_WORLD_RANK"; exec "$@"' "$dir/pid.$1" \
    "$weft" train "${common[@]}" "${@:3}" "log.jsonl=$dir/log.$1" > "$dir/out.$1" 2>&1 < /dev/null || code=$?
  return $code
}
# by_slurm NAME HOSTS WORDS...: the same as the tasks of a job step, whose number is STEP.
by_slurm() {
  local rank tasks=$((4 / $2)) nodes="node[1-$2]" pids=() code=0
  for rank in 0 1 2 3; do
    SLURM_JOB_ID=$$ SLURM_STEP_ID=$STEP SLURM_JOB_NODELIST=$nodes SLURM_STEP_NODELIST=$nodes SLURM_NTASKS=4 \
      SLURM_PROCID=$rank SLURM_NODEID=$((rank / tasks)) SLURM_LOCALID=$((rank % tasks)) within 100 \
      "$dir/enter" $((rank / tasks)) sh -c 'echo $$ > "$0"; exec "$@"' "$dir/pid.$1.$rank" \
      "$weft" train "${common[@]}" "${@:3}" "log.jsonl=$dir/log.$1" > "$dir/out.$1.$rank" 2>&1 < /dev/null &
    pids+=($!)
  done
  for rank in "${pids[@]}"; do wait "$rank" || code=$?; done
  return $code
}
# killed BY: a run on two hosts, whose last rank is killed on the second one.
killed() {
  local name=killed.$1 begin ms pid job
  "by_$1" "$name" 2 train.steps=100000 dist.timeout_s=5 &
  job=$!
  for _ in $(seq 800); do
    ! grep -q '"step":3,' "$dir/log.$name" 2> /dev/null || break
    sleep 0.05
  done
  pid=$(cat "$dir/pid.$name.3")
  begin=$(now) code=0
  kill -KILL "$pid"
  wait "$job" || code=$?
  ms=$((($(now) - begin) / 1000000))
  cat "$dir/out.$name"* > "$dir/out"
  judged $code $ms $((10000 + ${WEFT_TEST_SLACK_MS:-3000})) \
    "rank 3 \\(host node2, pid $pid\\) died first: .*all_[a-z]+ #[0-9]+ on (dp|tp|world)"
  echo "shown: $1: ended $ms ms after it: $(grep -m 1 '^weft: ' "$dir/out")"
}

# run_on_hosts BY NAME HOSTS WORDS...: a run with the losses of the run NAME on one host.
run_on_hosts() {
  local code=0
  "by_$1" "$2.$1" "$3" "${@:4}" || code=$?
  ended_well "$2.$1" $code
}

# Each rank on a host of its own: both axes go through the cables.
slow_links 100 10
one_host plain
run_on_hosts mpirun plain 4
timed plain.mpirun plain.one_host "dp tp" 1 100 10
# Two hosts with two ranks each: tensor parallel within a host, and the data parallel ranks of both share a cable.
slow_links 10 1
full=(parallel.fsdp=full)
one_host full "${full[@]}"
run_on_hosts mpirun full 2 "${full[@]}"
timed full.mpirun full.one_host dp 2 10 1 "${full[@]}"
STEP=1 run_on_hosts slurm full 2 "${full[@]}"
timed full.slurm full.one_host dp 2 10 1 "${full[@]}"
killed mpirun
STEP=2 killed slurm
echo "several hosts: ok"
