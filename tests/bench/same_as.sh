#!/usr/bin/env bash
# Whether the program computes what an earlier commit's did. It trains tiny models with both on the CPU and compares the
# losses in log.jsonl byte for byte. It compares plans too, without names of files and numbers of lines. It prints one
# line of counts, after each difference. A case that COMMIT refuses as unknown is left out, named and counted.
#
#   tests/bench/same_as.sh COMMIT [BUILD]
#
# BUILD is a folder in which COMMIT is built; without it COMMIT is checked out and built, without CUDA, in
# build/same_as/COMMIT. The program of this tree is build/release/weft. Compared with itself, nothing may differ:
#
#   tests/bench/same_as.sh HEAD build/release
#
# 72 trainings of 4 steps with each program: families gpt2, llama and neox on one rank, two of data, two of tensor
# parallelism and 2x2, with each kind of FSDP; f64 with dropout; other executors; micro-batches. FAMILIES="gpt2" takes
# some of the families.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -eq 1 ] || [ $# -eq 2 ] || { sed -n '2,16s/^# \{0,1\}//p' "$0" >&2; exit 2; }
source launcher/environment.sh
unset OPENBLAS_CORETYPE
export OPENBLAS_NUM_THREADS=1
commit=$(git rev-parse --short "$1^{commit}")
new=$PWD/build/release/weft
[ -x "$new" ] || { echo "same_as.sh: expected the program $new; build it first" >&2; exit 2; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# build_commit: makes the program of the commit, and leaves the output in a file.
build_commit() {
  local tree=$PWD/build/same_as/$commit
  mkdir -p build/same_as
  git worktree prune
  [ -d "$tree" ] || git worktree add --detach "$tree" "$commit" > "$tree.log" 2>&1
  (cd "$tree" && export CCACHE_BASEDIR=$tree &&
    cmake --preset release -DWEFT_CUDA=OFF && ninja -C build/release weft) >> "$tree.log" 2>&1 ||
    { tail -5 "$tree.log" >&2; echo "same_as.sh: expected $commit to build; see $tree.log" >&2; exit 2; }
  old=$tree/build/release/weft
}
if [ $# -eq 2 ]; then old=$(realpath "$2")/weft; else build_commit; fi
[ -x "$old" ] || { echo "same_as.sh: expected the program $old" >&2; exit 2; }

awk 'BEGIN { for (i = 0; i < 300; i++) printf "%d times %d is %d.\n", i, i, i * i }' > "$dir/text.txt"
cat > "$dir/train.yaml" << YAML
data: {train: $dir/text.txt, val: 0.1}
optimizer: {name: adamw, lr: 1e-2}
train: {steps: 4, global_batch: 5, eval_every: 2, eval_batches: 2, seed: 7}
YAML
cat > "$dir/plan.yaml" << 'YAML'
data: {synthetic: true}
mesh: {dp: 2, tp: 2}
train: {steps: 1, global_batch: 8, clip: 1.0}
YAML
same=0 losses=0 plans=0 different=0 left_out=0

# both RESULT FUNCTION WORDS...: calls it with each program and the words, which writes a text to $dir/result. 0: the
# texts are the same; else the case is counted, and what differs is printed.
both() {
  local code=0 which
  for which in old new; do
    rm -f "$dir/result"
    "$1" "${!which}" "${@:2}" > "$dir/out" 2>&1 < /dev/null || code=$?
    if [ $code -ne 0 ]; then
      if [ "$which" = old ] && grep -qE 'unknown key|expected one of' "$dir/out"; then
        left_out=$((left_out + 1))
        echo "left out, as $commit has no such thing: ${*:2}: $(grep -m1 -E 'unknown key|expected one of' "$dir/out")"
      else
        different=$((different + 1))
        echo "exit code $code of the $which program: ${*:2}"
        grep -vE '^(---|Primary job|a non-zero)' "$dir/out" | tail -3 || true  # without mpirun's words
      fi
      return 1
    fi
    mv "$dir/result" "$dir/$which"
  done
  cmp -s "$dir/old" "$dir/new" && return 0
  different=$((different + 1))
  echo "different: ${*:2}"
  diff "$dir/old" "$dir/new" | head -6 || true
  return 1
}

# train PROGRAM RANKS WORDS...: the losses of all steps and evaluations, a line each, as the log spells them.
train() {
  rm -f "$dir/log.jsonl"*
  local words=("$dir/train.yaml" "log.jsonl=$dir/log.jsonl" device=cpu "${@:3}")
  timeout --kill-after=5 300 mpirun -np "$2" "$1" train "${words[@]}" || return
  grep -E '"event":"(step|eval)"' "$dir/log.jsonl" | grep -oE '"(loss|val_loss)":[^,}]*' > "$dir/result"
  [ "$(wc -l < "$dir/result")" -eq 6 ] || { echo "expected 4 losses of steps and 2 of evaluations"; return 1; }
}
# both_train RANKS WORDS...: counts the training and its losses.
both_train() {
  both train "$@" || return 0
  same=$((same + 1)) losses=$((losses + $(wc -l < "$dir/new")))
}

# plan PROGRAM WORDS...: the plan as JSON.
plan() {
  "$1" plan "$dir/plan.yaml" --json "${@:2}" > "$dir/json" || return
  sed -E 's#[A-Za-z0-9_/.]+\.(cc|h):[0-9]+##g' "$dir/json" > "$dir/result"
}
both_plan() {
  both plan "$@" || return 0
  plans=$((plans + 1))
}

train_family() {
  local model=("model.family=$1" model.layers=2 model.heads=4 model.dim=32 model.context=16) f64 executor dp tp fsdp
  [ "$1" != llama ] || model+=(model.kv_heads=2)
  f64=(precision.compute=f64 precision.params=f64 precision.reduce=f64 model.dropout=0.2)
  while read -r dp tp fsdp; do
    local layout=("mesh.dp=$dp" "mesh.tp=$tp" "parallel.fsdp=$fsdp")
    both_train $((dp * tp)) "${model[@]}" "${layout[@]}"
    both_train $((dp * tp)) "${model[@]}" "${layout[@]}" "${f64[@]}"
    [ "$dp$tp" != 22 ] || both_train 4 "${model[@]}" "${layout[@]}" train.micro_batch=1
    [[ $dp$tp$fsdp = 11none || $dp$tp$fsdp = 22full ]] || continue
    for executor in interpret eager; do
      both_train $((dp * tp)) "${model[@]}" "${layout[@]}" "executor=$executor" model.dropout=0.1
    done
  done << 'LAYOUTS'
1 1 none
1 2 none
2 1 none
2 1 gradients
2 1 full
2 2 none
2 2 gradients
2 2 full
LAYOUTS
  both_train 1 "${model[@]}" train.micro_batch=2 model.dropout=0.1
}

# The cases of plan_report_test, whose golden files are in tests/golden; with a vocabulary for all bytes.
plan_all() {
  local sizes=(model.layers=2 model.heads=4 model.dim=32 model.vocab=256 model.context=8)
  local gpt2=(model.family=gpt2 "${sizes[@]}" model.ffn=64 model.dropout=0.1)
  both_plan "${gpt2[@]}"
  both_plan "${gpt2[@]}" parallel.sequence_parallel=true
  both_plan "${gpt2[@]}" parallel.fsdp=full
  both_plan "${gpt2[@]}" parallel.fsdp=full train.micro_batch=1
  both_plan model.family=llama "${sizes[@]}" model.kv_heads=2 model.ffn=48
  both_plan "${gpt2[@]}" parallel.sequence_parallel=true parallel.fsdp=full precision.wire=bf16
}

for family in ${FAMILIES:-gpt2 llama neox}; do train_family "$family"; done
plan_all
echo "same_as: as $commit: $same trainings with $losses losses byte for byte, $plans plans; $different different," \
  "$left_out left out"
[ $different -eq 0 ] && [ $losses -gt 0 ] && [ $plans -gt 0 ]
