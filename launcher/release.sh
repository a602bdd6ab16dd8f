#!/usr/bin/env bash
# Makes what a release publishes from build/release, or WEFT_BUILD, and checks that the changelog has the version:
#
#   weft-VERSION-SYSTEM.tar.gz       the program with the libraries that it uses (launcher/bundle.sh)
#   weft-VERSION-SYSTEM-dev.tar.gz   what `cmake --install` installs: the program, libweft.so, headers, the CMake package
#   weft-VERSION-source.tar.gz       the sources of the commit
#   NOTES.md, SHA256SUMS             the changelog of the version, and a checksum of each archive
#
#   launcher/release.sh FOLDER [TAG]     with TAG, also checks that it is "v" and the version
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:---help} in -h | --help) sed -n '2,9s/^# \{0,1\}//p' launcher/release.sh; exit 0 ;; esac
build=${WEFT_BUILD:-build/release}
out=$(realpath -m "$1")
version=$(sed -nE 's/^project\(weft VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
[ -z "${2:-}" ] || [ "$2" = "v$version" ] ||
  { echo "release: the tag is $2, and CMakeLists.txt has version $version; expected v$version" >&2; exit 1; }
notes=$(awk -v version="$version" '/^## / { on = $2 == version; next } on' CHANGELOG.md)
[[ $notes =~ [^[:space:]] ]] || { echo "release: CHANGELOG.md has no section \"## $version\"" >&2; exit 1; }
if [ ! -x "$build/weft" ] || [ ! -e "$build/libweft.so" ]; then
  echo "release: $build has no program or no library; build all first: cmake --build --preset release" >&2
  exit 1
fi

# Archives use the libraries of the system that built them, so its name is part of theirs.
system() {
  # shellcheck source=/dev/null
  (ID="" VERSION_ID="" && . /etc/os-release && echo "$ID$VERSION_ID-$(uname -m)")
}
name=weft-$version
mkdir -p "$out"
WEFT_BUILD=$build launcher/bundle.sh "$out/$name-$(system).tar.gz"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
cmake --install "$build" --prefix "$stage/$name" --strip > "$stage/log" || { cat "$stage/log" && exit 1; }
tar -C "$stage" -czf "$out/$name-$(system)-dev.tar.gz" "$name"
git archive --prefix="$name/" -o "$out/$name-source.tar.gz" HEAD
printf '%s\n' "$notes" > "$out/NOTES.md"
(cd "$out" && sha256sum "$name"-*.tar.gz > SHA256SUMS && cat SHA256SUMS)
