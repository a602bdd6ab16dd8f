#!/usr/bin/env bash
# The rules of the house, checked in the sources: who may include whom, and what stays where.
# Usage: layering_test.sh ROOT. First the rules are tried on small breaches, each of which must be found.
# shellcheck disable=SC2046  # no source has a space in its path
set -euo pipefail
export LC_ALL=C

sources() { find "$@" -type f \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) 2>/dev/null | sort; }

# breach RULE PATTERN FILE...: prints "file:line: rule" for every line of the files that matches.
breach() {
  local rule=$1 pattern=$2
  shift 2
  [ $# -eq 0 ] || grep -nHE -e "$pattern" "$@" | sed "s|^\([^:]*:[0-9]*\):.*|\1: $rule|" || true
}

# may_include FOLDER OTHERS: sources of FOLDER include no folder of the house but itself and OTHERS.
may_include() {
  local folder=$1 others=$2 own banned=""
  own=$(basename "$folder")
  for house in core kernels dist parallel launcher; do
    [[ " $own $others " == *" $house "* ]] || banned+="${banned:+|}$house"
  done
  breach "$own may include only itself${others:+ and $others}" "^ *# *include *[\"<](weft/)?($banned)/" $(sources "$folder")
}

# only_in RULE PATTERN ALLOWED: the pattern appears in no source but those whose path matches ALLOWED.
only_in() {
  breach "$1" "$2" $(sources src launcher | grep -vE "$3" || true)
}

check() {
  cd "$1"
  may_include src/core ""
  may_include src/kernels "core"
  may_include src/dist "core"
  may_include src/parallel "core dist"
  breach "a header of Weft's is spelled weft/ and its path in src" '^ *# *include *[<"](\.|(core|dist|kernels|parallel)/)' $(sources src launcher)
  only_in "CUDA headers stay in kernels/cuda and the NCCL group" \
    '^ *# *include *[<"](cuda|cublas|cudnn|nvrtc|nvml|nccl|cooperative_groups|cub/|thrust/)' '^src/(kernels/cuda/|dist/group/nccl/)'
  only_in "MPI and Gloo stay in dist" '^ *# *include *[<"](mpi\.h|gloo/)' '^src/dist/'
  only_in "BLAS and oneDNN stay in kernels/cpu" '^ *# *include *[<"](cblas|oneapi/dnnl)' '^src/kernels/cpu/'
  only_in "yaml-cpp stays behind ParseYaml" '^ *# *include *[<"]yaml-cpp' '^src/parallel/train/yaml_node\.cc$'
  only_in "sentencepiece stays behind plain types" '^ *# *include *[<"]sentencepiece_' \
    '^src/parallel/train/sentencepiece_library\.cc$'
  only_in "PCRE2 stays behind Regex" '^ *# *include *[<"]pcre2' '^src/parallel/train/regex\.cc$'
  # hf_export.cc: its own constants. safetensors_header.cc: as a stream, because headers may be large.
  only_in "JSON that others wrote is read by ParseJsonObject, which bounds it" '\b[Jj]son::(sax_)?parse\b' \
    '^src/parallel/(train/json_object|train/safetensors_header|checkpoint/hf_export)\.cc$'
  # wait_word.cc: the processor's pause instruction, which is no part of an algorithm.
  only_in "choose a file in CMake instead of a preprocessor condition" '^ *# *(if|ifdef|ifndef|elif|else)\b' \
    '^src/dist/signals/wait_word\.cc$'
  only_in "messages go through core/host/message.h" \
    'fmt::print *\(|\b(std::)?f?(printf|puts)\b.*(stdout|stderr|"\))|\bstd::c(out|err|log)\b|fwrite.*(stdout|stderr)' \
    '^src/(core/host/message|parallel/log/standard_output)\.'
  only_in "no source exits the process but a main" '\b(std::)?(exit|_exit|abort|quick_exit) *\(' '^(launcher/main\.cc|src/dist/)'
  breach "a model names no mesh axis; a sharding plan does" '"(dp|tp|pp|cp|ep)"|\bk(Data|Tensor)Axis\b' \
    $(sources src/parallel/nn | grep -v '/sharding_plan' || true)
  breach "a comment says what holds; the numbered points are on no page here" '^[^"]*//.*\b[Pp]oints? [0-9]' \
    $(sources src launcher tests)
}

# Each line: a file, then a line of code that breaks a rule there.
try_breaches() {
  local tree
  tree=$(mktemp -d)
  trap 'rm -rf "$tree"' RETURN
  local file line found
  while IFS='|' read -r file line; do
    mkdir -p "$tree/src" "$tree/launcher" "$tree/$(dirname "$file")"
    printf '// A comment.\n%s\n' "$line" > "$tree/$file"
    found=$(check "$tree")
    rm "$tree/$file"
    [[ $found == "$file:2: "* ]] || { echo "layering_test: '$line' in $file was not found, got '$found'"; return 1; }
  done <<'BREACHES'
src/core/base/a.h|#include "weft/dist/group/mesh.h"
src/core/base/b.cc|#include "weft/kernels/cpu/product/gemm.h"
src/kernels/cpu/a.cc|#include "weft/dist/group/mesh.h"
src/dist/a.cc|#include "weft/parallel/nn/module.h"
src/parallel/train/a.cc|#include "weft/kernels/cpu/product/gemm.h"
src/parallel/train/b.cc|#include "launcher/main.h"
src/parallel/nn/c.cc|#include "../train/config.h"
src/parallel/nn/d.cc|#include "parallel/nn/module.h"
launcher/a.cc|#include "core/base/error.h"
src/dist/local.cc|#include <cuda_runtime.h>
src/core/base/d.cc|#include <nccl.h>
src/parallel/train/e.cc|#include <mpi.h>
src/parallel/train/f.cc|#include <yaml-cpp/yaml.h>
src/core/ops/g.cc|#include <cblas.h>
src/parallel/train/h.cc|#include <sentencepiece_processor.h>
src/parallel/train/i.cc|#include <pcre2.h>
src/parallel/train/k.cc|  nlohmann::json json = nlohmann::json::parse(text);
src/kernels/cpu/h.cc|#ifdef __AVX512F__
src/core/ops/i.cc|  if (bad) std::exit(1);
src/dist/j.cc|  fmt::print(stderr, "{}", path);
launcher/k.cc|  std::fputs(text.c_str(), stderr);
src/parallel/log/l.cc|  std::cerr << path;
src/parallel/nn/layers/transformer.cc|  Shard(x, "tp");
src/parallel/nn/models/gpt2.cc|  Shard(x, kTensorAxis);
tests/parallel/j.cc|// ---- Point 5: the order of axes. ----
BREACHES
}

(try_breaches)
found=$(check "${1:?usage: layering_test.sh ROOT}")
if [ -n "$found" ]; then
  echo "$found"
  exit 1
fi
echo "layering: no breach"
