#!/usr/bin/env bash
# Tokens of published tokenizers are those of the libraries that made them: see compare_tokens.py. Takes some minutes at
# the first time, when it learns the tokenizers, which stay in BUILD/tokens.
# Usage: tokens_test.sh ROOT BUILD; exits 77 (skipped) where Python lacks the libraries. WEFT_PYTHON names another Python
# than python3, WEFT_TOKEN_STRINGS another number of random strings than a million.
source "$(dirname "$0")/../launcher/prelude.sh"
python=${WEFT_PYTHON:-python3} tokens=$build/tests/interop/tokens
[ -x "$tokens" ] || exit 77
"$python" -c 'import sentencepiece, tiktoken, tokenizers' 2> /dev/null ||
  { echo "tokens_test: skipped, $python has no sentencepiece, tiktoken and tokenizers (pip install them, or set WEFT_PYTHON)"; exit 77; }
"$python" tests/interop/compare_tokens.py "$tokens" "$build/tokens" "${WEFT_TOKEN_STRINGS:-1000000}"
