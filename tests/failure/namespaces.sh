# shellcheck shell=bash
# Sourced by tests that want several hosts, after prelude.sh: network namespaces on one switch. They go when the test
# ends. Nothing outside them can reach them.

space=weft-$$
host_space() { echo "$space-$1"; }

# make_hosts N: N hosts, 10.98.0.1 and so on. Ends the test with 77 (skipped) where they may not be made.
make_hosts() {
  local i
  hosts=$1
  if ! ip netns add "$space-switch" 2> "$dir/err"; then
    echo "$test_name: skipped, for no network namespace may be made here: $(cat "$dir/err")"
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

# mpirun_on_hosts WORDS...: one rank on each host, which mpirun, on the first one, starts as over ssh. The hosts have
# folders for temporary files of their own.
mpirun_on_hosts() {
  local i spec=""
  for ((i = 0; i < hosts; i++)); do
    spec+=${spec:+,}10.98.0.$((i + 1)):1
    mkdir -p "$dir/tmp.$((i + 1))"
  done
  [ -x "$dir/agent" ] || cat > "$dir/agent" << AGENT
#!/usr/bin/env bash
number=\${1##*.}
export TMPDIR=$dir/tmp.\$number
exec ip netns exec $space-\$((number - 1)) bash -c "\${*:2}"
AGENT
  chmod +x "$dir/agent"
  TMPDIR=$dir/tmp.1 OMPI_MCA_plm_rsh_agent=$dir/agent within 100 ip netns exec "$(host_space 0)" mpirun --host "$spec" \
    -np "$hosts" "$@"
}
