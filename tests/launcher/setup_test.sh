#!/usr/bin/env bash
# setup.sh with a pretended package system: quiet when nothing is missing, exact and unasking when something is. And with
# a pretended CUDA toolkit and Python: what it fetches and what it names where nvcc is, and only there.
# Usage: setup_test.sh ROOT
set -euo pipefail
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
fakes=$tree/fakes setup=$tree/launcher/setup.sh deps=$tree/build/deps
mkdir "$fakes" "$tree/launcher"
cp "$1/launcher/setup.sh" "$setup"
# Which system this is, is pretended too.
sed -i "s|^os_release=.*|os_release=$tree/os-release|" "$setup"
system() { printf 'NAME="%s"\n%s\n' "$1" "${2:+VERSION_ID=\"$2\"}" > "$tree/os-release"; }
system "Debian GNU/Linux" 12

fake() { printf '#!/bin/bash\n%s\n' "$2" > "$fakes/$1" && chmod +x "$fakes/$1"; }
# Without a toolkit that this machine may have, and from the middle on with a pretended one.
mkdir "$tree/tools"
for tool in bash cat chmod cp dirname env grep id ldconfig ls mkdir mktemp mv realpath rm sed; do
  ln -s "$(PATH=$PATH:/sbin command -v $tool)" "$tree/tools/$tool"
done
toolkit=none
run() { out=$(PATH="$fakes:$tree/tools" CUDA_HOME="$fakes/$toolkit" bash "$setup" 2>&1) && rc=0 || rc=$?; }
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

system "Debian GNU/Linux" 13
run
[ $rc -eq 0 ] && [ "$out" = "setup: installing mold libgloo-dev" ] || fail "expected Debian 13 to be installed on"
for other in "Debian GNU/Linux:" "Debian GNU/Linux:11" "Ubuntu:24.04"; do
  system "${other%:*}" "${other#*:}"
  rm "$fakes/calls"
  run
  name=${other%:*} number=${other#*:}
  [ $rc -eq 1 ] && [ ! -e "$fakes/calls" ] &&
    [[ $out == "setup: this is ${name% GNU/Linux}${number:+ $number}, and packages are installed on Debian 12 and 13 only; "*": mold libgloo-dev" ]] ||
    fail "expected $other to be named with what is missing"
  touch "$fakes/calls"
done
fake dpkg-query "$everything"
run
[ $rc -eq 0 ] && [ -z "$out" ] || fail "expected silence on another system where nothing is missing"
rm "$fakes/dpkg-query"
system "Fedora Linux" 41
run
[ $rc -eq 1 ] && [[ $out == "setup: this is Fedora Linux 41, "*"build-essential"*"iproute2" ]] || fail "expected all packages to be named on Fedora"
rm "$tree/os-release"
run
[ $rc -eq 1 ] && [[ $out == "setup: this is a system without $tree/os-release, "* ]] || fail "expected a system without a name to be refused"
system "Debian GNU/Linux" 12
fake dpkg-query 'for p in "${@:3}"; do [ "$p" = mold ] || [ "$p" = libgloo-dev ] || printf "installed:%s " "$p"; done; exit 1'

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

# A bare Debian 13 has no Python; Weft needs it for the headers of cudnn-frontend only.
if ! command -v python3 > /dev/null; then
  echo "setup: ok; no python3 here, so the headers of cudnn-frontend were not looked at"
  exit 0
fi

# From here on nvcc is there, and pip downloads what is a wheel to it: the frontend's version and hash are asked for.
toolkit=cuda
mkdir -p "$fakes/cuda/bin" "$fakes/cuda/include" "$fakes/cuda/lib64" "$fakes/wheel/include/cudnn_frontend"
printf '#!/bin/bash\necho "Cuda compilation tools, release 13.0, V13.0.88"\n' > "$fakes/cuda/bin/nvcc"
chmod +x "$fakes/cuda/bin/nvcc"
touch "$fakes/wheel/include/cudnn_frontend.h" "$fakes/wheel/module.py"
python=$(python3 -c 'import sys; print(sys.executable)')
(cd "$fakes/wheel" && "$python" -m zipfile -c ../frontend.whl include module.py)
pip="for a in \"\$@\"; do [ \"\$last\" != -d ] || to=\$a; [ \"\$last\" != -r ] || what=\$a; last=\$a; done
  [[ \" \$* \" == *' --require-hashes '* ]] && grep -qE '^nvidia-cudnn-frontend==[0-9.]+ --hash=sha256:[0-9a-f]{64}\$' \"\$what\" && cp $fakes/frontend.whl \"\$to\""
fake python3 "if [[ \$* == '-m pip --version' ]]; then exit 0; fi
if [[ \$1 == -m ]]; then echo pip >> $fakes/pip; $pip; else exec $python \"\$@\"; fi"
fake dpkg-query "$everything"
touch "$fakes/cuda/include/cudnn.h" "$fakes/cuda/lib64/libcudnn.so.9"
run
[ $rc -eq 0 ] && [[ $out == "setup: fetching the headers of cudnn-frontend "* ]] || fail "expected the headers to be fetched"
[ -e "$deps/cudnn-frontend/include/cudnn_frontend.h" ] && [ ! -e "$deps/cudnn-frontend/module.py" ] || fail "expected the wheel's include/ only"
[ "$(ls "$deps")" = cudnn-frontend ] || fail "expected nothing else in build/deps, got $(ls "$deps")"
run
[ $rc -eq 0 ] && [ -z "$out" ] && [ "$(cat "$fakes/pip")" = pip ] || fail "expected silence, and no second download"

echo another > "$deps/cudnn-frontend/sha256"
run
[ "$(grep -c pip "$fakes/pip")" = 2 ] && [ "$(cat "$deps/cudnn-frontend/sha256")" != another ] || fail "expected headers of another wheel to be replaced"

rm "$fakes/cuda/include/cudnn.h"
run
[ $rc -eq 0 ] && [[ $out == *"cudnn.h not found"*"install cudnn9-cuda-13 "* ]] || fail "expected cuDNN's package to be named"

rm -r "$deps"
fake python3 "[[ \$* == '-m pip --version' ]] || { echo 'ERROR: no network'; exit 1; }"
run
[ $rc -eq 0 ] && [[ $out == *"ERROR: no network"*"could not be fetched"* ]] && [ -z "$(ls "$deps")" ] || fail "expected pip's output, and the setup to continue"

fake python3 'exit 1'
fake dpkg-query 'for p in "${@:3}"; do [ "$p" = python3-pip ] || printf "installed:%s " "$p"; done'
run
[[ $out == *"setup: installing python3-pip"* ]] || fail "expected pip to be installed where nvcc is and pip is not"
echo "setup: ok"
