#!/usr/bin/env bash
# Runs the tests of the CUDA kernels under compute-sanitizer on a machine that has a GPU but no build, from an archive made with
# tests/gpu.sh --pack. Exits with 1 if a tool reports an error, a test fails or no test matches, and with 3 if time runs out.
#
#   tests/gpu_sanitize.sh ARCHIVE.tar.gz [filter]    runs the lines of its table with the filter, e.g. "racecheck kernels_norm"
#
# Checks only Weft's kernels, by their mangled names, except with initcheck, which must see all writes. COMPUTE_SANITIZER is
# the path of the tool, SANITIZE_SECONDS the total time (default 220), SANITIZE_WORKERS how many tests run at once (default 8).
set -uo pipefail

# Each line has a tool, a test and a filter of its cases. The longest come first.
# - Racecheck checks shared memory, so it runs only tests whose kernels use it.
# - Initcheck finds reads of unwritten memory, so it runs only programs: kernel tests fill all memory that they allocate.
# To save time, some tests are reduced:
# - the acceptance test of attention to one seed of short sequences (WEFT_TEST_SHARE),
# - the sweeps of attention under racecheck to small head sizes and to the edges of tiles,
# - products to those of Weft's own kernels,
# - training to one job.
table='
memcheck  kernels_attention_acceptance_test  *
racecheck kernels_attention_test             Sdpa.NarrowTypes*:Sdpa.Other*:Sdpa.Shards*:Sdpa.F32Across*
memcheck  kernels_elementwise_test           -ScalarMath*
racecheck kernels_attention_options_test     -*ManyTiles*
racecheck kernels_reduce_test                -*OfMany*
memcheck  kernels_attention_test             *
racecheck kernels_norm_test                  *
memcheck  kernels_structural_test            *
memcheck  kernels_attention_options_test     *
racecheck kernels_embedding_test             *
memcheck  cuda_training_test                 */0
initcheck fallback_test                      *
memcheck  fallback_test                      *
racecheck kernels_structural_test            *Permute*:*Transpose*
memcheck  kernels_reduce_test                *
racecheck kernels_einsum_test                *Many*:*EveryOrder*
memcheck  kernels_einsum_test                *
racecheck kernels_optimizer_test             *
memcheck  kernels_norm_test                  *
racecheck kernels_loss_test                  *
racecheck fallback_test                      *LinearCrossEntropy*
racecheck kernels_in_place_test              *
memcheck  kernels_embedding_test             *
memcheck  kernels_activation_test            *
memcheck  kernels_optimizer_test             *
memcheck  kernels_loss_test                  *
memcheck  kernels_random_test                *
memcheck  kernels_threads_test               *
memcheck  kernels_in_place_test              *
'

sanitizer=${COMPUTE_SANITIZER:-$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)}
[ -x "$sanitizer" ] || { echo "gpu_sanitize: $sanitizer is missing; it comes with the CUDA toolkit" >&2; exit 1; }
[ -f "${1:-}" ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -xzf "$1" -C "$folder"
export LD_LIBRARY_PATH=$folder/weft/lib:$folder/weft/bin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# Attention uses Weft's kernels, and products do not search for the fastest algorithm.
export WEFT_TEST_DEVICE=cuda WEFT_TEST_SHARE=20 WEFT_SDPA=flash WEFT_TUNE=0

# check TOOL TEST FILTER: runs one line of the table.
check() {
  local log=$folder/$1.$2 begin=$SECONDS left=$((deadline - SECONDS)) status line
  [ "$left" -gt 0 ] || { echo "not run  $1 $2: no time left"; touch "$folder/incomplete"; return; }
  # The tests themselves check calls of the CUDA API that fail. Without padding, the end of an allocation may be the begin of
  # another one, and a write past the end would not be found.
  local options=(--tool "$1" --quiet --log-file "$log.tool" --error-exitcode 99)
  [ "$1" != memcheck ] || options+=(--report-api-errors no --padding 256)
  [ "$1" = initcheck ] || options+=(--kernel-name kns=4weft4cuda)
  timeout -k 5 "$left" "$sanitizer" "${options[@]}" "$folder/weft/bin/$2" --gtest_brief=1 --gtest_filter="$3" \
    > "$log" 2>&1
  status=$? line="$1 $2 ($((SECONDS - begin)) s)"
  touch "$log.tool"
  if [ $status -eq 124 ] && [ ! -s "$log.tool" ]; then
    line="cut      $line: nothing reported so far"
    touch "$folder/incomplete"
  elif [ $status -ne 0 ] || grep -qv 'SUMMARY: 0 ' "$log.tool"; then
    line="FAILED   $line, status $status"$'\n'$(head -${WEFT_LINES:-25} "$log.tool")
    line+=$'\n'$(grep -a "FAILED\|Failure\|got\|want\|Error\|what()" "$log" | head -${WEFT_LINES:-25})
    touch "$folder/failed"
  else
    line="passed   $line: $(tail -1 "$log")"
  fi
  echo "$line"  # one write, because other tests print at the same time
  [ -z "${OUT:-}" ] || cp "$log" "$log.tool" "$OUT/"
}

begun=0 deadline=$((SECONDS + ${SANITIZE_SECONDS:-220}))
while read -r tool test cases; do
  [[ -n $tool && "$tool $test $cases" == *"${2:-}"* ]] || continue
  while [ "$(jobs -rp | wc -l)" -ge "${SANITIZE_WORKERS:-8}" ]; do wait -n; done
  check "$tool" "$test" "$cases" &
  begun=$((begun + 1))
done <<< "$table"
wait
[ $begun -gt 0 ] && [ ! -e "$folder/failed" ] || exit 1
[ ! -e "$folder/incomplete" ] || { echo "gpu_sanitize: not all was run; SANITIZE_SECONDS gives more time"; exit 3; }
