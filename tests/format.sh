#!/usr/bin/env bash
# Checks that clang-format 14 would change no C++ or CUDA source. Usage: tests/format.sh [--fix]
set -euo pipefail
cd "$(dirname "$0")/.."
source tests/packages.sh
format=$(command -v clang-format-14 || command -v clang-format || true)
if [[ $("${format:-true}" --version | sed -nE 's/.*version ([0-9]+).*/\1/p') != 14 ]]; then
  need clang-format-14  # other versions format differently
  format=clang-format-14
fi
case ${1:-} in
  --fix) mode=(-i) ;;
  "") mode=(--dry-run -Werror) ;;
  *) sed -n '2s/^# //p' "$0" && exit 2 ;;
esac
if [ -e .git ]; then
  git ls-files '*.h' '*.cc' '*.cu' '*.cuh'
else
  find examples launcher src tests -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh'
fi | xargs -P "$(nproc)" -n 40 "$format" "${mode[@]}"
