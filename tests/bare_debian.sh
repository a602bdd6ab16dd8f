#!/usr/bin/env bash
# Runs the README's two commands from a clean clone in a bare Debian (debootstrap) on two cores: as root, and as a user with sudo,
# for whom packages are already downloaded. That user also runs the tests, because .ci/run runs them as root. Prints the time of
# each part. Fails at once if a part fails, and at the end if a part took longer than its line allows.
#
#   tests/bare_debian.sh FOLDER [RELEASE]   as root; RELEASE is bookworm (Debian 12, the default) or trixie (Debian 13).
#       Uses about 5 GB in FOLDER. A bare system of that release in FOLDER/base is reused.
set -euo pipefail
release=${2:-bookworm}
if [ $# -lt 1 ] || [ $# -gt 2 ] || [[ $release != bookworm && $release != trixie ]] || [ "$(id -u)" -ne 0 ]; then
  sed -n '2,7s/^# \{0,1\}//p' "$0"
  exit 2
fi
source_tree=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
folder=$(realpath "$1")
unmount() {
  for system in root sudo; do
    umount -R "$folder/$system/proc" "$folder/$system/sys" "$folder/$system/dev" 2> /dev/null || true
  done
}
trap unmount EXIT

say() { echo "bare_debian: $*"; }
# within MOST TOOK WHAT: prints the time of WHAT, and makes the script fail at the end if TOOK exceeds MOST.
slow=0
within() {
  say "$3: $2 (expected at most $1)"
  [ "$2" -le "$1" ] || slow=1
}
# make NAME: makes a copy of the bare system that contains a clone of this tree.
make() {
  cp -a "$folder/base" "$folder/$1"
  mount -t proc proc "$folder/$1/proc"
  mount -t sysfs -o ro sysfs "$folder/$1/sys"
  mount --rbind /dev "$folder/$1/dev"
  mount --make-rslave "$folder/$1/dev"
  cp /etc/resolv.conf "$folder/$1/etc/resolv.conf"
  # An installed system has both names. MPI looks them up, and would wait for a DNS server if they were missing.
  printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$(hostname)" > "$folder/$1/etc/hosts"
  chroot "$folder/$1" useradd -m -s /bin/bash weft
  echo 'weft ALL=(ALL) NOPASSWD:ALL' > "$folder/$1/etc/sudoers.d/weft"
  git clone -q --no-local "$source_tree" "$folder/$1/home/weft/weft"
  chroot "$folder/$1" chown -R weft:weft /home/weft/weft
}
# as SYSTEM COMMAND: runs the command in the clone with a clean environment.
as() {
  local user=weft
  [ "$1" != root ] || user=root
  taskset -c 0,1 chroot "$folder/$1" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    su "$user" -s /bin/bash -c "cd /home/weft/weft && git config --global --add safe.directory /home/weft/weft && $2"
}

# trained SYSTEM: checks the training time of the quickstart, and that it ended with a sample.
trained() {
  within 180 "$(sed -nE 's/.*"event":"end".*"seconds":([0-9]+).*/\1/p' "$folder/$1/home/weft/weft/build/quickstart.jsonl")" "training, $1, in s"
  tail -n 12 "$folder/quickstart.$1.log"
  grep -q '300 tokens in' "$folder/quickstart.$1.log"
}
# second SYSTEM: checks the time to the first step of a second quickstart. Everything is built by then, so that is how long a
# user waits.
second() {
  local begin first
  begin=$(date +%s%N)
  first=$(as "$1" 'stdbuf -oL ./launcher/quickstart.sh train.steps=20 log.every=1' 2>&1 |
    while IFS= read -r line; do [[ $line != "step "*" 1/20 "* ]] || date +%s%N; done | head -n 1)
  within 2000 $(((${first:?no first step was printed} - begin) / 1000000)) "a second quickstart's first step, $1, in ms"
}
tests() {
  local begin=$SECONDS
  as sudo ./tests/run.sh > "$folder/tests.log" 2>&1 || { tail -n 40 "$folder/tests.log"; return 1; }
  grep '^100% tests passed' "$folder/tests.log"
  say "tests: $((SECONDS - begin)) s"
}

begin=$SECONDS
if [ ! -e "$folder/base/etc/debian_version" ]; then
  debootstrap --variant=minbase --include=ca-certificates,git,sudo "$release" "$folder/base" > "$folder/debootstrap.log"
fi
grep -q "^VERSION_CODENAME=$release\$" "$folder/base/etc/os-release" ||
  { say "$folder/base is another release than $release; give another folder"; exit 2; }
rm -rf "$folder/root" "$folder/sudo"
echo 'APT::Keep-Downloaded-Packages "true";' > "$folder/base/etc/apt/apt.conf.d/keep"
say "bare system: $((SECONDS - begin)) s"

make root
begin=$SECONDS
as root './launcher/quickstart.sh log.jsonl=build/quickstart.jsonl' > "$folder/quickstart.root.log" 2>&1
within 1200 $((SECONDS - begin)) "quickstart as root, with downloads, in s"
trained root
second root

make sudo
cp "$folder"/root/var/cache/apt/archives/*.deb "$folder/sudo/var/cache/apt/archives/"
begin=$SECONDS
as sudo './launcher/quickstart.sh log.jsonl=build/quickstart.jsonl' > "$folder/quickstart.sudo.log" 2>&1
within 720 $((SECONDS - begin)) "quickstart with sudo, from clone to sample, in s"
trained sudo
second sudo
tests
tail -n 25 "$folder/tests.log"
exit $slow
