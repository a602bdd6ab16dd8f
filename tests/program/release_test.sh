#!/usr/bin/env bash
# launcher/release.sh makes archives with checksums, notes and a program that runs, and refuses another tag.
# Usage: release_test.sh ROOT BUILD; exits 77 (skipped) if the program or the library is not built, or git has no commit here.
# shellcheck source=tests/launcher/prelude.sh
source "$(dirname "$0")/../launcher/prelude.sh"
if [ ! -e "$build/libweft.so" ] || ! git rev-parse -q --verify HEAD > "$dir/out" 2>&1; then exit 77; fi
version=$("$weft" version | sed -nE 's/^weft ([0-9.]+).*/\1/p')

code=0
WEFT_BUILD=$build launcher/release.sh "$dir/refused" v0.0.0 > "$dir/out" 2>&1 || code=$?
[ $code -eq 1 ] || fail "expected tag v0.0.0 to be refused"
grep -qF "expected v$version" "$dir/out" || fail "expected the tag that is right"
code=0
WEFT_BUILD=$build launcher/release.sh "$dir/archives" "v$version" > "$dir/out" 2>&1 || code=$?
[ $code -eq 0 ] || fail "expected the archives"

cd "$dir/archives"
sha256sum --quiet -c SHA256SUMS > "$dir/out" 2>&1 || fail "expected the checksums of the archives"
[ "$(wc -l < SHA256SUMS)" -eq 3 ] || fail "expected three archives"
grep -q '^- ' NOTES.md || fail "expected notes"
for archive in *.tar.gz; do tar -xzf "$archive"; done
for program in weft/bin/weft "weft-$version/bin/weft"; do
  "$program" version > "$dir/out" 2>&1 || fail "expected $program to run"
  grep -qF "weft $version" "$dir/out" || fail "expected the version from $program"
done
for file in CMakeLists.txt launcher/setup.sh include/weft/weft.h lib/libweft.so lib/cmake/weft/weftConfig.cmake; do
  [ -e "weft-$version/$file" ] || fail "expected $file in the archives"
done
