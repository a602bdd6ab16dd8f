#!/usr/bin/env bash
# Installs what Weft needs to be built, tested and run on Debian 12. Asks nothing; says nothing when all is there.
set -euo pipefail

packages=(build-essential cmake ninja-build ccache mold
  openmpi-bin libopenmpi-dev libgloo-dev libdnnl-dev libopenblas-dev
  libabsl-dev libfmt-dev libyaml-cpp-dev nlohmann-json3-dev libsentencepiece-dev libgtest-dev
  libgmock-dev)

if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
  echo "setup: this is no Debian; install the likes of: ${packages[*]}" >&2
  exit 0
fi

installed=" $(dpkg-query -W -f='${db:Status-Status}:${Package} ' "${packages[@]}" 2> /dev/null || true)"
missing=()
for package in "${packages[@]}"; do
  [[ $installed == *" installed:$package "* ]] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo > /dev/null || ! sudo -n true 2> /dev/null; then
    echo "setup: ${missing[*]} missing; run this as root: $(realpath "$0")" >&2
    exit 1
  fi
  root=(sudo -n)
fi

echo "setup: installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -qq -o DPkg::Lock::Timeout=300 "$@" >> "$log" 2>&1
}
apt update || true  # the lists at hand may do
if ! apt install --no-install-recommends "${missing[@]}"; then
  cat "$log" >&2
  echo "setup: apt-get could not install ${missing[*]}" >&2
  exit 1
fi
