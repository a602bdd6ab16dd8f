#!/usr/bin/env bash
# Compiles the CUDA code that no build of the default architecture has: what replaces instructions of Hopper on earlier GPUs.
# Requires a CUDA toolkit, but no device. With --all it first builds the CUDA library.
# Usage: tests/compile_cuda.sh [--all]
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in
  "" | --all) ;;
  *) sed -n '2,4s/^# //p' "$0" && exit 2 ;;
esac
nvcc=$(command -v nvcc || ls "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" 2> /dev/null || true)
[ -n "$nvcc" ] || { echo "compile_cuda: nvcc is missing; the CUDA code cannot be checked" >&2; exit 1; }
if [ "${1:-}" = --all ]; then
  launcher/setup.sh
  cmake --preset release -DWEFT_CUDA=ON
  cmake --build --preset release --target weft_cuda
fi

mkdir -p build/cuda/include
ln -sfn "$PWD/src" build/cuda/include/weft
for file in device/launch attention/sdpa attention/sdpa_tf32; do
  ccache "$nvcc" -std=c++20 -O2 -gencode=arch=compute_80,code=compute_80 -Ibuild/cuda/include --expt-relaxed-constexpr \
    --compiler-options -Wall,-Wextra,-fPIC -DWEFT_CUDA_WARPGROUPS=0 -c "src/kernels/cuda/$file.cu" -o "build/cuda/${file##*/}.o"
done
