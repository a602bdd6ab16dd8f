#!/usr/bin/env bash
# Sets up, builds and tests. Usage: tests/run.sh [PRESET [ctest arguments]]; the presets are release, asan, tsan.
# asan and tsan build and run the tests with that label (tests/CMakeLists.txt); tests/sanitize_all.sh runs all tests.
set -euo pipefail
cd "$(dirname "$0")/.."
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
# Tests with the label gpu want one.
if [ ! -e /proc/driver/nvidia/version ] && [[ " $* " != *" -LE "* ]]; then
  echo "no GPU here: tests of the CUDA kernels are left out"
  set -- -LE gpu "$@"
fi
ctest --test-dir "build/$preset" --output-on-failure -j2 "$@"
# What sweeps covered and what a step cost: tests print such lines, and ctest keeps them to itself.
sed -n 's/^shown: //p' "build/$preset/Testing/Temporary/LastTest.log"
