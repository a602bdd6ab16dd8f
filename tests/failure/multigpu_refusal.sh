#!/usr/bin/env bash
# A job that cannot use the GPUs of its host: there are fewer than ranks, NCCL_NVLS_ENABLE is 1, or NCCL is missing or another
# library. It ends with exit code 2 and one line that says what to do. Where each rank has a GPU, device=auto ends so too.
# A run on one GPU does not open NCCL. weft doctor finds what ends a run with device=auto, and NCCL itself.
#
#   tests/failure/multigpu_refusal.sh WEFT RANKS
set -euo pipefail
[ $# -eq 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
weft=$(realpath "$1") ranks=$2
cd "$(dirname "$0")/../.."
# shellcheck source=/dev/null
source launcher/environment.sh
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# refused TEXT RANKS DEVICE [VARIABLE=VALUE...]
refused() {
  local text=$1 np=$2 device=$3 code=0
  shift 3
  env "$@" timeout --kill-after=5 60 mpirun -np "$np" --oversubscribe --bind-to none "$weft" train configs/gpt2-tiny.yaml \
    data.train=README.md train.steps=1 schedule.warmup_steps=0 "mesh.dp=$np" "device=$device" > "$dir/out" 2>&1 < /dev/null || code=$?
  if [ $code -ne 2 ] || [ "$(grep -cF -- "$text" "$dir/out")" -ne 1 ]; then
    echo "multigpu_refusal: expected exit code 2 and one line with \"$text\" for device=$device $*, got $code; output:"
    cat "$dir/out"
    exit 1
  fi
  echo "shown: $(grep -F -- "$text" "$dir/out")"
}
# found TEXT CODE [VARIABLE=VALUE...]: weft doctor on `ranks` ranks ends with the code, and TEXT matches a line.
found() {
  local text=$1 wanted=$2 code=0
  shift 2
  env "$@" timeout --kill-after=5 60 mpirun -np "$ranks" --bind-to none "$weft" doctor "$dir" > "$dir/out" 2>&1 < /dev/null || code=$?
  if [ $code -ne "$wanted" ] || ! grep -q -- "^  $text" "$dir/out"; then
    echo "multigpu_refusal: expected exit code $wanted and a line \"$text\" of weft doctor for $*, got $code; output:"
    cat "$dir/out"
    exit 1
  fi
  echo "shown: $(grep -- "^  $text" "$dir/out")"
}
gpus=$(nvidia-smi -L | wc -l)
refused "expected a GPU for each rank, got one for ranks 0 and $gpus: host $(hostname) shows $gpus GPU" $((gpus + 1)) cuda
mkdir "$dir/none" "$dir/other"
: > "$dir/none/libnccl.so.2"
ln -s "$(ldd "$weft" | awk '/libm\.so/ { print $3 }')" "$dir/other/libnccl.so.2"
none="LD_LIBRARY_PATH=$dir/none${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
other="LD_LIBRARY_PATH=$dir/other${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
for device in cuda auto; do
  refused "NCCL_NVLS_ENABLE: expected 0" "$ranks" $device NCCL_NVLS_ENABLE=1
  refused "$ranks ranks on GPUs talk through NCCL, which cannot be opened" "$ranks" $device "$none"
  refused "NCCL: expected version " "$ranks" $device "$other"
done
fault="FAULT NCCL  .*"
found "ok    devices      each of $ranks ranks has a GPU" 0 A=1
found "ok    NCCL         [0-9.]*, .*libnccl" 0 A=1
found "${fault}NCCL_NVLS_ENABLE: expected 0" 1 NCCL_NVLS_ENABLE=1
found "$fault$ranks ranks on GPUs talk through NCCL, which cannot be opened" 1 "$none"
found "${fault}NCCL: expected version " 1 "$other"
LD_DEBUG=files LD_DEBUG_OUTPUT=$dir/opened timeout --kill-after=5 60 "$weft" train configs/gpt2-tiny.yaml data.train=README.md \
  train.steps=1 schedule.warmup_steps=0 device=cuda > "$dir/out" 2>&1 < /dev/null
if ! grep -q 'file=.*libweft_cuda' "$dir"/opened.* || grep 'file=.*libnccl' "$dir"/opened.*; then
  echo "multigpu_refusal: expected a run on one GPU to open Weft's CUDA library and no NCCL"
  exit 1
fi
echo "shown: one GPU: no library of NCCL is opened"
echo "multigpu_refusal: ok"
