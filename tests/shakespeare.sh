#!/usr/bin/env bash
# Trains configs/shakespeare_char.yaml and checks the final validation loss over the whole last tenth of the text.
# Usage: tests/shakespeare.sh [SEEDS [MESHES]], e.g. "1 2 3" "1x1 2x2" (the default); TEXT comes from WEFT_SHAKESPEARE.
# Wants a release build (tests/run.sh). Exits 77 (skipped) where the text is absent.
set -euo pipefail
cd "$(dirname "$0")/.."
limit=1.84  # nats per character; nanoGPT publishes 1.88 for this model and budget, one sample of batches
text=${WEFT_SHAKESPEARE:-}
if [ ! -f "$text" ]; then
  echo "skipped: set WEFT_SHAKESPEARE to the path of tinyshakespeare.txt"
  exit 77
fi
source launcher/environment.sh
log=$(mktemp)
trap 'rm -f "$log"*' EXIT

for seed in ${1:-1 2 3}; do
  for mesh in ${2:-1x1 2x2}; do
    dp=${mesh%x*} tp=${mesh#*x}
    mpirun -np $((dp * tp)) build/release/weft train configs/shakespeare_char.yaml data.train="$text" \
      mesh.dp="$dp" mesh.tp="$tp" train.seed="$seed" train.eval_every=0 log.jsonl="$log" > "$log.out" 2>&1 ||
      { cat "$log.out"; exit 1; }
    loss=$(sed -n 's/.*"event":"end".*"val_loss":\([0-9.]*\).*/\1/p' "$log")
    echo "shakespeare_char seed $seed on $mesh: validation loss ${loss:?no end event in the log} (at most $limit)"
    awk -v loss="$loss" -v limit=$limit 'BEGIN { exit !(loss <= limit) }'
  done
done
