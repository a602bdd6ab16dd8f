#!/usr/bin/env bash
# Checks the layering rules on the sources: which code may include which, and what belongs where.
# Usage: layering_test.sh ROOT. First tries the rules on small breaches, each of which must be found.
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

# The house: one library per line. After "<" come the libraries that it may include, and after ":" its rooms in order. A room
# may include itself, earlier rooms of its library, and those libraries. The room "." is the library's own folder. The
# program stands last.
house() {
  cat << 'HOUSE'
core: host base ir ops runtime transforms passes passes/chunk passes/combine passes/schedule compile/overlap compile predict testing
kernels < core: common cpu cpu/loops cpu/reduce cpu/elementwise cpu/product cpu/attention cpu/norm cpu/loss cpu/random cpu/embedding cpu/indexing cpu/sort cpu/optimizer cpu/backend cuda/plan cuda/measure cuda cuda/device cuda/loops cuda/reduce cuda/elementwise cuda/product cuda/attention cuda/norm cuda/loss cuda/random cuda/embedding cuda/indexing cuda/sort cuda/optimizer cuda/backend
dist < core: net signals start group group/rows group/stream group/local group/gloo group/nccl group/staged group/standard failure
parallel < core dist: dtensor nn/plans nn/plans/named nn nn/layers nn/family nn/models optimizer optimizer/rules program step
api < core kernels dist parallel: environment umbrella
train < core dist parallel: io tokenizer config log data/source data checkpoint huggingface huggingface/families profile preflight loop infer
launcher < core kernels dist parallel api train: report . plan bench bench/rates doctor
HOUSE
}

# Finds includes against the order of the house, forward declarations of types of another library, and circular includes.
check_rooms() {
  [ -n "$(sources src launcher)" ] || return 0
  local work
  work=$(mktemp -d)
  house > "$work/house"
  awk -v house="$work/house" -v edges="$work/edges" -f "$awk_rooms" $(sources src launcher)
  if [ -s "$work/edges" ]; then
    tsort "$work/edges" 2>&1 > "$work/order" |
      sed -nE 's#^tsort: ((src|launcher)/.*)#\1:1: is in a circle of includes#p'
  fi
  rm -r "$work"
}

# Finds folders with too many files to survey: more than 32, or more than 45 in core/ops, which has a file per family of ops.
# Ignores the data of the fuzz tests.
check_folders() {
  local folder count most
  while read -r count folder; do
    most=32
    [[ $folder != src/core/ops ]] || most=45
    [ "$count" -le $most ] || echo "$folder: holds $count files, more than $most"
  done < <(find src tests launcher -name '.corpus' -prune -o -type f -printf '%h\n' | sort | uniq -c)
}

# Finds functions of more than 50 lines, and reports if more than 1 in 100 of the sources has more than 30. Ignores tables, and
# the probes of tests/bench/ladder.
check_functions() {
  awk -f "$awk_lengths" $(sources src launcher tests | grep -v '^tests/bench/ladder/') | sort -rn | awk '
    $1 > 50 { print $2 ": a function of " $1 " lines, more than 50" }
    $2 !~ /^tests\// { lines[++n] = $1; place[n] = $2 }
    END {
      at = int(n / 100) + 1
      if (n && lines[at] > 30) print place[at] ": one function of 100 is longer than 30 lines, this one of " lines[at]
    }'
}

# only_in RULE PATTERN ALLOWED: only sources whose path matches ALLOWED may contain the pattern.
only_in() {
  breach "$1" "$2" $(sources src launcher | grep -vE "$3" || true)
}

