#!/usr/bin/env bash
# A rank that dies, is suspended, or makes other calls than the rest ends the job soon, and one line says which rank it
# was, where, and in which collective.
# Usage: collective_fault_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
set -euo pipefail
cd "$1"
build=$2
fault=$build/tests/launcher/collective_fault
[ -x "$fault" ] || exit 77
source launcher/environment.sh
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
source tests/launcher/judged.sh

# faulty NP RANK FAULT PATTERN: with a timeout of 1 s; the start takes its time too.
faulty() {
  local begin code=0 pid
  begin=$(now)
  timeout 60 mpirun -np "$1" "$fault" "$3" "$2" > "$dir/out" 2>&1 < /dev/null || code=$?
  pid=$(sed -nE 's/^odd rank [0-9]+ pid ([0-9]+)$/\1/p' "$dir/out")
  judged $code $((($(now) - begin) / 1000000)) 5000 "rank $2 \(host $host, pid $pid\) $4"
}
faulty 4 2 kill 'died first: .*all_reduce #1[01] on (dp|tp|world)'
faulty 4 1 stop 'was suspended first: all_reduce #11 on (dp|tp|world)'
faulty 4 2 skip 'failed first: all_reduce #11 on dp'
faulty 4 3 shape 'failed first: all_reduce #11 on dp: it called all_reduce f32 x 999 sum'
faulty 4 0 dtype 'failed first: all_reduce #11 on dp: it called all_reduce f64 x 1000 sum'
faulty 4 2 order 'failed first: all_reduce #11 on dp'
faulty 2 1 skip 'failed first: all_reduce #11 on dp'
faulty 4 3 throw 'failed first: the odd rank gives up; its last call: all_reduce #10 on world'
echo "collective faults: ok"
