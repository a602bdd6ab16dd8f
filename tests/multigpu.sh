#!/usr/bin/env bash
# Runs the tests of several GPUs on a machine that has GPUs but no build, from an archive made with tests/gpu.sh --pack.
#
#   tests/multigpu.sh ARCHIVE.tar.gz [RANKS...]     RANKS: the numbers of GPUs; by default 2 and 4, if the machine has them
#
# ONLY=PATTERN runs the parts whose names match: multigpu_checkpoint_test, multigpu_example_test, multigpu_training_test.losses,
# multigpu_training_test.laws, multigpu_training_test.memory, bench, refusal, failure, delays.
set -uo pipefail
cd "$(dirname "$0")/.."
[ -f "${1:-}" ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
archive=$(realpath "$1")
shift
gpus=$(nvidia-smi -L | wc -l)
if [ $# -eq 0 ]; then
  for ranks in 2 4; do [ "$ranks" -gt "$gpus" ] || set -- "$@" "$ranks"; done
fi
[ $# -gt 0 ] || { echo "multigpu.sh: takes 2 GPUs or more, got $gpus" >&2; exit 2; }

# shellcheck source=/dev/null
source launcher/environment.sh
source tests/bundle.sh
open_bundle "$archive"
failed=0 parts=0
# expect_in_logs RANKS: NCCL says in its log that it uses copy engines and symmetric kernels, and would say if it used multicast.
expect_in_logs() {
  local file call
  for file in "$folder/nccl.$1".*; do
    grep -q 'Init CE' "$file" && ! grep -Eqi 'multicast|[1-9][0-9]* nvls channels' "$file" && continue
    echo "FAILED copies.$1: expected NCCL to use copy engines and no multicast; its log:"
    grep -Ei 'Init CE|multicast|nvls|symmetric' "$file" | head -20
    failed=1
  done
  for call in AllGather AllReduce ReduceScatter; do
    grep -q "$call \[Symmetric\]" "$folder/nccl.$1".* && continue
    echo "FAILED symmetric.$1: expected NCCL to make $call by a symmetric kernel"
    failed=1
  done
}

# wanted NAME: whether ONLY asks for the part.
wanted() { [[ $1 =~ ${ONLY:-} ]] && parts=$((parts + 1)); }

# run_test PROGRAM NAME FILTER: runs the tests that the filter of GoogleTest names on `ranks` GPUs.
run_test() {
  local name=$2.$ranks begin=$SECONDS logs=()
  wanted "$2" || return 0
  [[ $2 != *.memory ]] || logs=(NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NVLS,ALLOC,TUNING "NCCL_DEBUG_FILE=$folder/nccl.$ranks.%p")
  if env "${logs[@]}" timeout 400 mpirun -np "$ranks" --bind-to none "$1" --gtest_brief=1 --gtest_filter="$3" > "$folder/log" 2>&1; then
    echo "passed $name ($((SECONDS - begin)) s): $(grep -a PASSED "$folder/log" || tail -1 "$folder/log")"
    [ ${#logs[@]} -eq 0 ] || expect_in_logs "$ranks"
    if grep -aq 'PASSED.*\] 0 tests' "$folder/log"; then
      echo "FAILED $name: expected tests for the filter $3"
      failed=1
    fi
    if [[ $1 == */multigpu_example_test ]] && ! grep -q '^cuda' "$folder/log"; then
      echo "FAILED $name: expected sums on GPUs; its output:"
      cat "$folder/log"
      failed=1
    fi
  else
    echo "FAILED $name ($((SECONDS - begin)) s)"
    tail -"${WEFT_LINES:-40}" "$folder/log"
    failed=1
  fi
  grep '^shown: ' "$folder/log"
  [ -z "${OUT:-}" ] || cp "$folder/log" "$OUT/$name.log"
}

for ranks; do
  for test in "$folder"/weft/bin/multigpu_*_test; do
    name=$(basename "$test")
    if [ "$name" != multigpu_training_test ]; then
      run_test "$test" "$name" '*'
      continue
    fi
    # In parts, each of which ends within the 10 minutes that a call may take.
    run_test "$test" "$name.losses" 'All/*.LossesAre*'
    run_test "$test" "$name.laws" 'All/*-*.LossesAre*'
    run_test "$test" "$name.memory" '*-All/*'
  done
  for memory in ordinary symmetric copied; do
    wanted bench || continue
    words=(device=cuda "mesh.dp=$ranks" axis=dp "memory=$memory" op=all_reduce,all_gather,reduce_scatter,all_to_all)
    [ $memory != ordinary ] || words=(device=cuda "mesh.dp=$ranks" axis=dp op=all)
    if timeout 100 mpirun -np "$ranks" --bind-to none "$folder/weft/bin/weft" bench collective "${words[@]}" bytes=1K,4M \
      seconds=0.02 > "$folder/log" 2>&1; then
      echo "passed bench.$memory.$ranks"
    else
      echo "FAILED bench.$memory.$ranks"
      tail -"${WEFT_LINES:-40}" "$folder/log"
      failed=1
    fi
  done
  for kind in gemm sdpa dispatch step; do
    wanted bench || continue
    words=(device=cuda seconds=0.02)
    [ $kind != step ] || words+=(config=configs/gpt2-tiny.yaml "mesh.dp=$ranks")
    if timeout 100 mpirun -np "$ranks" --bind-to none "$folder/weft/bin/weft" bench $kind "${words[@]}" --json > "$folder/log" 2>&1 &&
      [ "$(grep -c '^{' "$folder/log")" -ge 3 ]; then
      echo "passed bench.$kind.$ranks"
    else
      echo "FAILED bench.$kind.$ranks: expected at least three lines of JSON"
      tail -"${WEFT_LINES:-40}" "$folder/log"
      failed=1
    fi
  done
  for part in refusal failure delays; do
    wanted $part || continue
    # ONLY of these scripts has the names of their cases.
    ONLY="" timeout 400 "tests/failure/multigpu_$part.sh" "$folder/weft/bin/weft" "$ranks" || failed=1
  done
done
[ $parts -gt 0 ] || { echo "multigpu.sh: no part matches \"$ONLY\"" >&2; exit 2; }
exit $failed
