#!/usr/bin/env bash
# numpy reads what weft prepare writes, as the field's scripts do.
# Usage: numpy_shards_test.sh ROOT BUILD; exits 77 (skipped) where the program or numpy is not there.
set -euo pipefail
cd "$1"
weft=$2/weft
[ -x "$weft" ] || exit 77
python3 -c 'import numpy' 2> /dev/null || { echo "skipped: no python3 with numpy here"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$weft" prepare "$dir/out" README.md val=0.1 shard=9000 > "$dir/log"
python3 tests/interop/numpy_bin.py README.md "$dir"/out/train_*.bin "$dir/out/val.bin"
