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
ctest --test-dir "build/$preset" --output-on-failure -j2 "$@"
