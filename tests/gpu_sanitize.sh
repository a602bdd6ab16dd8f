#!/usr/bin/env bash
# The tests of the CUDA kernels under compute-sanitizer, on a machine that has a GPU but no build: from an archive made
# with tests/gpu.sh --pack. Fails where a tool reports an error or a test fails (1), or time is up (3).
#
#   tests/gpu_sanitize.sh ARCHIVE.tar.gz [filter]    there: runs what has the filter in it, say "racecheck kernels_norm"
#
# Only Weft's kernels are checked, by their mangled names; initcheck has to see who else writes. COMPUTE_SANITIZER names
# another tool, SANITIZE_SECONDS the time for all (220), SANITIZE_WORKERS how many run at once (8).
set -uo pipefail

# Tool, test, which of its cases. Racecheck looks at shared memory, and only the tests whose kernels use it are asked;
# initcheck at memory that nobody wrote, so only at programs: kernel tests fill all they allocate. Thinned: attention's
# acceptance to one seed of short sequences (WEFT_TEST_SHARE), its sweeps under racecheck to the small head sizes and to
# the tiles' edges, products to those of Weft's own kernels, training to one job. The longest come first.
table='
memcheck  kernels_attention_acceptance_test  *
racecheck kernels_attention_test             Sdpa.NarrowTypes*:Sdpa.Other*:Sdpa.Shards*:Sdpa.F32Across*
memcheck  kernels_elementwise_test           -ScalarMath*
racecheck kernels_reduce_test                -*OfMany*
memcheck  kernels_attention_test             *
racecheck kernels_norm_test                  *
memcheck  kernels_structural_test            *
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
# Attention by Weft's kernels; products without the search for the fastest algorithm.
export WEFT_TEST_DEVICE=cuda WEFT_TEST_SHARE=20 WEFT_SDPA=flash WEFT_TUNE=0

# check TOOL TEST FILTER: one line of the table.
check() {
  local log=$folder/$1.$2 begin=$SECONDS left=$((deadline - SECONDS)) status line
  [ "$left" -gt 0 ] || { echo "not run  $1 $2: no time left"; touch "$folder/incomplete"; return; }
  # Calls of the CUDA interface that fail are the tests' own business. Padding keeps an allocation's end from being
  # another's begin.
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
  echo "$line"  # at once: others print too
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
