#!/usr/bin/env bash
# A checkpoint of 2 x 2 ranks under mpirun continues on any others: on its own mesh with the same losses, bit for bit,
# on any other within 2e-6 of them, which is what sums in another order make of f32.
# Usage: reshard_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/prelude.sh"
# train DP TP LOG WORD...
train() {
  code=0
  within 120 mpirun -np $(($1 * $2)) "$weft" train "$config" data.train=README.md data.val=0 train.steps=6 \
    schedule.warmup_steps=1 train.global_batch=12 "mesh.dp=$1" "mesh.tp=$2" "log.jsonl=$3" "${@:4}" > "$dir/out" 2>&1 < /dev/null || code=$?
  [ $code -eq 0 ] || fail "expected a run of $1 x $2 to succeed"
}
losses() { sed -nE 's/^\{"event":"step","step":([4-6]),"loss":([^,]+),"grad_norm":([^,]+),.*/\1 \2 \3/p' "$1"; }

for config in configs/gpt2-tiny.yaml configs/llama-tiny.yaml; do
  for fsdp in none full; do
    rm -rf "$dir/c"
    train 2 2 "$dir/whole" "checkpoint.dir=$dir/c" checkpoint.every=3 "parallel.fsdp=$fsdp"
    losses "$dir/whole" > "$dir/a"
    [ "$(wc -l < "$dir/a")" -eq 3 ] || fail "expected the losses of steps 4 to 6 in $dir/whole"
    for mesh in "2 2" "1 1" "4 1" "1 4" "3 1" "2 1"; do
      # shellcheck disable=SC2086  # words
      train $mesh "$dir/rest" "checkpoint.resume=$dir/c/step-000003" "parallel.fsdp=$fsdp"
      losses "$dir/rest" > "$dir/b"
      [ "$mesh" != "2 2" ] || cmp "$dir/a" "$dir/b" || fail "expected the same losses on the same mesh"
      paste -d ' ' "$dir/a" "$dir/b" | awk '{ d = ($2 - $5) / $2; if (d < 0) d = -d; if ($1 != $4 || !(d <= 2e-6)) exit 1 }' ||
        { code="" ; paste "$dir/a" "$dir/b" > "$dir/out"; fail "expected losses within 2e-6 of 2 x 2 on $mesh, $config, fsdp $fsdp"; }
      rm "$dir/rest"
    done
  done
done
echo "reshard: ok"
