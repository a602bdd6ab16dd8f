# shellcheck shell=bash
# Sourced by tests that want several hosts, after prelude.sh: network namespaces on one switch. They go when the test
# ends. Nothing outside them can reach them. Hosts are numbered from 0.

space=weft-$$
host_space() { echo "$space-$1"; }

# make_hosts N: N hosts, 10.98.0.1 and so on. Ends the test with 77 (skipped) where they may not be made.
make_hosts() {
  local i
  hosts=$1
  if ! ip netns add "$space-switch" 2> "$dir/err"; then
    echo "$test_name: skipped, because no network namespace may be made here: $(cat "$dir/err")"
    exit 77
  fi
  trap 'remove_hosts; jobs -p | xargs -r kill 2> /dev/null || true; rm -rf "$dir"' EXIT
  ip -n "$space-switch" link add switch type bridge
  ip -n "$space-switch" link set switch up
  for ((i = 0; i < hosts; i++)); do
    ip netns add "$space-$i"
    ip -n "$space-$i" link set lo up
    ip link add "weft$i" netns "$space-$i" type veth peer name "port$i" netns "$space-switch"
    ip -n "$space-switch" link set "port$i" master switch up
    ip -n "$space-$i" addr add "10.98.0.$((i + 1))/24" dev "weft$i"
    ip -n "$space-$i" link set "weft$i" up
  done
  # A program, because mpirun starts its daemons by it: enter HOST COMMAND...
  cat > "$dir/enter" << ENTER
#!/usr/bin/env bash
[ -e $dir/hosts ] || exec ip netns exec $space-\$1 "\${@:2}"
exec ip netns exec $space-\$1 unshare --uts sh -c 'mount --bind "\$1" /etc/hosts && hostname "\$2" && shift 2 && exec "\$@"' \
  enter $dir/hosts node\$((\$1 + 1)) "\${@:2}"
ENTER
  chmod +x "$dir/enter"
}
# name_hosts: from now on processes on a host have a name of their own for it, node1, node2 and so on, and hosts find
# each other by these names. Without it all have the name of this machine.
name_hosts() {
  local i
  echo "127.0.0.1 localhost" > "$dir/hosts"
  for ((i = 1; i <= hosts; i++)); do echo "10.98.0.$i node$i" >> "$dir/hosts"; done
}

# slow_links MBIT MS: from now on a host sends and receives MBIT Mbit/s at most, and a frame needs MS ms from one host to
# another: half of it in each of the two cables. Ends the test with 77 (skipped) where rates may not be limited.
slow_links() {
  local i ends=() bucket=(root tbf rate "$1mbit" burst 16kb limit 16mb)
  [ -z "${delay_line:-}" ] || { kill "$delay_line" && wait "$delay_line" || true; }
  for ((i = 0; i < hosts; i++)); do
    [ -n "${delay_line:-}" ] || lengthen "$i"
    ends+=("near$i" "far$i")
    # BBR, the default of some kernels, spreads a message over much of a round trip.
    ip netns exec "$space-$i" sh -c 'echo reno > /proc/sys/net/ipv4/tcp_congestion_control'
    tc -n "$space-$i" qdisc replace dev "weft$i" "${bucket[@]}" 2> "$dir/err" &&
      tc -n "$space-switch" qdisc replace dev "port$i" "${bucket[@]}" 2> "$dir/err" || {
      echo "$test_name: skipped, because no rate may be limited here: $(cat "$dir/err")"
      exit 77
    }
  done
  # Ahead of the ranks: what it needs until it runs adds to the delay. A process of its own, so that kill reaches it.
  timeout 600 ip netns exec "$space-switch" nice -n -20 "$build/tests/failure/delay_line" $(($2 * 500)) "${ends[@]}" \
    > "$dir/delay_line" 2>&1 < /dev/null &
  delay_line=$!
  for _ in $(seq 250); do
    ! grep -q ready "$dir/delay_line" || return 0
    sleep 0.02
  done
  fail "expected the cables to be ready: $(cat "$dir/delay_line")"
}
# lengthen HOST: makes two of its cable, with room for a delay between near$1 and far$1.
lengthen() {
  ip -n "$space-switch" link set "port$1" down
  ip -n "$space-switch" link set "port$1" nomaster name "near$1"
  ip -n "$space-switch" link add "port$1" type veth peer name "far$1"
  ip -n "$space-switch" link set "port$1" master switch up
  ip -n "$space-switch" link set "near$1" up
  ip -n "$space-switch" link set "far$1" up
}
remove_hosts() {
  local i
  for ((i = 0; i < hosts; i++)); do ip netns del "$space-$i" 2> /dev/null || true; done
  ip netns del "$space-switch" 2> /dev/null || true
}
# isolate HOST: it no longer reaches other isolated hosts; join HOST: it does again.
isolate() { ip -n "$space-switch" link set "port$1" type bridge_slave isolated on; }
join() { ip -n "$space-switch" link set "port$1" type bridge_slave isolated off; }
# unplug HOST: it reaches nobody.
unplug() { ip -n "$space-switch" link set "port$1" down; }

# mpirun_on_hosts WORDS...: ranks that mpirun, on the first host, starts as over ssh: one on each host, or mpi_slots on
# each of the first mpi_hosts. Each call has a folder of temporary files for each host: daemons of two jobs that start at
# the same time may fail in one folder.
mpirun_on_hosts() {
  local i spec="" count=${mpi_hosts:-$hosts} slots=${mpi_slots:-1} job
  job=$(mktemp -d "$dir/job.XXXXXX")
  for ((i = 1; i <= count; i++)); do
    spec+=${spec:+,}10.98.0.$i:$slots
    mkdir "$job/tmp.$i"
  done
  cat > "$job/agent" << AGENT
#!/usr/bin/env bash
number=\${1##*.}
export TMPDIR=$job/tmp.\$number
exec $dir/enter \$((number - 1)) bash -c "\${*:2}"
AGENT
  chmod +x "$job/agent"
  TMPDIR=$job/tmp.1 OMPI_MCA_plm_rsh_agent=$job/agent within 100 "$dir/enter" 0 mpirun --host "$spec" \
    -np $((count * slots)) "$@"
}
