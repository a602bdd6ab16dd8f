#!/usr/bin/env bash
# Checks which memory predict.sh compares, with a test double of the program: what NCCL's communicators take is in the plan and
# not in the measured peak, so a row passes if the rest of the plan is within 5 % of the peak.
# Usage: predict_rows_test.sh ROOT BUILD. Exits with 77 (skipped) if the program is not built.
source "$(dirname "$0")/../launcher/prelude.sh"
command -v python3 > /dev/null || { echo "predict: skipped, as python3 is missing" && exit 77; }

cat > "$dir/double" << 'END'
#!/usr/bin/env bash
case $1 in
  plan) echo "{\"step_ms\":10.0,\"parts_ms\":{},\"memory\":{\"activations\":$ARENA,\"communicators\":1073741824,\"total\":$((ARENA + 1073741824))}}" ;;
  train)
    for word; do [[ $word != log.jsonl=* ]] || log=${word#*=}; done
    echo '{"event":"start","tokens_per_step":8}' > "$log"
    for ((i = 1; i <= 30; i++)); do echo "{\"event\":\"step\",\"ms\":10.0,\"peak_bytes\":$((4 << 30))}"; done >> "$log"
    ;;
esac
END
chmod +x "$dir/double"
# compared MIB: compares a plan with so much memory besides the communicators, and sets `code`.
compared() {
  code=0
  ARENA=$(($1 << 20)) OUT=$dir/out.$1 tests/bench/predict.sh "$dir/double" configs/gpt2-tiny.yaml,device=cuda > "$dir/out" 2> "$dir/err" || code=$?
}
compared 4096
[ $code -eq 0 ] && grep -qF '| 10.00 | 10.00 | 1.000 | 4.00 | 4.00 | 1.000 |' "$dir/out" || fail "expected 4 GiB in both columns"
for mib in 3840 4352; do
  compared $mib
  [ $code -eq 1 ] || fail "expected $mib MiB to be more than 5 % from 4 GiB, got exit code $code"
done
echo "predict: ok"
