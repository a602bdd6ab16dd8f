#!/usr/bin/env bash
# One rank of a run on several GPUs dies, is suspended, hangs or has an error before a replay of its step, or is out of
# step in the first one, which is no replay. The run ends with a code that is not 0, within 10 s of a death or an error and
# dist.timeout_s + 2 s of the rest; a line names that rank, and the collective in which the others waited with its module
# and line; and the GPUs are free again.
#
#   tests/failure/multigpu_failure.sh WEFT RANKS [DEVICE]      DEVICE: cuda, or cpu to try the script itself
#
# ONLY=PATTERN runs the cases whose names match the regular expression, such as "throw mesh.tp".
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
weft=$(realpath "$1") ranks=$2 device=${3:-cuda} timeout_s=5
cd "$(dirname "$0")/../.."
# shellcheck source=/dev/null
source launcher/environment.sh
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
host=$(hostname) shown=0 slack=0
[ "$device" = cuda ] || slack=1500  # ranks share the cores of the machine
config=(configs/gpt2-tiny.yaml data.train=README.md data.val=0 schedule.name=constant schedule.warmup_steps=0
  train.steps=100000 "dist.timeout_s=$timeout_s" "device=$device")
cat > "$dir/rank.sh" <<'END'
#!/usr/bin/env bash
[ "$OMPI_COMM_WORLD_RANK" = "$ODD" ] || unset WEFT_FAULT
exec "$@"
END
chmod +x "$dir/rank.sh"

fail() {
  echo "multigpu_failure: $1; output:"
  cat "$dir/out"
  exit 1
}
# used_mib: the memory in use on each GPU, a line each. In a container the processes of a GPU may not be listed, its memory is.
used_mib() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits; }
[ "$device" != cuda ] || idle_mib=$(used_mib)
# gpus_free: within 5 s nobody computes on them, and no more memory is in use than before the first case. A rank takes 500 MiB
# and more.
gpus_free() {
  [ "$device" = cuda ] || return 0
  for _ in $(seq 50); do
    if [ -z "$(nvidia-smi --query-compute-apps=pid --format=csv,noheader)" ] &&
      paste <(echo "$idle_mib") <(used_mib) | awk '$2 > $1 + 100 { busy = 1 } END { exit busy }'; then
      return 0
    fi
    sleep 0.1
  done
  return 1
}
# faulty NAME MESH RANK ACTION:NTH LIMIT_S PATTERN
faulty() {
  local code=0 pid moment ms
  [[ $1 =~ ${ONLY:-} ]] || return 0
  ODD=$3 WEFT_FAULT=collective:$4 timeout --kill-after=5 120 mpirun -np "$ranks" --bind-to none "$dir/rank.sh" "$weft" train \
    "${config[@]}" $2 > "$dir/out" 2>&1 < /dev/null || code=$?
  ms=$(date +%s%N)
  read -r pid moment < <(sed -nE "s/^fault: rank $3 pid ([0-9]+) at ([0-9]+) since 1970: .*/\1 \2/p" "$dir/out") ||
    fail "$1: expected a line of the fault"
  ms=$(((ms - moment) / 1000000))
  [ $code -ne 0 ] || fail "$1: expected the run to fail"
  [ $ms -le $(($5 * 1000 + ${WEFT_TEST_SLACK_MS:-$slack})) ] || fail "$1: expected the end within $5 s, got $ms ms"
  grep -Eq "^weft: rank $3 \(host $host, pid $pid\) $6" "$dir/out" || fail "$1: expected \"rank $3 ... $6\""
  gpus_free || fail "$1: expected free GPUs"
  shown=$((shown + 1))
  echo "shown: $1 on $ranks ${device}s: ended $ms ms after it (limit $5 s): $(grep -m 1 '^weft: ' "$dir/out")"
}
at=' at [a-z0-9_.]+ [a-z_]+\.cc:[0-9]+' late=$((timeout_s + 2))
call="(all|reduce)_[a-z]+ #[0-9]+ on (dp|tp|world)" last=$((ranks - 1))
meshes=("mesh.dp=$ranks" "mesh.tp=$ranks")
[ "$device" = cpu ] || meshes+=("mesh.dp=$ranks parallel.fsdp=full parallel.gather=copy"
  "mesh.tp=$ranks parallel.symmetric_memory=true")
[ "$ranks" -lt 4 ] || meshes+=("mesh.dp=2 mesh.tp=2 parallel.fsdp=full")  # communicators of two axes
for mesh in "${meshes[@]}"; do
  faulty "kill $mesh" "$mesh" $last kill:500 10 "died first: .*$call"
  faulty "stop $mesh" "$mesh" $last stop:500 $late "was suspended first: $call, .*$at"
  faulty "hang $mesh" "$mesh" 0 hang:500 $late "failed first: .*$call.*$at"
  faulty "throw $mesh" "$mesh" 0 throw:500 10 "failed first: the error that WEFT_FAULT asks for; its last call: $call"
done
for mesh in "${meshes[@]:0:2}"; do
  faulty "skip $mesh" "$mesh" $last skip:6 $late "failed first: $call"
done
[ $shown -gt 0 ] || { echo "multigpu_failure: no case matches \"$ONLY\"" >&2; exit 2; }
echo "multigpu_failure: ok"
