#!/usr/bin/env bash
# Runs the tests of the CUDA kernels on a machine that has a GPU but no build, from an archive made with --pack.
#
#   tests/gpu.sh --pack OUT.tar.gz          packs the release build, which must have the CUDA library, or that in WEFT_BUILD
#   tests/gpu.sh ARCHIVE.tar.gz [filter]    runs the tests in the archive whose names contain the filter
#
# JOBS (4) tests run at a time, each for at most LIMIT (300). With OUT, their output goes to that folder.
# WEFT_BUILD=build/sm80 packs the preset whose kernels are PTX of compute_80. The driver translates each of them before its
# first run, which takes time.
set -uo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = --pack ]; then
  build=${WEFT_BUILD:-build/release}
  mapfile -t programs < <(ctest --test-dir "$build" -L gpu --show-only=json-v1 | grep -o "[^\"]*$build/tests/[^\"]*_test\"" | tr -d '"' | sort -u)
  exec launcher/bundle.sh "$2" "${programs[@]}"
fi

[ -f "${1:-}" ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -xf "$1" -C "$folder"
export LD_LIBRARY_PATH=$folder/weft/lib:$folder/weft/bin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} WEFT_TEST_DEVICE=cuda
export CUDA_CACHE_MAXSIZE=$((4 << 30))  # enough for the translated PTX of all tests
jobs=${JOBS:-4}
# run TEST: prints one line, and the faults of a failed test.
run() {
  local name begin=$SECONDS log
  name=$(basename "$1") log=$folder/$(basename "$1").log
  if timeout "${LIMIT:-300}" "$1" --gtest_brief=1 > "$log" 2>&1; then
    echo "passed $name ($((SECONDS - begin)) s): $(tail -1 "$log")"
  else
    echo "FAILED $name ($((SECONDS - begin)) s)"
    grep -a "FAILED\|Failure\|error\|Error\|what()\|got\|want" "$log" | head -"${WEFT_LINES:-25}"
    touch "$folder/failed"
  fi
  [ -z "${OUT:-}" ] || cp "$log" "$OUT"
}
for test in "$folder"/weft/bin/*"${2:-}"*_test; do
  [ -x "$test" ] || { echo "gpu.sh: no test has \"${2:-}\" in its name; the archive is to be made with --pack" >&2; exit 2; }
  [[ $(basename "$test") != multigpu_* ]] || continue  # tests/multigpu.sh runs these
  while [ "$(jobs -pr | wc -l)" -ge "$jobs" ]; do wait -n; done
  run "$test" &
done
wait
[ ! -e "$folder/failed" ]
