#!/usr/bin/env bash
# The probes of several GPUs of one host, on all of them: captured, bare, buckets, progress, startup, scatter and
# tensor_parallel. One JSON line per measurement on stdout. With OUT set, OUT/multigpu.jsonl has the lines,
# OUT/multigpu.log what the programs printed, and OUT/clocks.csv the clocks, watts and degrees of every GPU. Ends within
# LIMIT seconds, 560 by default: each program has a limit of its own, so one that hangs costs little, and what no longer
# fits is left out. Fails if a program fails or is left out, if a value is wrong, or if NCCL uses NVLink multicast.
#
#   tests/bench/ladder/multigpu.sh [BIN [SECTION...]]    BIN: a folder made by build.sh; by default the probes are built
#   SECTION: first captured bare buckets progress startup pulls windows scatter; all without one, in that order
#            tensor_parallel, only if it is named, as it does not fit in the default LIMIT with the others
#   RANKS: how many GPUs; all by default
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
case ${1:-} in -h | --help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
# shellcheck source=/dev/null
source "$here/../../../launcher/environment.sh"
out=${OUT:-$(mktemp -d)} limit=${LIMIT:-560} failed=0
scratch=$(mktemp -d)
lines=$out/multigpu.jsonl log=$out/multigpu.log
: | tee "$lines" > "$log"

bin=${1:-}
[ $# -eq 0 ] || shift
if [ -z "$bin" ]; then
  bin=$scratch/bin
  "$here/build.sh" "$bin" buckets captured bare progress startup scatter tensor_parallel >> "$log" 2>&1 || { tail -5 "$log" >&2; exit 1; }
fi
sections="first captured bare buckets progress startup pulls windows scatter"
# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $sections
for section; do
  [[ " $sections tensor_parallel " == *" $section "* ]] ||
    { echo "multigpu.sh: no section is named $section; there are $sections tensor_parallel" >&2; exit 2; }
done
ranks=${RANKS:-$(nvidia-smi -L | wc -l)}
[ "$ranks" -ge 2 ] || { echo "multigpu.sh: takes 2 GPUs or more, got $ranks" >&2; exit 2; }

# Libraries that only a Python environment has are found last.
wheels=$(python3 -c 'import glob, site; print(":".join(d for s in site.getsitepackages() for d in glob.glob(s + "/nvidia/*/lib")))' 2> /dev/null)
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/cuda/lib64${wheels:+:$wheels}
export NCCL_NVLS_ENABLE=0 NCCL_GRAPH_MIXING_SUPPORT=0 NCCL_GRAPH_REGISTER=0 CUDA_DEVICE_MAX_CONNECTIONS=32
one_host=(NCCL_SOCKET_IFNAME=lo NCCL_NET=Socket NCCL_IB_DISABLE=1 NCCL_RAS_ENABLE=0)

nvidia-smi topo -m >> "$log" 2>&1
nvidia-smi --query-gpu=timestamp,index,clocks.sm,power.draw,temperature.gpu --format=csv,noheader,nounits -lms 1000 > "$out/clocks.csv" 2>> "$log" &
clocks=$!
trap 'kill "$clocks" 2> /dev/null; rm -rf "$scratch"' EXIT

# probe SECONDS [NAME=VALUE...] PROGRAM [ARGUMENT...]
probe() {
  local most=$1 settings=() left=$((limit - SECONDS)) status
  shift
  while [[ $1 == *=* ]]; do settings+=("$1"); shift; done
  local program=$1
  shift
  if [ "$left" -lt 15 ]; then
    echo "left out, as $left s are left: ${settings[*]} $program $*" | tee -a "$log" >&2
    failed=1
    return
  fi
  echo "== ${settings[*]} $program $*" >> "$log"
  timeout -k 5 "$((most < left ? most : left))" env "${settings[@]}" \
    mpirun -np "$ranks" --bind-to none "$bin/$program" "$@" < /dev/null 2>> "$log" | tee -a "$lines"
  status=$?
  [ "$status" = 0 ] && return
  failed=1
  echo "multigpu.sh: exit $status (124: its time was up) from ${settings[*]} $program $*" | tee -a "$log" >&2
}

# start LABEL ORDER [NAME=VALUE...]
start() {
  local label=$1 order=$2
  shift 2
  probe 30 "$@" startup "$label" "$order" "$(date +%s.%N)"
}

# NCCL says in its log how many channels would use multicast.
no_multicast() {
  local channels
  channels=$(cat "$scratch"/nccl.* 2> /dev/null | grep -o '[0-9]* nvls channels' | sort -u)
  [ "$channels" = "0 nvls channels" ] && return
  echo "multigpu.sh: wanted \"0 nvls channels\" in NCCL's log, got \"$channels\"" | tee -a "$log" >&2
  failed=1
}

for section; do
  case $section in
    first)  # the libraries come from the disk
      start first series "${one_host[@]}" NCCL_DEBUG=INFO "NCCL_DEBUG_FILE=$scratch/nccl.%p"
      no_multicast ;;
    captured)
      for setting in "0 0 0" "1 0 0" "0 1 0" "1 1 0" "0 0 1"; do
        read -r mixing register order <<< "$setting"
        probe 40 "${one_host[@]}" "NCCL_GRAPH_MIXING_SUPPORT=$mixing" "NCCL_GRAPH_REGISTER=$register" \
          "NCCL_LAUNCH_ORDER_IMPLICIT=$order" captured
      done ;;
    bare) probe 60 "${one_host[@]}" NCCL_GRAPH_MIXING_SUPPORT=0 bare ;;
    buckets) probe 220 "${one_host[@]}" buckets nccl ;;
    progress) probe 70 "${one_host[@]}" progress ;;
    startup)
      for _ in 1 2 3; do
        start default series
        start one_host series "${one_host[@]}"
        start one_host series NCCL_RUNTIME_CONNECT=0 "${one_host[@]}"
        start one_host beside "${one_host[@]}"
      done ;;
    pulls) probe 110 "${one_host[@]}" buckets pulls ;;
    windows) probe 60 "${one_host[@]}" buckets windows ;;
    tensor_parallel) probe 400 "${one_host[@]}" tensor_parallel ;;
    scatter)  # its own kernel is compiled for these numbers of ranks
      for count in 2 4 8; do
        [ "$count" -gt "$ranks" ] || ranks=$count probe 120 "${one_host[@]}" scatter
      done ;;
  esac
done

# Medians of the launches that were repeated; wrong values.
python3 - "$lines" << 'PY' | tee -a "$lines" || failed=1
import json, statistics, sys
lines = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")]
launches = {}
for line in lines:
    if line["probe"] == "startup":
        launches.setdefault((line["label"], line["order"], line["runtime_connect"]), []).append(line)
for runs in launches.values():
    median = {k: statistics.median(r[k] for r in runs) if isinstance(v, (int, float)) else v for k, v in runs[0].items()}
    if len(runs) > 1:
        print(json.dumps({**median, "probe": "startup_median", "runs": len(runs)}))
wrong = [line for line in lines if not line.get("error", 0) <= 1]
if wrong:
    sys.exit("\n".join(["multigpu.sh: wrong values:", *map(json.dumps, wrong)]))
PY
echo "multigpu.sh: $SECONDS s, $(grep -c '^{' "$lines") lines in $lines" >&2
exit $failed
