#!/usr/bin/env bash
# Runs all tests under the address and undefined behaviour sanitizers, or all tests with threads under the thread sanitizer.
# The stages of CI run only a part of these (tests/run.sh asan, tests/run.sh tsan). On two cores a run with an empty build folder
# takes about half an hour with asan, and longer with tsan.
# Usage: tests/sanitize_all.sh [asan|tsan [ctest arguments]]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-asan}
[ $# -eq 0 ] || shift
case $preset in
  asan) share=10 ;;
  tsan) share=50 && set -- -LE mpi "$@" ;;  # ranks of mpi tests are processes, which share no memory
  *) echo "sanitize_all: expected asan or tsan, got \"$preset\"" >&2 && exit 2 ;;
esac

launcher/setup.sh
# A separate build folder, because these builds run larger shares of the sweeps.
build=build/$preset-all
cmake --preset "$preset" -B "$build" "-DWEFT_TEST_SHARE=$share" -DWEFT_SANITIZE_OMIT=  # all checks
cmake --build "$build"
source launcher/environment.sh
ctest --test-dir "$build" --output-on-failure -j2 "$@"
