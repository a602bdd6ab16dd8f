#!/usr/bin/env bash
# Builds the program and the tests for gcov, runs the fast tests, and prints how many lines of src/ they run. Details go to
# build/coverage/coverage.txt (by file) and build/coverage/html. Code of ranks that are killed is not counted.
# Usage: tests/coverage.sh [ctest arguments]     the default is -L fast
set -euo pipefail
cd "$(dirname "$0")/.."
source tests/packages.sh
case ${1:-} in -h | --help) sed -n '2,4s/^# //p' tests/coverage.sh; exit 0 ;; esac
[ $# -gt 0 ] || set -- -L fast
build=build/coverage

launcher/setup.sh
need gcovr
cmake --preset debug -B $build -DWEFT_CUDA=OFF -DCMAKE_CXX_FLAGS=--coverage -DCMAKE_CXX_FLAGS_DEBUG=-O1
cmake --build $build -- ${COVERAGE_TARGETS:+$COVERAGE_TARGETS}
find $build -name '*.gcda' -delete  # of earlier runs
source launcher/environment.sh
code=0
ctest --test-dir $build --output-on-failure -j2 -LE gpu "$@" || code=$?

# Headers are compiled under include/weft, a link to src.
mkdir -p $build/html
gcovr --root . --object-directory $build --filter 'src/' --filter "$build/include/weft/" -j "$(nproc)" \
  --gcov-ignore-parse-errors --exclude-unreachable-branches --txt $build/coverage.txt \
  --html-details $build/html/index.html --print-summary $build/src $build/launcher $build/tests > $build/summary.txt
sed -n 's/^lines: /coverage of src, lines: /p' $build/summary.txt
exit $code
