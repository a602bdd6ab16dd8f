#!/usr/bin/env bash
# Runs under limits of memory that are too small, of all sizes: each ends by itself and names the limit with numbers, or
# it is enough. Nothing hangs, and nothing crashes.
# Usage: memory_limit_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/../launcher/prelude.sh"
source "$root/tests/failure/cases.sh"

config=$dir/a.yaml
cat > "$config" <<'YAML'
model: {family: gpt2, layers: 2, heads: 4, dim: 256, vocab: 4096, context: 64}
data: {synthetic: true}
train: {steps: 2, global_batch: 4}
YAML
# limited OPTION MIB COMMAND...: under ulimit OPTION of so many MiB.
limited() {
  local option=$1 mib=$2
  shift 2
  code=0
  (ulimit "$option" $((mib << 10)) && within 60 "$@") > "$dir/out" 2>&1 < /dev/null || code=$?
}
# ends WHAT NAME: as a run under a limit called NAME must. Counts what succeeded.
ends() {
  runs=$((runs + 1))
  if [ "$code" -eq 0 ]; then
    enough=$((enough + 1))
    return
  fi
  # Below some 66 MiB, with Open MPI 5 some 100, the loader cannot map the program, and says so itself.
  if [ "$code" -eq 127 ] && grep -q 'error while loading shared libraries' "$dir/out"; then return; fi
  [ "$code" -eq 1 ] || fail "expected exit code 0 or 1 of $1"
  grep -Eq "^weft: .*$2.* [0-9.]+ [KMG]?i?B free of [0-9.]+ [KMG]iB" "$dir/out" || fail "expected a line with $2 and numbers of $1"
}
runs=0 enough=0
on_threads() {
  local mib
  for mib in $(seq 72 34 1200); do
    limited -v "$mib" "$weft" train "$config" threads="$1"
    ends "$1 threads and $mib MiB" 'RLIMIT_AS \(ulimit -v\)'
  done
  echo "$runs $enough" > "$dir/counts"
}
on_two_ranks() {
  local mib
  for mib in 72 200 330 400 450 500 560 620 700 1000; do
    limited -v 8000000 mpirun -np 2 bash -c "ulimit -v $((mib << 10)); exec '$weft' train '$config' mesh.dp=2 threads=1"
    ends "two ranks with $mib MiB each" 'RLIMIT_AS \(ulimit -v\)'
  done
  echo "$runs $enough" > "$dir/counts"
}
of_data() {
  local mib
  for mib in 40 150 300 1000; do
    limited -d "$mib" "$weft" train "$config" threads=2
    ends "$mib MiB of data" 'RLIMIT_DATA \(ulimit -d\)'
  done
  echo "$runs $enough" > "$dir/counts"
}
in_background one-thread on_threads 1
in_background four-threads on_threads 4
in_background two-ranks on_two_ranks
in_background data of_data
collect
read -r runs enough < <(cat "$dir"/*/counts | awk '{ r += $1; e += $2 } END { print r, e }')
# Both kinds of end have been seen, and a run that has room does not notice.
[ "$enough" -gt 5 ] && [ "$enough" -lt $((runs - 20)) ] || fail "expected some of $runs runs to succeed, got $enough"
limited -v 4000 "$weft" train "$config" threads=1
[ "$code" -eq 0 ] && ! grep -q RLIMIT "$dir/out" || fail "expected 4 GiB to be enough"
echo "memory_limit: ok, $enough of $runs limits were enough"
