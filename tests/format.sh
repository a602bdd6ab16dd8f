#!/usr/bin/env bash
# Checks that clang-format 14 would change no C++ or CUDA source. Usage: tests/format.sh [--fix]
set -euo pipefail
cd "$(dirname "$0")/.."
format=$(command -v clang-format-14 || command -v clang-format) ||
  { echo "format: clang-format is missing; install clang-format (Debian 12 has version 14)" >&2; exit 1; }
version=$("$format" --version | sed -nE 's/.*version ([0-9]+).*/\1/p')
[ "$version" = 14 ] || { echo "format: expected clang-format 14, got $version; other versions format differently" >&2; exit 1; }
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
