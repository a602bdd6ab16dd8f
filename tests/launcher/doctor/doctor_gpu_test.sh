#!/usr/bin/env bash
# weft doctor on a host with several GPUs, which a library in the place of Weft's CUDA library pretends to be: what keeps
# a run of the program from GPUs, or ends it, is in a line of doctor with the same text.
# Usage: doctor_gpu_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/../prelude.sh"
mkdir "$dir/host" "$dir/none" "$dir/other"
libm=$(ldd "$weft" | awk '/libm\.so/ { print $3 }')
ln -s "$libm" "$dir/host/libcuda.so.1"
ln -s "$libm" "$dir/other/libnccl.so.2"
: > "$dir/none/libnccl.so.2"
# Preloaded, because the program looks into its build folder first.
fake=$build/tests/launcher/doctor/fake_gpus/libweft_cuda.so

# on GPUS FOLDER COMMAND...: on a host with so many GPUs, with a folder that is searched for NCCL.
on() {
  local gpus=$1 folder=$2
  shift 2
  code=0
  within 60 env "FAKE_GPUS=$gpus" "LD_PRELOAD=$fake" \
    "LD_LIBRARY_PATH=$dir/$folder:$dir/host${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$@" > "$dir/out" 2>&1 < /dev/null || code=$?
}
train=("$weft" train configs/gpt2-tiny.yaml data.train=README.md data.val=0 model.layers=1 schedule.warmup_steps=0 train.steps=1)
# found CODE LINE: the exit code of doctor, and a line of it.
found() {
  [ $code -eq "$1" ] && grep -qxF -- "  $2" "$dir/out" || fail "expected exit code $1 and the line '$2'"
}

# refused FOLDER [VARIABLE=VALUE]: a run of two ranks on two GPUs ends with an error that doctor finds too.
refused() {
  local folder=$1 text
  shift
  on 2 "$folder" "$@" "${train[@]}" ranks=2 mesh.dp=2
  text=$(sed -n "s/.*rank 0 (host $host): //p" "$dir/out")
  [ $code -eq 2 ] && [[ $text == *NCCL* ]] || fail "expected a run with NCCL of $folder $* to be refused"
  on 2 "$folder" "$@" "$weft" doctor "$dir"
  found 1 "FAULT NCCL         $text"
  on 2 "$folder" "$@" "$weft" doctor "$dir" ranks=2
  found 1 "FAULT NCCL         rank 0 (host $host): $text"
  found 1 "ok    devices      each of 2 ranks has a GPU"
  echo "shown: $text"
}
refused none
refused other
refused none NCCL_NVLS_ENABLE=1

# More ranks than GPUs take the CPU.
for gpus in 1 2; do
  ranks=$((gpus + 1))
  on $gpus none "${train[@]}" ranks=$ranks mesh.dp=$ranks train.global_batch=$ranks
  text=$(sed -n 's/^note: device auto is the CPU: //p' "$dir/out")
  [ $code -eq 0 ] && [[ $text == *"shows $gpus GPU"* ]] || fail "expected $ranks ranks to run on the CPU"
  on $gpus none "$weft" doctor "$dir" ranks=$ranks
  found 0 "note  devices      device=auto is the CPU, and device=cuda is refused: $text"
  ! grep -q NCCL "$dir/out" || fail "expected no line about NCCL"
  echo "shown: $text"
done
on 1 none "$weft" doctor "$dir"
found 0 "ok    NCCL         not opened: several ranks on GPUs need one each, and Weft finds one here"
echo "doctor_gpu: ok"
