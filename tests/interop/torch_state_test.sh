#!/usr/bin/env bash
# Weights of PyTorch's nn.Transformer and nn.MultiheadAttention go to Weft and back, on one rank and on several: the outputs
# are PyTorch's, and the file that Weft writes has the same tensors.
# Usage: torch_state_test.sh ROOT BUILD; exits 77 (skipped) where Python has no torch and safetensors. WEFT_PYTHON names
# another Python than python3.
source "$(dirname "$0")/../launcher/prelude.sh"
python=${WEFT_PYTHON:-python3}
"$python" -c 'import torch, safetensors' 2> /dev/null ||
  { echo "torch_state_test: skipped, $python has no torch and safetensors (pip install them, or set WEFT_PYTHON)"; exit 77; }

"$python" tests/interop/compare_torch_state.py make "$dir/in.safetensors"
for mesh in "1 1" "2 1" "1 2" "2 2"; do
  out=$dir/out${mesh/ /x}.safetensors
  # shellcheck disable=SC2086  # two sizes
  "$build/tests/interop/torch_state" $mesh "$dir/in.safetensors" "$out" > "$dir/printed"
  "$python" tests/interop/compare_torch_state.py compare "$dir/in.safetensors" "$out" "$dir/printed"
done
