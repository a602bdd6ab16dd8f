#!/usr/bin/env bash
# An archive of launcher/bundle.sh, unpacked in another folder, runs with its own libraries.
# Usage: bundle_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/prelude.sh"
cd "$dir"
WEFT_BUILD=$build "$root/launcher/bundle.sh" "$dir/weft.tar.gz"
tar -xzf weft.tar.gz
unset LD_LIBRARY_PATH
failed=0
for program in weft/bin/*; do
  while read -r name _ found _; do
    [ ! -e "weft/lib/$name" ] || [ "$(realpath "$found")" = "$(realpath "weft/lib/$name")" ] || {
      echo "bundle_test: $program takes $name from $found; expected the archive's" >&2
      failed=1
    }
  done < <(ldd "$program")
done
# A job without a GPU does not pay for CUDA: its library is opened on demand.
if ldd weft/bin/weft | grep -E 'libweft_cuda|libcu(da|blas|dnn)'; then
  echo "bundle_test: weft links the above; expected CUDA's libraries to be opened on demand" >&2
  failed=1
fi
# OpenBLAS and what it uses are the archive's too.
LD_DEBUG=libs weft/bin/weft doctor 2>&1 | sed -n 's/.*calling init: \(.*\/lib\(openblas\|gfortran\|quadmath\).*\)/\1/p' > opened
grep -q libopenblas opened || { echo "bundle_test: expected weft doctor to open libopenblas, got $(cat opened)" >&2; failed=1; }
if grep -v "^$PWD/weft/" opened; then
  echo "bundle_test: weft doctor opens the above; expected the archive's" >&2
  failed=1
fi
weft/bin/weft --version
size=$(stat -c %s weft.tar.gz)
[ "$size" -le $((50 << 20)) ] || { echo "bundle_test: $size bytes, expected at most 50 MiB" >&2; failed=1; }
exit $failed
