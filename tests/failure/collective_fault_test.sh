#!/usr/bin/env bash
# A rank that dies, is suspended, or makes other calls than the rest ends the job soon, and one line says which rank it
# was, where, and in which collective.
# Usage: collective_fault_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/../launcher/prelude.sh"
fault=$build/tests/failure/collective_fault wrapper=

# faulty NP RANK FAULT PATTERN: with a timeout of 1 s; what is promised of the time, failure_test shows.
faulty() {
  local code=0 pid moment
  within 60 mpirun -np "$1" $wrapper "$fault" "$3" "$2" > "$dir/out" 2>&1 < /dev/null || code=$?
  read -r pid moment < <(sed -nE "s/^fault: rank $2 pid ([0-9]+) at ([0-9]+)\$/\1 \2/p" "$dir/out") ||
    fail "expected a line of the fault"
  judged $code $((($(now) - moment) / 1000000)) 5000 "rank $2 \(host $host, pid $pid\) $4"
}
faulty 4 2 kill 'died first: .*all_reduce #1[01] on (dp|tp|world)'
faulty 4 1 stop 'was suspended first: all_reduce #11 on (dp|tp|world)'
faulty 4 2 skip 'failed first: all_reduce #11 on dp'
faulty 4 3 shape 'failed first: all_reduce #11 on dp: it called all_reduce f32 x 999 sum'
faulty 4 0 dtype 'failed first: all_reduce #11 on dp: it called all_reduce f64 x 1000 sum'
faulty 4 2 order 'failed first: all_reduce #11 on dp'
for rank in 0 1; do  # of two, the one that does not repeat itself
  faulty 2 $rank skip 'failed first: all_reduce #11 on dp'
  faulty 2 $rank shape 'failed first: all_reduce #11 on dp: it called all_reduce f32 x 999 sum'
  faulty 2 $rank dtype 'failed first: all_reduce #11 on dp: it called all_reduce f64 x 1000 sum'
done
# A rank without a processor for a while runs, so it is not silent.
faulty 2 1 late 'failed first: all_reduce #11 on dp'
faulty 2 1 busy 'failed first: all_reduce #11 on dp'
faulty 4 3 throw 'failed first: the odd rank gives up; its last call: all_reduce #10 on world'
# The ranks as on two hosts: who hears nothing of the odd one cannot look at it, but one of its host can.
if unshare --uts true 2> /dev/null; then
  cat > "$dir/on_two_hosts.sh" <<'END'
#!/usr/bin/env bash
exec unshare --uts bash -c 'hostname "host-$((OMPI_COMM_WORLD_RANK / 2))"; exec "$@"' bash "$@"
END
  chmod +x "$dir/on_two_hosts.sh"
  wrapper=$dir/on_two_hosts.sh host=host-1
  faulty 4 2 stop 'was suspended first: all_reduce #11 on (dp|tp|world)'
  faulty 4 2 stop_unseen 'was suspended first: all_reduce #11 on dp'
  faulty 4 3 kill 'died first: .*all_reduce #1[01] on (dp|tp|world)'
else
  echo "collective faults: no host names of their own here, so ranks of two hosts are not tried"
fi
echo "collective faults: ok"
