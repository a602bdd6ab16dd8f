#!/usr/bin/env bash
# Builds the probes beside this script: build.sh DEST [cudnn_attention] [attention_backward] [overlap]; all without names.
# cudnn_attention: $CUDNN_FRONTEND is the frontend's include folder. overlap: NCCL, cuBLASLt, and MPI as mpicc finds it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dest=${1:?usage: build.sh DEST [probe...]}
shift
[ $# -gt 0 ] || set -- cudnn_attention attention_backward overlap
mkdir -p "$dest"
for probe; do
  case $probe in
    cudnn_attention) flags=(-DCUDNN_FRONTEND_SKIP_JSON_LIB -isystem "${CUDNN_FRONTEND:?}" -lcudnn -lnvrtc) ;;
    attention_backward) flags=(-Xptxas -v) ;;
    overlap) read -ra flags <<<"$(mpicc --showme:incdirs | sed 's/[^ ][^ ]*/-I&/g') -lmpi -lcublasLt -lnccl -lcuda" ;;
    *) echo "build.sh: no probe is named $probe" >&2; exit 1 ;;
  esac
  nvcc -std=c++20 -O3 -lineinfo -gencode=arch=compute_90a,code=sm_90a "$here/$probe.cu" -o "$dest/$probe" "${flags[@]}"
done
