#!/usr/bin/env bash
# mpirun over hosts of one name, which network namespaces stand in for: the ranks find each other, and when a host is
# lost mpirun ends soon, whether the ranks notice it first or mpirun does.
# Usage: lost_host_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built, or where no network namespaces
# may be made, and says so.
source "$(dirname "$0")/../launcher/prelude.sh"
source "$(dirname "$0")/namespaces.sh"
make_hosts 3

code=0
mpirun_on_hosts "$weft" doctor "$dir" > "$dir/out" 2>&1 < /dev/null || code=$?
[ $code -eq 0 ] || fail "expected mpirun to start ranks on three hosts"
grep -q '3 on 3 hosts' "$dir/out" || fail "expected three hosts"

config=(configs/gpt2-tiny.yaml data.train=README.md data.val=0 model.layers=1 schedule.name=constant
  schedule.warmup_steps=0 train.steps=1000000 mesh.dp=3)
# train TIMEOUT_S: in the background; its exit code in code.TIMEOUT_S.
train() {
  local code=0
  mpirun_on_hosts "$weft" train "${config[@]}" "dist.timeout_s=$1" "log.jsonl=$dir/log.$1" > "$dir/out.$1" 2>&1 \
    < /dev/null || code=$?
  echo "$code $(now)" > "$dir/code.$1"
}
timeouts=(5 600)  # the ranks notice it first, or mpirun does
for timeout_s in "${timeouts[@]}"; do train "$timeout_s" & done
for timeout_s in "${timeouts[@]}"; do
  for _ in $(seq 800); do
    ! grep -q '"step":3,' "$dir/log.$timeout_s" 2> /dev/null || break
    sleep 0.05
  done
done
begin=$(now)
unplug 2
wait
for timeout_s in "${timeouts[@]}"; do
  cp "$dir/out.$timeout_s" "$dir/out"
  grep -q '"step":3,' "$dir/log.$timeout_s" || fail "expected three hosts to train"
  read -r code end < "$dir/code.$timeout_s"
  ms=$(((end - begin) / 1000000))
  [ "$code" -ne 0 ] || fail "expected the job to fail"
  [ $ms -le 50000 ] || fail "expected the job to end within 50 s of the loss, got $ms ms"
  grep -q 'lost communication with a remote daemon' "$dir/out" || fail "expected mpirun to notice the loss"
  echo "shown: dist.timeout_s=$timeout_s: mpirun ended $ms ms after the loss: $(grep -m 1 '^weft: ' "$dir/out")"
done
grep -Eq "^weft: rank 2 \\(host $host, pid [0-9]+\\) fell silent first: " "$dir/out.5" ||
  fail "expected the lost rank to be named"
! grep '^weft: ' "$dir/out.600" | grep -vq 'rank 2 (host' || fail "expected no line without the lost rank"
echo "lost host: ok"
