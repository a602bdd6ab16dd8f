#!/usr/bin/env bash
# Fuzzes the readers of what others wrote: tests/fuzz/run.sh [EXECUTIONS [TARGET...]], a million of each target without.
# Wants clang 16 (Debian: clang-16 libclang-rt-16-dev; 14 lacks std::source_location). New inputs are left in
# build/fuzz/corpus, a failing input in build/fuzz/found. KEEP=1 adds to the kept corpus what small inputs among the new
# ones reach and it does not.
set -euo pipefail
cd "$(dirname "$0")/../.."
executions=${1:-1000000}
[ $# -eq 0 ] || shift
targets=("$@")
[ $# -gt 0 ] || targets=(yaml safetensors manifest token_shard documents tokenizer handshake)
command -v clang++-16 > /dev/null || { echo "fuzz: clang++-16 is missing; on Debian: apt-get install clang-16 libclang-rt-16-dev" >&2; exit 1; }

cmake --preset fuzz > /dev/null
cmake --build --preset fuzz --target "${targets[@]/%/_fuzz}"
export LSAN_OPTIONS=suppressions=$PWD/tests/lsan.supp:print_suppressions=0
for target in "${targets[@]}"; do
  kept=tests/fuzz/.corpus/$target new=build/fuzz/corpus/$target longest=2048
  program=build/fuzz/tests/fuzz/${target}_fuzz
  mkdir -p "$new" build/fuzz/found
  # A fiftieth is long from the start, to find inputs that take more than their share of time. The targets bound allocations by the
  # input's size; these limits are for what they do not see.
  for kind in "-runs=$executions -max_len=$longest" "-runs=$((executions / 50)) -max_len=65536 -len_control=0"; do
    # shellcheck disable=SC2086  # words
    "$program" $kind -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=64 -print_final_stats=1 -verbosity=0 \
      -artifact_prefix="build/fuzz/found/$target-" "$new" "$kept"
  done
  if [ "${KEEP:-0}" = 1 ]; then
    # The header of a shard has 1024 bytes.
    small=$([ "$target" = token_shard ] && echo 1100 || echo 700)
    "$program" -merge=1 -max_len="$small" -verbosity=0 "$kept" "$new"
  fi
  echo "fuzz: $target: $executions executions, nothing found"
done
