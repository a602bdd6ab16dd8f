#!/usr/bin/env bash
# The libraries that multiply on CPUs. OPENBLAS_CORETYPE counts when it names a core that is as fast as the processor allows. Any
# other is overridden with one note, and the run computes the same bits. weft doctor names what slows them.
# Usage: openblas_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/prelude.sh"

# By the kernel's list of features, which is not where the program looks.
best=Haswell as_fast=Zen slower=Sandybridge
flags=" $(sed -n 's/^flags[[:space:]]*://p' /proc/cpuinfo | head -n 1) "
[[ $flags != *" avx512f "* || $flags != *" avx512cd "* || $flags != *" avx512bw "* || $flags != *" avx512dq "* ||
  $flags != *" avx512vl "* ]] || best=SkylakeX as_fast=skylakex slower=Haswell
[[ $flags == *" avx2 "* && $flags == *" fma "* ]] || exit 77

cat > "$dir/a.yaml" <<'YAML'
model: {family: gpt2, layers: 1, heads: 2, dim: 64, vocab: 256, context: 32}
data: {synthetic: true}
train: {steps: 3, global_batch: 4}
YAML
# train NOTES [VARIABLE=VALUE...]: the losses of a run on two ranks, with that many notes about the core.
train() {
  local notes=$1 found
  shift
  rm -f "$dir/log.jsonl"
  code=0
  within 60 env "$@" mpirun -np 2 "$weft" train "$dir/a.yaml" mesh.dp=2 log.jsonl="$dir/log.jsonl" > "$dir/out" 2>&1 || code=$?
  [ $code -eq 0 ] || fail "expected a run with ${*:-no variable} to succeed"
  found=$(grep -c '^note: OPENBLAS_CORETYPE=' "$dir/out" || true)
  [ "$found" -eq "$notes" ] || fail "expected $notes notes with ${*:-no variable}, got $found"
  sed -n 's/.*"event":"step".*"loss":\([^,]*\),.*/\1/p' "$dir/log.jsonl"
}
want=$(train 0)
[ "$(wc -w <<< "$want")" -eq 3 ] || fail "expected three losses, got $want"
for core in Prescott "$slower" nonsense; do
  [ "$(train 1 OPENBLAS_CORETYPE="$core")" = "$want" ] || fail "expected the losses $want with OPENBLAS_CORETYPE=$core"
  grep -qF "note: OPENBLAS_CORETYPE=\"$core\" names no core that is as fast as this processor: $best is used" "$dir/out" ||
    fail "expected a note that names $core and $best"
done
for core in "$as_fast" "$best" ""; do train 0 OPENBLAS_CORETYPE="$core" > /dev/null; done

# doctor VARIABLE=VALUE GRADE TEXT [LIBRARY]: what it says of a library, OpenBLAS by default.
doctor() {
  code=0
  # shellcheck disable=SC2086  # several variables
  within 60 env $1 "$weft" doctor "$dir" > "$dir/out" 2>&1 || code=$?
  grep -Eq "^  $2 +${4:-OpenBLAS} +$3" "$dir/out" || fail "expected $2 and \"$3\" of doctor with $1"
}
speed='[0-9.]+ GFLOP/s of f64 on one thread'
doctor A=1 ok "kernels for $best, $speed\$"
doctor OPENBLAS_CORETYPE="$as_fast" ok "kernels for [A-Za-z]+, $speed\$"
doctor OPENBLAS_CORETYPE=Prescott note "kernels for $best, $speed; OPENBLAS_CORETYPE=\"Prescott\" names .*; unset OPENBLAS_CORETYPE\$"
# The line of oneDNN has its speed, and a note if a variable keeps it from instructions of this processor.
if [ $best = SkylakeX ]; then
  doctor A=1 ok '[0-9.]+, [0-9.]+ GFLOP/s of f32( and [0-9.]+ of bf16)? on one thread$' oneDNN
  doctor "ONEDNN_MAX_CPU_ISA=AVX2 DNNL_MAX_CPU_ISA=AVX2" note \
    "[0-9.]+, which has no product .* here; it uses fewer instructions than this processor has: unset ONEDNN_MAX_CPU_ISA and .*" oneDNN
else
  doctor A=1 ok "[0-9.]+, which has no product that is faster than OpenBLAS's here\$" oneDNN
fi
# A build for an old processor, and a library of that name that is none.
doctor LD_LIBRARY_PATH="$build/tests/launcher/old_openblas" note \
  "kernels for Prescott, $speed; this processor can run those for $best: install .*libopenblas0-pthread"
doctor LD_LIBRARY_PATH="$build/tests/launcher/no_openblas" FAULT \
  "matrix products on the CPU: expected libopenblas.so.0 to be OpenBLAS, got a library without cblas_sgemm; install .*libopenblas0-pthread"
code=0
within 60 env LD_LIBRARY_PATH="$build/tests/launcher/no_openblas" mpirun -np 2 "$weft" train "$dir/a.yaml" mesh.dp=2 > "$dir/out" 2>&1 || code=$?
[ $code -eq 1 ] || fail "expected exit code 1 without OpenBLAS"
[ "$(grep -c 'libopenblas0-pthread' "$dir/out")" -eq 1 ] || fail "expected one line that names the package"
echo "openblas: ok"
