#!/usr/bin/env bash
# Packs the program into a relocatable archive that runs on another Linux: bin/ (weft, and the CUDA library if it is built)
# and lib/ (the libraries that they use). The C and C++ runtimes, MPI, CUDA, cuDNN and NCCL are not included, because they
# must match the machine. bin/weft finds lib/ wherever the archive is unpacked.
#
#   launcher/bundle.sh [OUT.tar.gz [PROGRAM...]]     PROGRAM: also includes this program of the build folder, e.g. a test
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in -h | --help) sed -n '2,6s/^# \{0,1\}//p' launcher/bundle.sh; exit 0 ;; esac
build=${WEFT_BUILD:-build/release}
out=${1:-build/weft.tar.gz}
[ $# -eq 0 ] || shift
if [ ! -x "$build/weft" ]; then
  echo "bundle: $build/weft is missing; build it first: cmake --preset release && cmake --build --preset release" >&2
  exit 1
fi

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage/weft/bin" "$stage/weft/lib"
programs=("$build/weft")
[ ! -e "$build/libweft_cuda.so" ] || programs+=("$build/libweft_cuda.so")
programs+=("$@")

# OpenBLAS is opened at run time by its soname, so ldd does not list it.
openblas=$(sed -n 's/^weft_openblas_LIBRARY:[A-Z]*=//p' "$build/CMakeCache.txt")
cp -L "$openblas" "$stage/weft/lib/libopenblas.so.0"

# Libraries that the machine must provide.
own='^(linux-vdso|ld-linux|libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|libmpi|libopen-(rte|pal)|libpmix|libhwloc|libevent|libuc[mpst]|libcuda|libcudart|libcublas|libcublasLt|libcudnn|libnccl|libnvrtc|libudev|libcap|libz|libnuma|libpciaccess|libXNVCtrl|libX|libxcb|libbsd|libmd)[.a-zA-Z0-9_-]*\.so'
cp "${programs[@]}" "$stage/weft/bin/"
for user in "${programs[@]}" "$openblas"; do
  ldd "$user" | awk '$3 ~ "^/" { print $3 }'
done | sort -u | while read -r library; do
  name=$(basename "$library")
  [[ $name =~ $own && $name != libzstd.* ]] || cp -L "$library" "$stage/weft/lib/$name"
done
find "$stage/weft" -type f -exec strip --strip-unneeded {} +
mkdir -p "$(dirname "$out")"
tar -C "$stage" -czf "$out" weft
cuda='without CUDA: build all for it, cmake --build --preset release'
[ ! -e "$stage/weft/bin/libweft_cuda.so" ] || cuda='with CUDA'
echo "$out: $(du -h "$out" | cut -f1) ($(ls "$stage/weft/lib" | wc -l) libraries, $cuda)"
