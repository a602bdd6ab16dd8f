#!/usr/bin/env bash
# Builds the probes in the folder of this script: build.sh DEST [cudnn_attention] [overlap] [buckets]
# [captured] [bare] [progress] [startup] [scatter] [grouped] [tensor_parallel] [products] [epilogues] [cupti_counter]
# [cupti_kernels]; all without names. tensor_parallel and products have folders.
# cudnn_attention: $CUDNN_FRONTEND is the frontend's include folder, by default the one that launcher/setup.sh fetches.
# overlap, buckets, captured, bare, progress, startup, scatter, grouped and tensor_parallel: NCCL, cuBLASLt, and MPI as
# mpicc finds it. products and epilogues: cuBLASLt; products also the driver. cupti_counter and cupti_kernels are libraries,
# DEST/libNAME.so, with CUPTI from the toolkit.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dest=${1:?usage: build.sh DEST [probe...]}
shift
[ $# -gt 0 ] || set -- cudnn_attention overlap buckets captured bare progress startup scatter grouped tensor_parallel products epilogues cupti_counter cupti_kernels
root=$(cd "$here/../../.." && pwd)
include=$(mktemp -d)
trap 'rm -r "$include"' EXIT
ln -s "$root/src" "$include/weft"  # as in Weft's own builds
mkdir -p "$dest"
toolkit=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
for probe; do
  if [[ $probe == cupti_* ]]; then
    ${CXX:-g++} -std=c++20 -O2 -Wall -Wextra -fPIC -shared -isystem "$toolkit/include" -isystem "$toolkit/extras/CUPTI/include" \
      "$here/cupti/$probe.cc" -o "$dest/lib$probe.so" -L"$toolkit/extras/CUPTI/lib64" -L"$toolkit/lib64" -L"$toolkit/lib" -lcupti -ldl
    continue
  fi
  case $probe in
    cudnn_attention) flags=(-DCUDNN_FRONTEND_SKIP_JSON_LIB -isystem "${CUDNN_FRONTEND:-$here/../../../build/deps/cudnn-frontend/include}" -lcudnn -lnvrtc) ;;
    products) flags=("$root/src/kernels/cuda/product/algorithm_search.cc" -lcublasLt -lcuda -ldl) ;;
    epilogues) flags=(-lcublasLt -ldl) ;;
    overlap | buckets | captured | bare | progress | startup | scatter | grouped | tensor_parallel)
      read -ra flags <<<"$(mpicc --showme:incdirs | sed 's/[^ ][^ ]*/-I&/g') -lmpi -lcublasLt -lnccl -lcuda"
      flags+=(-DOMPI_SKIP_MPICXX) ;;
    *) echo "build.sh: no probe is named $probe" >&2; exit 1 ;;
  esac
  source=$here/$probe.cu
  [ -e "$source" ] || source=$here/$probe/$probe.cu
  nvcc -std=c++20 -O3 -lineinfo -I"$include" -gencode=arch=compute_90a,code=sm_90a "$source" -o "$dest/$probe" "${flags[@]}"
done
