#!/usr/bin/env bash
# Installs, builds and trains a byte-level Llama on a 2 x 2 mesh: four ranks, on two cores in minutes. Then prints a sample
# of what the model writes.
#
#   ./launcher/quickstart.sh                           on Weft's own sources and documents
#   ./launcher/quickstart.sh TEXT [key=value...]       on a text file or folder of yours; any config key can follow
#   ./launcher/quickstart.sh --gpu [TEXT] [key=value...]   on the GPU of this host, as one rank; needs nvcc
set -euo pipefail
caller=$PWD
cd "$(dirname "$0")/.."

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '2,7s/^# \{0,1\}//p' launcher/quickstart.sh
  exit 0
fi
# What can be seen to be wrong is said before minutes of building.
refuse() {
  printf 'quickstart: %s\n' "$1" >&2
  exit 2
}
gpu=no driver=/proc/driver/nvidia/version
nvcc=$(command -v nvcc || ls "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" 2> /dev/null || true)
if [[ ${1:-} == --gpu ]]; then
  gpu=yes
  shift
  [ -e "$driver" ] || refuse "--gpu: this host has no NVIDIA driver, as there is no $driver; install the driver, or leave --gpu out to train on the CPU"
  [ -n "$nvcc" ] || refuse "--gpu: nvcc, which builds the kernels, is neither on PATH nor in CUDA_HOME nor in /usr/local/cuda; install the CUDA toolkit or set CUDA_HOME, or leave --gpu out to train on the CPU"
elif [ -e "$driver" ]; then
  echo "quickstart: this host has a GPU, and this trains on the CPU; --gpu as the first word trains on the GPU" >&2
fi
words=("$@")
if [[ $# -gt 0 && $1 != *=* ]]; then
  words[0]="data.train=$(cd "$caller" && realpath -m -- "$1")"
  [ -e "${words[0]#*=}" ] || refuse "$1: no such text file or folder; name one, or key=value"
fi
for word in "${words[@]:1}"; do
  [[ $word == *=* ]] ||
    refuse "expected one TEXT and then key=value, got \"$word\" too; give several as a folder or data.train=[a,b]"
done

# What the build is told of the GPU. Kernels are built for Hopper unless it is another one.
settings=()
if [ $gpu = yes ]; then
  settings=(-DWEFT_CUDA=ON)
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2> /dev/null | head -n 1 || true)
  [[ ! $capability =~ ^[0-7]\. ]] || refuse "--gpu: the GPU has compute capability $capability, and the kernels need 8.0; leave --gpu out to train on the CPU"
  [[ -z $capability || $capability == 9.0 ]] || settings+=("-DWEFT_CUDA_ARCH=${capability/./}-real")
fi

launcher/setup.sh
log=build/quickstart.log
mkdir -p build
if ! cmake --preset release ${settings[@]+"${settings[@]}"} > "$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
targets=(weft) start=(ranks=4 mesh.dp=2 mesh.tp=2)
if [ $gpu = yes ]; then
  targets+=(weft_cuda)
  start=(device=cuda)
fi
cmake --build --preset release --target "${targets[@]}"

words=(configs/quickstart.yaml "${start[@]}" ${words[@]+"${words[@]}"})
build/release/weft train "${words[@]}"

# A prompt that every tokenizer of bytes can read; of another one nothing is known here.
sample=(tokens=300 temperature=0.8)
[[ " ${words[*]}" == *" data.tokenizer="* ]] || sample+=(prompt="The ")
printf '\nwhat it writes:\n\n'
code=0
build/release/weft generate "${words[@]}" "${sample[@]}" 2> "$log" || code=$?
printf '\n'
cat "$log" >&2
exit $code
