#!/usr/bin/env bash
# Installs dependencies, builds Weft and trains a byte-level Llama with four ranks on a 2 x 2 mesh, which takes minutes on
# two cores. Then prints a sample of text from the model.
#
#   ./launcher/quickstart.sh                           trains on Weft's own sources and documents
#   ./launcher/quickstart.sh TEXT [key=value...]       trains on your text file or folder; any config key can follow
#   ./launcher/quickstart.sh --gpu [TEXT] [key=value...]   trains on the GPU of this host with one rank; requires nvcc
set -euo pipefail
caller=$PWD
cd "$(dirname "$0")/.."

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '2,7s/^# \{0,1\}//p' launcher/quickstart.sh
  exit 0
fi
# Invalid arguments are refused before the build, which takes minutes.
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
  echo "quickstart: this host has a GPU, and this trains on the CPU; --gpu as the first argument trains on the GPU" >&2
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

# CMake settings for the GPU. The default architecture is Hopper (9.0), so another one is passed on.
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

# The default tokenizer of bytes can encode any prompt. Another tokenizer may not, so it gets none.
sample=(tokens=300 temperature=0.8)
[[ " ${words[*]}" == *" data.tokenizer="* ]] || sample+=(prompt="The ")
printf '\nwhat it writes:\n\n'
code=0
build/release/weft generate "${words[@]}" "${sample[@]}" 2> "$log" || code=$?
printf '\n'
cat "$log" >&2
exit $code