check() {
  cd "$1"
  check_rooms
  breach "a header of Weft's is spelled weft/ and its path in src" '^ *# *include *[<"](\.|(core|dist|kernels|parallel|train)/)' $(sources src launcher)
  only_in "CUDA headers stay in kernels/cuda, apart from its plans, and the NCCL group" \
    '^ *# *include *[<"](cuda|cublas|cudnn|nvrtc|nvml|nccl|cooperative_groups|cub/|thrust/)' '^src/(kernels/cuda/([^p]|p[^l])|dist/group/nccl/)'
  only_in "MPI and Gloo stay in dist" '^ *# *include *[<"](mpi\.h|gloo/)' '^src/dist/'
  only_in "BLAS and oneDNN stay in kernels/cpu" '^ *# *include *[<"](cblas|oneapi/dnnl)' '^src/kernels/cpu/'
  only_in "only ParseYaml uses yaml-cpp" '^ *# *include *[<"]yaml-cpp' '^src/train/io/yaml_node\.cc$'
  only_in "only one file uses sentencepiece" '^ *# *include *[<"]sentencepiece_' \
    '^src/train/tokenizer/sentencepiece_library\.cc$'
  only_in "only Regex uses PCRE2" '^ *# *include *[<"]pcre2' '^src/train/tokenizer/regex\.cc$'
  only_in "only Crc32c uses ISA-L" '^ *# *include *[<"]isa-l' '^src/train/io/crc32c\.cc$'
  # hf_export.cc parses its own constants. safetensors_header.cc parses a stream, because headers may be large.
  only_in "JSON that others wrote is read by ParseJsonObject, which bounds it" '\b[Jj]son::(sax_)?parse\b' \
    '^src/train/(io/json_object|checkpoint/safetensors_header|huggingface/hf_export)\.cc$'
  # wait_word.cc needs a condition for the pause instruction of the processor.
  only_in "choose a file in CMake instead of a preprocessor condition" '^ *# *(if|ifdef|ifndef|elif|else)\b' \
    '^src/core/runtime/wait_word\.cc$'
  only_in "messages go through core/host/message.h" \
    'fmt::print *\(|\b(std::)?f?(printf|puts)\b.*(stdout|stderr|"\))|\bstd::c(out|err|log)\b|fwrite.*(stdout|stderr)' \
    '^src/(core/host/message|train/log/standard_output)\.'
  only_in "notes go through core/host/notice.h" '^([^/"]|/[^/]|"([^"\\]|\\.)*")*"(\\n)?note: ' '^src/core/host/notice\.'
  only_in "no source exits the process but a main" '\b(std::)?(exit|_exit|abort|quick_exit) *\(' '^(launcher/main\.cc|src/dist/)'
  breach "a model names no mesh axis; a sharding plan does" '"(dp|tp|pp|cp|ep)"|\bk(Data|Tensor)Axis\b' \
    $(sources src/parallel/nn | grep -v '^src/parallel/nn/plans/' || true)
  breach "a comment says what holds; the numbered points are on no page here" '^[^"]*//.*\b[Pp]oints? [0-9]' \
    $(sources src launcher tests)
}

# Tries breaches in one file. Each line below is a file and a line of code that breaks a rule there.
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
src/dist/net/a.cc|#include "weft/parallel/nn/module.h"
src/train/io/a.cc|#include "weft/kernels/cpu/product/gemm.h"
src/train/io/b.cc|#include "launcher/main.h"
src/train/io/c.cc|#include <launcher/rank.h>
launcher/report/a.cc|#include "launcher/rank.h"
launcher/b.cc|#include "launcher/plan/plan_report.h"
launcher/plan/c.cc|#include "launcher/bench/bench_job.h"
src/parallel/nn/c.cc|#include "../train/config.h"
src/parallel/nn/d.cc|#include "parallel/nn/module.h"
launcher/a.cc|#include "core/base/error.h"
src/core/ir/e.cc|#include "weft/core/ops/ops.h"
src/train/config/f.h|#include "weft/train/loop/trainer.h"
src/kernels/cpu/loops/g.h|#include "weft/kernels/cuda/device/device.h"
src/dist/group/local.cc|#include <cuda_runtime.h>
src/kernels/cuda/plan/a.h|#include <cuda_runtime_api.h>
src/core/base/d.cc|#include <nccl.h>
src/train/io/e.cc|#include <mpi.h>
src/train/io/f.cc|#include <yaml-cpp/yaml.h>
src/core/ops/g.cc|#include <cblas.h>
src/train/io/h.cc|#include <sentencepiece_processor.h>
src/train/io/i.cc|#include <pcre2.h>
src/train/io/l.cc|#include <isa-l/crc.h>
src/train/io/k.cc|  nlohmann::json json = nlohmann::json::parse(text);
src/kernels/cpu/h.cc|#ifdef __AVX512F__
src/core/ops/i.cc|  if (bad) std::exit(1);
src/dist/net/j.cc|  fmt::print(stderr, "{}", path);
launcher/k.cc|  std::fputs(text.c_str(), stderr);
src/train/log/l.cc|  std::cerr << path;
src/train/log/m.cc|  PrintStderr("note: {} {}\n", path, loss);
launcher/n.cc|  lines.push_back("note: " + text);
src/parallel/nn/layers/transformer.cc|  Shard(x, "tp");
src/parallel/nn/models/gpt2.cc|  Shard(x, kTensorAxis);
tests/parallel/j.cc|// ---- Point 5: the order of axes. ----
BREACHES
}

