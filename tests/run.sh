#!/usr/bin/env bash
# Installs dependencies, builds, and runs the tests. Usage: tests/run.sh [PRESET [ctest arguments]].
# The presets are release (the default), asan and tsan. asan and tsan build and run only the tests with that label
# (tests/CMakeLists.txt). tests/sanitize_all.sh runs all tests with a sanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in -h | --help) sed -n '2,4s/^# //p' tests/run.sh && exit ;; esac
preset=${1:-release}
[ $# -eq 0 ] || shift
target=all
case $preset in
  asan | tsan) target=tests_$preset ;;
esac

launcher/setup.sh
cmake --preset "$preset"
begin=$SECONDS
cmake --build --preset "$preset" --target "$target"
echo "== built $target of $preset in $((SECONDS - begin)) s"
source launcher/environment.sh
[ "$target" = all ] || set -- -L "^$preset\$" --no-tests=error "$@"
# Tests with the label gpu require a GPU.
if [ ! -e /proc/driver/nvidia/version ] && [[ " $* " != *" -LE "* ]]; then
  echo "no GPU here: tests of the CUDA kernels are left out"
  set -- -LE gpu "$@"
fi
# Some tests mostly wait, so there are more tests than cores. nproc would return OMP_NUM_THREADS, which the environment has set.
ctest --test-dir "build/$preset" --output-on-failure -j$(($(env -u OMP_NUM_THREADS nproc) * 3 / 2)) "$@"
# Tests print results in such lines, for example what a sweep covered and what a step cost. ctest shows no output of tests that
# pass, so print these lines from its log.
sed -n 's/^shown: //p' "build/$preset/Testing/Temporary/LastTest.log"
