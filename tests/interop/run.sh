#!/usr/bin/env bash
# Compares what Weft reads and writes with the original readers: numpy, tensorboard, torch, transformers and tokenizers.
# They come by pip into a Python environment of their own in the cache folder, at the first run: 5.7 GB, because PyPI's
# torch brings CUDA along. A test whose packages cannot be had is skipped in a line that says so; one that does not pass fails this.
# Usage: tests/interop/run.sh [PRESET], with the preset built; tests/interop/run.sh --install only brings the packages, in
# more time than the tests give it.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=build/${1:-release}
home=${XDG_CACHE_HOME:-$HOME/.cache}/weft-interop
export WEFT_PYTHON=$home/bin/python
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# versions PACKAGE...: fails where one is not installed. A package that does not import fails its test.
versions() { "$WEFT_PYTHON" -c 'import importlib.metadata, sys
print(*(f"{name} {importlib.metadata.version(name)}" for name in sys.argv[1:]), sep=", ")' "$@"; }
# install SECONDS PACKAGE...: how it went is in the log.
install() {
  if [ "$(df --output=avail -BG "$(dirname "$home")" | tr -dc '0-9')" -lt 8 ]; then
    echo "less than 8 GB of disk are free" > "$log"
    return 1
  fi
  timeout --kill-after=5 "$1" python3 -m venv "$home" > "$log" 2>&1 &&
    timeout --kill-after=5 "$1" "$WEFT_PYTHON" -m pip install --progress-bar off --quiet "${@:2}" > "$log" 2>&1
}
# compare SECONDS TEST PACKAGE...: the test, after at most so many seconds for what it needs.
compare() {
  local test=$2 begin=$SECONDS found
  if ! found=$(versions "${@:3}" 2> "$log"); then
    if ! install "$1" "${@:3}" || ! found=$(versions "${@:3}" 2> "$log"); then
      echo "interop: skipped: $(basename "$test" .sh): pip did not bring ${*:3} in $1 s: $(tail -n 1 "$log")"
      return
    fi
    echo "interop: installed in $((SECONDS - begin)) s; $home has $(du -sh "$home" | cut -f 1)"
    begin=$SECONDS
  fi
  timeout --kill-after=5 "${limit:-300}" "$test" "$PWD" "$build" || { echo "interop: $test ended with $?, expected 0"; exit 1; }
  echo "interop: $(basename "$test" .sh) passed in $((SECONDS - begin)) s, with $found"
}
mkdir -p "$(dirname "$home")"
if [ "${1:-}" = --install ]; then
  packages=(numpy tensorboard torch transformers sentencepiece tiktoken tokenizers)
  versions "${packages[@]}" 2> /dev/null || install 900 "${packages[@]}" ||
    echo "interop: pip did not bring all in 900 s: $(tail -n 1 "$log")"
  exit
fi
compare 60 tests/launcher/numpy_shards_test.sh numpy
compare 60 tests/interop/tensorboard_test.sh numpy tensorboard
compare 180 tests/interop/transformers_test.sh numpy torch transformers
compare 180 tests/interop/marian_texts_test.sh torch transformers
compare 60 tests/interop/torch_state_test.sh torch safetensors
compare 60 tests/interop/hellaswag_test.sh torch transformers tokenizers
compare 60 tests/interop/optimizers_test.sh numpy torch transformers
# By hand without WEFT_TOKEN_STRINGS: a million strings, and tokenizers that learn from more text.
WEFT_TOKEN_STRINGS=${WEFT_TOKEN_STRINGS:-20000} limit=900 compare 60 tests/interop/tokens_test.sh sentencepiece tiktoken tokenizers
