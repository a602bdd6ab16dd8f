#!/usr/bin/env bash
# Runs the README's two commands from a clean clone in a bare Debian (debootstrap) on two cores: as root, and as a user with sudo,
# for whom packages are already downloaded. That user also runs the tests, because .ci/run runs them as root, and then installs
# Weft to /usr/local and builds the examples and a project of its own outside of the tree against it. Prints the time of each
# part. Fails at once if a part fails, and at the end if a part took longer than its line allows.
#
#   tests/bare_debian.sh FOLDER [RELEASE [USER]]   as root; RELEASE is bookworm (Debian 12, the default) or trixie (Debian 13),
#       and USER is root or sudo, both by default. Uses about 5 GB in FOLDER. A bare system of that release in FOLDER/base is
#       reused. With WEFT_BARE_CACHE=FOLDER the builds use that cache of ccache, so that their times say nothing.
set -euo pipefail
release=${2:-bookworm} users=${3:-root sudo} cache=${WEFT_BARE_CACHE:-}
if [ $# -lt 1 ] || [[ $release != bookworm && $release != trixie ]] || [[ " root sudo " != *" $users "* ]] || [ "$(id -u)" -ne 0 ]; then
  sed -n '2,9s/^# \{0,1\}//p' "$0"
  exit 2
fi
source_tree=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
folder=$(realpath "$1")
unmount() {
  for system in root sudo; do
    umount -R "$folder/$system/proc" "$folder/$system/sys" "$folder/$system/dev" "$folder/$system/mnt" 2> /dev/null || true
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
  unmount
  ! grep -qF " $folder/$1/" /proc/mounts || { say "something is still mounted in $folder/$1"; exit 1; }
  rm -rf "${folder:?}/$1"
  cp -a "$folder/base" "$folder/$1"
  mount -t proc proc "$folder/$1/proc"
  mount -t sysfs -o ro sysfs "$folder/$1/sys"
  mount --rbind /dev "$folder/$1/dev"
  mount --make-rslave "$folder/$1/dev"
  [ -z "$cache" ] || mount --bind "$cache" "$folder/$1/mnt"
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
  local user=weft settings=()
  [ "$1" != root ] || user=root
  [ -z "$cache" ] || settings=(CCACHE_DIR=/mnt CCACHE_UMASK=000)
  taskset -c 0,1 chroot "$folder/$1" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    ${settings[@]+"${settings[@]}"} su "$user" -s /bin/bash -c "cd /home/weft/weft && git config --global --add safe.directory /home/weft/weft && $2"
}

# logged LOG SYSTEM COMMAND: runs the command as SYSTEM with its output in LOG, and prints the end of LOG if it fails.
logged() {
  local log=$folder/$1
  shift
  as "$@" > "$log" 2>&1 || { tail -n 40 "$log"; say "failed, with all output in $log: $2"; return 1; }
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
  logged tests.log sudo ./tests/run.sh
  grep '^100% tests passed' "$folder/tests.log"
  say "tests: $((SECONDS - begin)) s"
}
# Installs to /usr/local what the tests have built, hides the tree, and uses the installed Weft from other folders.
installed() {
  local begin=$SECONDS home=$folder/sudo/home/weft
  logged install.log sudo 'sudo cmake --install build/release && cp -r examples tests/installed.sh ~'
  mv "$home/weft" "$home/hidden"
  mkdir "$home/weft"  # where commands start
  logged installed.log sudo 'cd && ./installed.sh examples && weft version'
  rmdir "$home/weft"
  mv "$home/hidden" "$home/weft"
  cat "$folder/installed.log"
  say "install, and examples outside of the tree: $((SECONDS - begin)) s"
}

begin=$SECONDS
if [ ! -e "$folder/base/etc/debian_version" ]; then
  debootstrap --variant=minbase --include=ca-certificates,git,sudo "$release" "$folder/base" > "$folder/debootstrap.log" ||
    { tail -n 20 "$folder/debootstrap.log"; exit 1; }
fi
grep -q "^VERSION_CODENAME=$release\$" "$folder/base/etc/os-release" ||
  { say "$folder/base is another release than $release; give another folder"; exit 2; }
[ -z "$cache" ] || cache=$(mkdir -p "$cache" && chmod -R a+rwX "$cache" && realpath "$cache")
echo 'APT::Keep-Downloaded-Packages "true";' > "$folder/base/etc/apt/apt.conf.d/keep"
say "bare system: $((SECONDS - begin)) s"

as_root() {
  local begin
  make root
  begin=$SECONDS
  logged quickstart.root.log root './launcher/quickstart.sh log.jsonl=build/quickstart.jsonl'
  within 1200 $((SECONDS - begin)) "quickstart as root, with downloads, in s"
  trained root
  second root
}
with_sudo() {
  local begin
  make sudo
  # Packages that the root's system has downloaded.
  cp "$folder"/root/var/cache/apt/archives/*.deb "$folder/sudo/var/cache/apt/archives/" 2> /dev/null || true
  begin=$SECONDS
  logged quickstart.sudo.log sudo './launcher/quickstart.sh log.jsonl=build/quickstart.jsonl'
  within 720 $((SECONDS - begin)) "quickstart with sudo, from clone to sample, in s"
  trained sudo
  second sudo
  tests
  tail -n 25 "$folder/tests.log"
  installed
}
[[ $users != root* ]] || as_root
[[ $users != *sudo ]] || with_sudo
exit $slow
