#!/usr/bin/env bash
# Measures how fast `weft generate` writes tokens on one GPU: GPT-2 124M of random weights, context 1024, greedy. Prints a row per
# compute type and batch: tokens/s with the cache of keys and values, tokens/s of full recomputation, and the ratio. Start-up
# cancels out: a rate is the difference of two runs of different length. Then lists the kernels of one token with their times, if
# there is a library that records them. Takes about two minutes.
#
#   tests/bench/generate_speed.sh ARCHIVE.tar.gz    of launcher/bundle.sh; or WEFT, the program
#
# OUT      folder for the programs' output
# KERNELS  libcupti_kernels.so (ladder/build.sh DEST cupti_kernels); without it the script tries to build it
# TYPES    compute types, "f32 bf16" by default
# BATCHES  numbers of texts, "1 8" by default
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
[ -f "${1:-}" ] || { sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }
out=${OUT:-$(mktemp -d)} weft=$1 folder=
# shellcheck source=/dev/null
source tests/bundle.sh
if [[ $1 == *.tar.gz ]]; then
  open_bundle "$1"
  weft=$folder/weft/bin/weft
fi
mkdir -p "$out"

# Bytes as tokens, so that every text has a known length. The rest of the vocabulary is never drawn.
run=$out/run
"$weft" train configs/gpt2_124m.yaml device=cuda data.synthetic=false data.train=README.md data.tokenizer=bytes train.steps=2 \
  train.global_batch=4 log.jsonl="$out/train.jsonl" checkpoint.dir="$run" > "$out/train.log" 2>&1 ||
  { echo "generate_speed: training failed:"; tail -5 "$out/train.log"; exit 1; }

# generate TYPE BATCH CACHE TOKENS [VARIABLE=VALUE...]: prints the seconds that the texts took.
generate() {
  local type=$1 batch=$2 cache=$3 tokens=$4
  shift 4
  env "$@" "$weft" generate "$run" device=cuda prompt="The quick brown fox jumps over the lazy dog" tokens="$tokens" greedy=true \
    samples="$batch" batch="$batch" cache="$cache" precision.compute="$type" kernels.tf32=false > "$out/text" 2> "$out/generate.log" ||
    { echo "generate_speed: weft generate failed:" >&2; tail -5 "$out/generate.log" >&2; return 1; }
  sed -n 's/^\([0-9]*\) tokens in .*, \([0-9.]*\) tok\/s$/\1 \2/p' "$out/generate.log" | awk '{ print $1 / $2 }'
}

# rate TYPE BATCH CACHE FEW MANY: prints tokens/s between token FEW and token MANY of each text.
rate() {
  local few many
  few=$(generate "$1" "$2" "$3" "$4") && many=$(generate "$1" "$2" "$3" "$5") || return 1
  awk -v a="$few" -v b="$many" -v tokens=$(($2 * ($5 - $4))) 'BEGIN { printf "%.1f", tokens / (b - a) }'
}

failed=0
echo "| type | batch | with the cache, tokens/s | ms per token | without, tokens/s | ratio |"
echo "|---|---|---|---|---|---|"
for type in ${TYPES:-f32 bf16}; do
  for batch in ${BATCHES:-1 8}; do
    if ! with=$(rate "$type" "$batch" true 60 960) || ! without=$(rate "$type" "$batch" false 8 $((batch == 1 ? 264 : 40))); then
      failed=1
      continue
    fi
    awk -v t="$type" -v n="$batch" -v w="$with" -v o="$without" \
      'BEGIN { printf "| %s | %d | %.0f | %.3f | %.0f | %.1f |\n", t, n, w, 1000 * n / w, o, w / o }'
  done
done

# The kernels of a token, in positions 500 to 600.
kernels=${KERNELS:-$out/libcupti_kernels.so}
[ -f "$kernels" ] || tests/bench/ladder/build.sh "$out" cupti_kernels > "$out/build.log" 2>&1
if [ -f "$kernels" ]; then
  for type in ${TYPES:-f32 bf16}; do
    echo "== kernels of one token, $type, batch 1"
    generate "$type" 1 true 600 CUDA_INJECTION64_PATH="$kernels" WEFT_KERNELS="$out/kernels.$type" > /dev/null &&
      python3 tests/bench/kernel_times.py "$out/kernels.$type" memcpy 100 || failed=1
  done
else
  echo "generate_speed: no libcupti_kernels.so, so no kernels; $(tail -1 "$out/build.log" 2> /dev/null)"
fi
exit $failed
