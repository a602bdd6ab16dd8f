#!/usr/bin/env bash
# Trains on tinyshakespeare and checks the final validation loss over the whole last tenth of the text.
# Usage: tests/shakespeare.sh [RECIPES [SEEDS [MESHES [STEPS]]]]. Each argument but STEPS is a list; the default is
#   tests/shakespeare.sh "adamw muon masked" "1 2 3" "1x1 2x2"
# adamw and muon train configs/shakespeare_char.yaml, masked trains configs/shakespeare_masked.yaml. With STEPS, runs have that
# many steps and must only beat a bigram. WEFT_SHAKESPEARE is the path of the text.
# Requires a release build (tests/run.sh). Exits with 77 (skipped) if the text does not exist.
set -euo pipefail
cd "$(dirname "$0")/.."
text=${WEFT_SHAKESPEARE:-}
if [ ! -f "$text" ]; then
  echo "skipped: set WEFT_SHAKESPEARE to the path of tinyshakespeare.txt"
  exit 77
fi
source launcher/environment.sh
log=$(mktemp)
trap 'rm -f "$log"*' EXIT

# The limits in nats per character. For the decoder, nanoGPT publishes 1.88 with the same model and budget, estimated on a sample
# of batches. A bigram of the training text gives 2.48. Muon must also stay within 0.01 of AdamW's loss with the same seed and
# mesh.
declare -A limit=([adamw]=1.79 [muon]=1.79 [masked]=2.4)
pairs=2.48
steps=${4:-}

# train RECIPE MESH SEED: prints the final validation loss.
train() {
  local recipe=$1 dp=${2%x*} tp=${2#*x} config=configs/shakespeare_char.yaml words=()
  case $recipe in
    muon) words=(optimizer.name=muon) ;;
    masked) config=configs/shakespeare_masked.yaml ;;
  esac
  mpirun -np $((dp * tp)) build/release/weft train "$config" data.train="$text" mesh.dp="$dp" mesh.tp="$tp" train.seed="$3" \
    train.eval_every=0 log.jsonl="$log" ${steps:+train.steps="$steps"} ${words[@]+"${words[@]}"} > "$log.out" 2>&1 ||
    { cat "$log.out" >&2; return 1; }
  sed -n 's/.*"event":"end".*"val_loss":\([0-9.]*\).*/\1/p' "$log"
}

# at_most LIMIT LOSS: succeeds if the loss is within the limit.
at_most() { awk -v loss="$2" -v limit="$1" 'BEGIN { exit !(loss <= limit) }'; }

for seed in ${2:-1 2 3}; do
  for mesh in ${3:-1x1 2x2}; do
    adamw=""
    for recipe in ${1:-adamw muon masked}; do
      loss=$(train "$recipe" "$mesh" "$seed")
      most=${steps:+$pairs}
      most=${most:-${limit[$recipe]}}
      [ "$recipe" != muon ] || [ -z "$adamw" ] || most=$(awk -v adamw="$adamw" -v most="$most" 'BEGIN { print adamw + 0.01 < most ? adamw + 0.01 : most }')
      echo "shakespeare $recipe, seed $seed on $mesh${steps:+, $steps steps}: validation loss ${loss:?no end event in the log} (at most $most)"
      at_most "$most" "$loss"
      [ "$recipe" != adamw ] || adamw=$loss
    done
  done
done
