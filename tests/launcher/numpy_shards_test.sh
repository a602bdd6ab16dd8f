#!/usr/bin/env bash
# numpy reads what weft prepare writes, as the field's scripts do.
# Usage: numpy_shards_test.sh ROOT BUILD; exits 77 (skipped) where the program or numpy is not there. WEFT_PYTHON
# names another Python than python3.
source "$(dirname "$0")/prelude.sh"
python=${WEFT_PYTHON:-python3}
"$python" -c 'import numpy' 2> /dev/null ||
  { echo "numpy_shards_test: skipped, $python has no numpy (pip install it, or set WEFT_PYTHON)"; exit 77; }
"$weft" prepare "$dir/out" README.md val=0.1 shard=1200 > "$dir/log"
"$python" tests/interop/numpy_bin.py README.md "$dir"/out/train_*.bin "$dir/out/val.bin"
