# shellcheck shell=bash disable=SC2034,SC2154
# Sourced by the tests of failed jobs: `dir` has the output as `out`, and `fail` ends the test.
host=$(hostname)
fail() { echo "$(basename "$0" .sh): $1; output:"; cat "$dir/out"; exit 1; }
now() { date +%s%N; }

# judged CODE MS LIMIT_MS PATTERN: the job failed in time, and the lines that name a rank name one, as the pattern.
judged() {
  [ "$1" -ne 0 ] || fail "expected the job to fail"
  [ "$2" -le "$3" ] || fail "expected the end within $3 ms, got $2 ms"
  grep -Eq "^weft: $4" "$dir/out" || fail "expected a line \"weft: $4\""
  ! grep -E '^weft: ' "$dir/out" | grep -Evq "^weft: $4" || fail "expected no line that names another rank than \"$4\""
}
