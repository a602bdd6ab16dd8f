# shellcheck shell=bash disable=SC2030,SC2031
# Sourced by tests whose ranks mostly wait, after prelude.sh: their cases run next to each other.
#
#   in_background NAME COMMAND...
#   collect

most_cases=${WEFT_TEST_CASES:-6}  # at the same time
port=$((20000 + $$ % 9000))
case_of=()  # NAME of the case that a process runs

# in_background NAME COMMAND...: runs the command, a function too, as a case with a folder ($dir) and a port of its own.
# If there are too many cases, first waits for one to end. TMPDIR is its own too: two mpirun that start at the same time
# fail if both make the folder of sessions. Its name is short, as sockets have paths of at most 107 characters.
in_background() {
  port=$((port + 1))
  mkdir "$dir/$1" "$dir/$port"
  [ ${#case_of[@]} -lt "$most_cases" ] || wait_for_a_case
  (
    export TMPDIR=$dir/$port
    dir+=/$1
    trap 'jobs -p | xargs -r kill 2> /dev/null || true' EXIT
    "${@:2}"
  ) > "$dir/$1.report" 2>&1 &
  case_of[$!]=$1
}
# Prints what the case printed. If it failed, so does the test.
wait_for_a_case() {
  local pid="" failed=0
  wait -n -p pid "${!case_of[@]}" || failed=1
  cat "$dir/${case_of[$pid]}.report"
  [ $failed -eq 0 ] || fail "expected the case ${case_of[$pid]} to pass"
  unset "case_of[$pid]"
}
# Waits for all cases.
collect() {
  while [ ${#case_of[@]} -gt 0 ]; do wait_for_a_case; done
}