# try_circle TREE SPELLING FOLDER: two headers of a folder, whose includes are spelled so, that include each other.
try_circle() {
  local tree=$1 spelling=$2 folder=$3 found
  echo "#include \"$spelling/b.h\"" > "$tree/$folder/a.h"
  echo "#include \"$spelling/a.h\"" > "$tree/$folder/b.h"
  found=$(check "$tree")
  rm "$tree/$folder"/{a,b}.h
  [[ $found == "$folder/"[ab]".h:1: is in a circle of includes"* ]] ||
    { echo "layering_test: a circle in $folder was not found, got '$found'"; return 1; }
}

# What it takes two files to break.
try_pairs() {
  local tree file found
  tree=$(mktemp -d)
  trap 'rm -rf "$tree"' RETURN
  mkdir -p "$tree"/src/core/{base,ir} "$tree/src/dist/group" "$tree"/launcher/{,plan}
  local type definition declaration
  while IFS='|' read -r type definition declaration; do
    printf '%b\n' "$definition" > "$tree/src/dist/group/mesh.h"
    for file in src/core/base/a.h launcher/a.h; do
      printf '%b\n' "$declaration" > "$tree/$file"
      found=$(check "$tree")
      rm "$tree/$file"
      [[ $found =~ ^$file:[12]:\ (core|launcher)\ may\ not\ declare\ $type, ]] ||
        { echo "layering_test: '$declaration' of another library was not found in $file, got '$found'"; return 1; }
    done
    found=$(check "$tree")
    [ -z "$found" ] || { echo "layering_test: '$definition' by itself is no breach, got '$found'"; return 1; }
  done << 'TYPES'
Mesh|class Mesh final {|class Mesh;  // of dist
Axis|struct Axis {|struct Axis;
Crc32|struct Crc32 : Hash {|struct Crc32;
Up2Date|class Up2Date\n    : public Mesh {|class Up2Date;
Kind|enum class Kind {|enum class Kind;
Role|enum class Role : uint8_t { kA, kB };|enum class Role : uint8_t;
Sum|enum Sum : int { kOne };|enum Sum : int;
Box|template <class T>\nclass Box {|template <class T>\nclass Box;
Pair|template <class A, class B>\nstruct Pair {|template <class A, class B> struct Pair;
Bits|union Bits {|union Bits;
TYPES
  try_circle "$tree" weft/core/ir src/core/ir && try_circle "$tree" launcher/plan launcher/plan || return 1
  mkdir "$tree/tests"
  touch "$tree"/tests/{1..33}.h
  found=$(cd "$tree" && check_folders)
  [[ $found == *"tests: holds 33 files"* ]] || { echo "layering_test: a full folder was not found, got '$found'"; return 1; }
  try_lengths "$tree" || return 1
}

# try_lengths TREE: one function of 52 lines by each head below, and tables as long, which are allowed.
try_lengths() {
  local tree=$1 head found file
  while read -r head; do
    for file in launcher/a.cc tests/a.cc; do
      { echo "$head" && printf '  Go();\n%.0s' {1..50} && echo '}'; } > "$tree/$file"
      found=$(cd "$tree" && check_functions)
      [[ $found == *"$file:1: a function of 52 lines"* ]] ||
        { echo "layering_test: the length of '$head' in $file was not found, got '$found'"; return 1; }
      rm "$tree/$file"
    done
  done << 'HEADS'
void Long() {
double Long() {
TEST(Long, Goes) {
void Long(int x = 1) {
template <class T, class C = Compute<T>> void Long(const T& x) {
Mesh& operator=(const Mesh& mesh) {
bool operator==(const Mesh& mesh) const {
Var Long(Var x) {  // [B, T]
Mesh::Mesh(int n) : Group(n), sizes_{.dp = n, .tp = Two(2)} {
HEADS
  while read -r head; do
    { printf '%b\n' "$head" && printf '  {1, Two(2)},\n%.0s' {1..50} && echo '};'; } > "$tree/launcher/a.cc"
    found=$(cd "$tree" && check_functions)
    [ -z "$found" ] || { echo "layering_test: '$head' begins a table and no function, got '$found'"; return 1; }
  done << 'TABLES'
const Row kRows[] = {
const Row kRows[] = {\n  {"one",\n   [](int x) {\n    Go();\n   }},
const std::map<int, Row> kRows = Sorted({
TABLES
}

here=$(cd "$(dirname "$0")" && pwd)
awk_rooms=$here/rooms.awk awk_lengths=$here/function_lengths.awk
(try_breaches)
(try_pairs)
found=$(check "${1:?usage: layering_test.sh ROOT}")
found+=$(cd "$1" && check_folders && check_functions)
if [ -n "$found" ]; then
  echo "$found"
  exit 1
fi
echo "layering: no breach"
