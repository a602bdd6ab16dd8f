#!/usr/bin/env bash
# Sets up, builds and tests. Usage: tests/run.sh [PRESET [ctest arguments]]; the presets are release, asan, tsan.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
[ $# -eq 0 ] || shift

launcher/setup.sh
cmake --preset "$preset"
cmake --build --preset "$preset"
source launcher/environment.sh
# Tests with the label gpu want one.
if [ ! -e /proc/driver/nvidia/version ] && [[ " $* " != *" -LE "* ]]; then
  echo "no GPU here: tests of the CUDA kernels are left out"
  set -- -LE gpu "$@"
fi
ctest --test-dir "build/$preset" --output-on-failure -j2 "$@"
# What sweeps covered and what a step cost: tests print such lines, and ctest keeps them to itself.
sed -n 's/^shown: //p' "build/$preset/Testing/Temporary/LastTest.log"
