#!/usr/bin/env bash
# A run of one rank or of two on CPUs opens neither NCCL nor a library of CUDA.
# Usage: opened_libraries_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/../launcher/prelude.sh"
cat > "$dir/rank.sh" <<'EOS'
#!/usr/bin/env bash
LD_DEBUG=files LD_DEBUG_OUTPUT="$OPENED" exec "$@"
EOS
chmod +x "$dir/rank.sh"

for ranks in 1 2; do
  export OPENED=$dir/opened.$ranks
  code=0
  within 60 mpirun -np $ranks "$dir/rank.sh" "$weft" train configs/gpt2-tiny.yaml data.train=README.md train.steps=1 \
    schedule.warmup_steps=0 device=cpu > "$dir/out" 2>&1 < /dev/null || code=$?
  [ $code -eq 0 ] || fail "expected the run of $ranks to succeed"
  [ "$(ls "$OPENED".* | wc -l)" -eq $ranks ] || fail "expected the list of $ranks loaders"
  [ "$(grep -lE 'needed by .*/weft|libopenblas' "$OPENED".* | wc -l)" -eq $ranks ] || fail "expected OpenBLAS in each list"
  ! grep -hE 'file=.*(libnccl|libcuda|libcublas|libcudnn|libweft_cuda)' "$OPENED".* > "$dir/err" ||
    fail "expected no library for GPUs with $ranks ranks"
done
