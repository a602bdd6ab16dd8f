#!/usr/bin/env bash
# The ends of programs that use Weft as a library. An exception that is not caught ends the job with one line and no
# trace of the stack. A rank that returns from main while another waits for it is reported within seconds. A rank that
# only is late is waited for.
# Usage: library_end_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
# shellcheck source=tests/launcher/prelude.sh
source "$(dirname "$0")/../launcher/prelude.sh"
program=$build/tests/failure/library_end

# ends NP CODE HOW PATTERN: the job has this exit code, the only lines of weft are as the pattern, and nothing of a
# crash is printed.
ends() {
  code=0
  local begin
  begin=$(now)
  within 60 mpirun -np "$1" "$program" "$3" > "$dir/out" 2>&1 < /dev/null || code=$?
  [ $code -eq "$2" ] || fail "expected exit code $2 of \"$3\""
  ms=$((($(now) - begin) / 1000000))
  [ $ms -le 20000 ] || fail "expected the end of \"$3\" within 20 s, got $ms ms"
  ! grep -E 'terminate called|Signal: |\[ *0\]' "$dir/out" || fail "expected no trace of \"$3\""
  if [ -z "$4" ]; then
    ! grep '^weft: ' "$dir/out" || fail "expected no line of \"$3\""
  else
    grep -Eq "^weft: $4$" "$dir/out" || fail "expected a line \"weft: $4\" of \"$3\""
    ! grep '^weft: ' "$dir/out" | grep -Evq "^weft: $4$" || fail "expected only lines \"weft: $4\" of \"$3\""
  fi
}
ends 2 0 "" ""
ends 2 0 late ""
ends 2 1 throw 'rank 1: the odd rank gives up'
ends 2 1 "all throw" 'rank [01]: every rank gives up'
ends 2 1 nested 'rank 1: the consequence: the cause'
ends 2 1 thread 'rank 1: an exception that is not a std::exception'
ends 1 1 "all throw" 'every rank gives up'
ends 2 1 caught "rank [01] .*"
grep -qx "caught: the odd rank gives up" "$dir/out" || fail "expected the rank to catch its error"
ends 2 1 leave "rank 1 \(host $host, pid [0-9]+\) has ended, or left the scope of its mesh: all_gather #2 on dp, .* at library_end\.cc:[0-9]+, which it has not called and rank 0 waits in; the last call it finished: all_gather #1 on dp"
[ $ms -le 8000 ] || fail "expected the end within 8 s of the start, got $ms ms"
echo "library ends: ok"
