#!/usr/bin/env bash
# All tests under the address and undefined behaviour sanitizers, or all that use threads under the thread sanitizer:
# the sweeps of which CI's stages run a part (tests/run.sh asan, tests/run.sh tsan). On two cores asan takes about half an
# hour from nothing and tsan longer.
# Usage: tests/sanitize_all.sh [asan|tsan [ctest arguments]]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-asan}
[ $# -eq 0 ] || shift
case $preset in
  asan) share=10 ;;
  tsan) share=50 && set -- -LE mpi "$@" ;;  # real processes share no memory that could be raced on
  *) echo "sanitize_all: expected asan or tsan, got \"$preset\"" >&2 && exit 2 ;;
esac

launcher/setup.sh
# A folder of its own, with more of each sweep.
build=build/$preset-all
cmake --preset "$preset" -B "$build" "-DWEFT_TEST_SHARE=$share" -DWEFT_SANITIZE_OMIT=  # all checks
cmake --build "$build"
source launcher/environment.sh
ctest --test-dir "$build" --output-on-failure -j2 "$@"
