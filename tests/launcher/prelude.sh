# shellcheck shell=bash disable=SC2034
# Sourced first by the tests of the program, SCRIPT ROOT BUILD: where they run and with what. It ends them with 77
# (skipped) where the program is not built. They are in ROOT, have `build`, `weft` (the program), `host` and `dir`, a
# folder of their own for what a command printed, in `out` and `err`; it goes when they end, and so does what they have
# left running.
set -euo pipefail
build=$(realpath -m "$2") weft=$(realpath -m "$2/weft") host=$(hostname)
test_name=$(basename "$0" .sh)
cd "$1"
root=$PWD
[ -x "$weft" ] || exit 77
source launcher/environment.sh
unset OPENBLAS_CORETYPE  # a value of the host's may add a note to what is printed
dir=$(mktemp -d)
# Two mpirun at a time fail if one removes the folder of sessions, which is shared below /tmp, as the other makes it.
export TMPDIR=$dir
trap 'jobs -p | xargs -r kill 2> /dev/null || true; rm -rf "$dir"' EXIT

# fail TEXT: with the exit code and the output of the last command.
fail() {
  echo "$test_name: $1${code:+; exit code $code}; output:"
  cat "$dir/out" "$dir/err" 2> /dev/null || true
  exit 1
}
now() { date +%s%N; }
# within SECONDS COMMAND...: its exit code, or 124 or 137 where it takes longer. A program that hangs, as mpirun at times
# does, may not heed SIGTERM.
within() { timeout --kill-after=5 "$@"; }
# run CODE TEXT WORDS...: the exit code of weft with these arguments, and TEXT in its output.
run() {
  local wanted=$1 text=$2
  shift 2
  code=0
  within 60 "$weft" "$@" > "$dir/out" 2>&1 < /dev/null || code=$?
  [ $code -eq "$wanted" ] || fail "expected exit code $wanted for $*"
  grep -qF -- "$text" "$dir/out" || fail "expected \"$text\" for $*"
}
# judged CODE MS LIMIT_MS PATTERN: the job failed in time, and the lines that name a rank name one, as the pattern.
judged() {
  code=$1
  [ "$code" -ne 0 ] || fail "expected the job to fail"
  [ "$2" -le "$3" ] || fail "expected the end within $3 ms, got $2 ms"
  grep -Eq "^weft: $4" "$dir/out" || fail "expected a line \"weft: $4\""
  ! grep -E '^weft: ' "$dir/out" | grep -Evq "^weft: $4" || fail "expected no line that names another rank than \"$4\""
}
