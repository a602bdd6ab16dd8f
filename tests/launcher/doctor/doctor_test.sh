#!/usr/bin/env bash
# weft doctor: a line per thing, as one process and under mpirun; faults are found.
# Usage: doctor_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/../prelude.sh"
# doctor CODE TEXT WORDS...: the exit code, and TEXT in the output.
doctor() {
  local wanted=$1 text=$2
  code=0
  shift 2
  within 60 "$@" > "$dir/out" 2>&1 < /dev/null || code=$?
  [ $code -eq "$wanted" ] && grep -qF -- "$text" "$dir/out" || fail "expected exit code $wanted and '$text' of $*"
}

doctor 0 "OpenBLAS" "$weft" doctor "$dir"
for line in "MPI  .*Open MPI v[0-9]" "Gloo .*[0-9]\.[0-9]+\.[0-9]+, sockets on" "names  .*localhost in [0-9]+ ms" "clock .* UTC, .* time service keeps it"; do
  grep -Eq "  ok    $line" "$dir/out" || fail "expected a line for $line"
done
[ -z "$(ls -A "$dir" | grep -v '^out$')" ] || fail "expected nothing to be left in $dir"
doctor 0 "no mpirun in PATH: install openmpi-bin" env PATH=/nowhere "$weft" doctor "$dir"
doctor 1 "set WEFT_INTERFACE to an interface that is up" env WEFT_INTERFACE=none9 "$weft" doctor "$dir"
doctor 1 "$dir/nowhere: no such folder: give one that exists" "$weft" doctor "$dir/nowhere"
doctor 2 "weft doctor --help" "$weft" doctor --all
doctor 2 "weft doctor --help" "$weft" doctor a b
doctor 0 "usage: weft doctor" "$weft" doctor --help
doctor 0 "2 on 1 host" mpirun -np 2 "$weft" doctor "$dir"
for line in clocks connections collectives version disk; do grep -q "  ok    $line" "$dir/out" || fail "expected a line for $line"; done
[ "$(grep -c "processor" "$dir/out")" -eq 1 ] || fail "expected one look at the host"
doctor 1 "/proc: cannot be written" mpirun -np 2 "$weft" doctor /proc

# ranks=N starts them; under a launcher it must be the launcher's number.
doctor 0 "  ok    ranks        3 on 1 host" "$weft" doctor "$dir" ranks=3
grep -qE "  ok    connections +each rank reaches the 2 others, in [0-9]+ ms" "$dir/out" || fail "expected connections"
grep -qE "  ok    collectives +all-reduce over 3 ranks: [0-9]+ us for 4 B, [0-9.]+ ms for 4\.0 MiB" "$dir/out" || fail "expected sums"
doctor 0 "processor" "$weft" doctor "$dir" --ranks 1
doctor 2 'ranks: expected an integer >= 1 and <= 65536, got "x"' "$weft" doctor ranks=x
doctor 2 'rank: unknown argument; did you mean ranks?' "$weft" doctor rank=2
doctor 2 "ranks: expected 2, as many as the launcher started, got 3" mpirun -np 2 "$weft" doctor ranks=3
doctor 1 "ranks: mpirun cannot be started" env PATH=/nowhere "$weft" doctor ranks=2

# What fails between ranks is named, with the rank and the check. The first collective connects.
for fault in "throw:1|the ranks connect" "throw:3|the ranks reduce"; do
  # In rank 1 only. mpirun of Open MPI 5.0.7 crashes where commands are joined by a colon.
  doctor 1 ": ${fault#*|}: " mpirun -np 2 bash -c \
    "[ \$OMPI_COMM_WORLD_RANK -eq 0 ] || export WEFT_FAULT=collective:${fault%|*}; exec '$weft' doctor '$dir'"
  grep -qE "^weft: rank [01]: ${fault#*|}: " "$dir/out" || fail "expected a line with the rank and the check"
done
echo "doctor: ok"
