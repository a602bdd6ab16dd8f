#!/usr/bin/env bash
# setup.sh with a pretended package system: quiet when nothing is missing, exact and unasking when something is.
# Usage: setup_test.sh ROOT
set -euo pipefail
setup=$1/launcher/setup.sh
fakes=$(mktemp -d)
trap 'rm -rf "$fakes"' EXIT

fake() { printf '#!/bin/bash\n%s\n' "$2" > "$fakes/$1" && chmod +x "$fakes/$1"; }
run() { out=$(PATH="$fakes:$PATH" bash "$setup" 2>&1) && rc=0 || rc=$?; }
fail() { echo "setup_test: $1; rc $rc, output: $out; calls: $(cat "$fakes/calls" 2> /dev/null)"; exit 1; }

everything='for p in "${@:3}"; do printf "installed:%s " "$p"; done'
fake apt-get "echo \"\$DEBIAN_FRONTEND \$*\" >> $fakes/calls"
fake id 'echo 0'
fake dpkg-query "$everything"
run
[ $rc -eq 0 ] && [ -z "$out" ] && [ ! -e "$fakes/calls" ] || fail "expected silence when nothing is missing"

fake dpkg-query 'for p in "${@:3}"; do [ "$p" = mold ] || [ "$p" = libgloo-dev ] || printf "installed:%s " "$p"; done; exit 1'
run
[ $rc -eq 0 ] && [ "$out" = "setup: installing mold libgloo-dev" ] || fail "expected the two packages to be named"
grep -q '^noninteractive -y .*install --no-install-recommends mold libgloo-dev$' "$fakes/calls" || fail "wrong call of apt-get"

fake apt-get 'echo "E: no network"; exit 100'
run
[ $rc -eq 1 ] && [[ $out == *"E: no network"*"could not install mold libgloo-dev" ]] || fail "expected apt-get's words"

fake id 'echo 1000'
fake sudo 'exit 1'
run
[ $rc -eq 1 ] && [[ $out == *"missing; run this as root:"* ]] || fail "expected advice without root"

fake sudo "shift; [ \$1 = true ] || { echo sudo >> $fakes/calls; \"\$@\"; }"
fake apt-get "echo \"\$*\" >> $fakes/calls"
run
[ $rc -eq 0 ] && grep -q sudo "$fakes/calls" || fail "expected sudo to be used"
echo "setup: ok"
