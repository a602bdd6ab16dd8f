#!/usr/bin/env bash
# Checks the rows of multigpu_rows.sh on a machine without GPUs:
# - weft plan accepts Weft's keys, and predicts that they fit into a GPU with 139 GiB.
# - The peer has the flags and the model.
# - Both programs train the same number of sequences and tokens per step.
# Then makes one whole row with test doubles of the programs that require GPUs, and checks the order of the runs, which steps
# count, and the numbers of the row.
# Usage: multigpu_rows_test.sh ROOT BUILD. Exits with 77 (skipped) if the program is not built.
source "$(dirname "$0")/../prelude.sh"
bench=tests/bench

# planned GPUS CONFIG [key=value...]: checks a plan, and sets `step` to the sequences and tokens of a step.
planned() {
  local gib
  within 60 "$weft" plan "${@:2}" "ranks=$1" > "$dir/out" 2>&1 || fail "expected weft plan to accept ${*:2}"
  step=$(sed -nE 's/^step: ([0-9]+) sequences? of ([0-9]+) tokens.*/\1 x \2/p' "$dir/out")
  gib=$(sed -nE 's/^memory per rank: ([0-9.]+) GiB$/\1/p' "$dir/out")
  awk -v gib="${gib:-none}" 'BEGIN { exit !(gib > 1 && gib < 139) }' || fail "expected less than 139 GiB per rank for ${*:2}"
}
# peer_takes GPUS FLAGS...: checks that the peer has these flags, and that its step trains as much as `step`.
peer_takes() {
  local n=$1 tp=1 batch=0 seq=0
  shift
  while [ $# -gt 0 ]; do
    grep -q "add(\"$1\"" $bench/torch_peer.py || fail "expected torch_peer.py to have a flag $1"
    case $1 in
      --model) grep -q "^    \"$2\": " $bench/torch_peer_model.py || fail "expected torch_peer.py to have a model $2" ;;
      --batch) batch=$2 ;;
      --seq) seq=$2 ;;
      --tp) tp=$2 ;;
    esac
    shift
    [[ ${1:---} = --* ]] || shift
  done
  [ "$step" = "$((batch * n / tp)) x $seq" ] ||
    fail "expected Weft to train the peer's $((batch * n / tp)) x $seq tokens per step, got $step"
}

tests/bench/multigpu_rows.sh --dry > "$dir/rows"
rows=0
while read -r row _ gpus words && read -r again _ _ flags; do
  [[ $row = "$again" && $words = *" weft train "* && $flags = *" $bench/torch_peer.py "* ]] ||
    fail "expected two commands of $row, got \"$words\" and \"$flags\""
  # shellcheck disable=SC2086  # several arguments
  planned "${gpus%:}" ${words#* weft train }
  # shellcheck disable=SC2086
  peer_takes "${gpus%:}" ${flags#* "$bench"/torch_peer.py }
  echo "shown: $row on $gpus $step tokens, $(grep '^memory per rank' "$dir/out")"
  rows=$((rows + 1))
done < "$dir/rows"
[ $rows -eq 27 ] || fail "expected 15 rows on 4 GPUs and 12 on 2, got $rows"
# An unknown row is refused with a list of the rows.
for words in "none 4" "8b_dp2_tp2_2x8192 2" "1b_tp_4x4096 3" none; do
  code=0
  # shellcheck disable=SC2086
  tests/bench/multigpu_rows.sh --dry $words > "$dir/out" 2>&1 || code=$?
  [ $code -eq 2 ] && grep -q 'expected one of the rows 8b_fsdp_1x8192' "$dir/out" ||
    fail "expected $words to be refused"
done

if ! command -v python3 > /dev/null; then
  echo "rows: ok, but no row was made: python3 is missing, which multigpu_rows.py and PyTorch want"
  exit
fi
# The test doubles. The steps of each program are slower in every later run, and Weft's steps before the last 20 must not count.
mkdir -p "$dir/fakes" "$dir/weft/bin" "$dir/weft/lib" "$dir/cache"
cat > "$dir/fakes/mpirun" << 'END'
#!/usr/bin/env bash
exec "${@:5}"
END
cat > "$dir/fakes/nvidia-smi" << 'END'
#!/usr/bin/env bash
[ "$1" != -L ] || { printf 'GPU %s: a double\n' 0 1 2 3; exit; }
for watts in 120 650 650; do
  for gpu in 0 1 2 3; do echo "$gpu, $((1440 + gpu * 5 + (watts < 200) * 500)), $watts.00, 61, 100000"; done
done
echo -n "0, 14"
sleep 60
END
cat > "$dir/fakes/torchrun" << 'END'
#!/usr/bin/env bash
echo peer >> "$ORDER"
[ -z "${NCCL_MIN_CTAS:-}" ] || exit 8  # it is Weft's
ms=$((120 + 10 * $(grep -c peer "$ORDER")))
mkdir -p "$TORCHINDUCTOR_CACHE_DIR"
sleep 0.3  # meanwhile the GPUs are sampled
printf 'RESULT {"ms_median": %d.0, "tokens_per_s": 1.0, "peak_gib": 75.0, "batch": 1, "seq": 8192, "accum": 1, "dp": 4}' $ms
END
cat > "$dir/weft/bin/weft" << 'END'
#!/usr/bin/env bash
echo weft >> "$ORDER"
echo "NCCL_MIN_CTAS=${NCCL_MIN_CTAS:-}: $*"
ms=$((100 + 10 * $(grep -c weft "$ORDER")))
for word; do
  case $word in train.steps=*) steps=${word#*=} ;; log.jsonl=*) log=${word#*=} ;; esac
done
sleep 0.3
{
  echo '{"event":"start","tokens_per_step":32768}'
  for ((i = 1; i <= steps; i++)); do
    echo "{\"event\":\"step\",\"step\":$i,\"ms\":$((i > steps - 20 ? ms : 900)).0,\"loss\":5,\"peak_bytes\":$((60 << 30))}"
  done
} > "$log"
END
chmod +x "$dir"/fakes/* "$dir/weft/bin/weft"
tar -C "$dir" -czf "$dir/archive.tar.gz" weft
mkdir "$dir/runs"
code=0
ORDER=$dir/order PATH=$dir/fakes:$PATH OUT=$dir/runs CACHE=$dir/cache COMMIT=abc KEYS="NCCL_MIN_CTAS=32 parallel.overlap=fill" \
  tests/bench/multigpu_rows.sh "$dir/archive.tar.gz" 8b_fsdp_1x8192 > "$dir/out" 2> "$dir/err" || code=$?
[ $code -eq 0 ] || fail "expected a row"
[ "$(xargs < "$dir/order")" = "weft weft peer peer weft" ] ||
  fail "expected load, then Weft, the peer, the peer, Weft; got $(xargs < "$dir/order")"
grep -q '^NCCL_MIN_CTAS=32: .* parallel.overlap=fill ' "$dir/runs/weft.1.weft.log" || fail "expected the words of KEYS"
[ -d "$dir/cache/inductor" ] || fail "expected the peer's compilations in CACHE"
# Steps take 120 and 130 ms in Weft's two runs after the load, and 130 and 140 ms in the peer's runs. So the row has 8192 tokens
# per GPU in 125 and 135 ms.
row='abc | 8b_fsdp_1x8192 | 4 | 125.0 | 65,536 | 60.0 | 1440 MHz, 650 W'
row+=' | 135.0 | 60,681 | 75.0 | 1440 MHz, 650 W | 1.080 | 0.800 |'
grep -qF "$row" "$dir/out" || fail "expected the row $row"
for value in '"ratio": 1.08,' '"runs_ms": [120.0, 130.0]' '"runs_ms": [130.0, 140.0]' '"mhz_spread": 0.0104'; do
  grep -qF "$value" "$dir/out" || fail "expected $value"
done
# modes.sh compares two ways of a row, kernels, copy, copy and kernels after a load: 120, 130, 140 and 150 ms.
planned 2 configs/llama_8b.yaml mesh.dp=2 train.global_batch=2 precision.wire=bf16 parallel.gather=copy
grep -q '^  communicators' "$dir/out" || fail "expected communicators in the plan"
: > "$dir/order"
ORDER=$dir/order PATH=$dir/fakes:$PATH OUT=$dir/modes COMMIT=abc GPUS=2 LOAD=20 STEPS=30 \
  tests/bench/modes.sh "$dir/archive.tar.gz" parallel.gather "kernels copy" 8b_fsdp_1x8192 > "$dir/out" 2> "$dir/err" ||
  fail "expected a row of each way"
[ "$(xargs < "$dir/order")" = "weft weft weft weft weft" ] || fail "expected five runs, got $(xargs < "$dir/order")"
for row in '| kernels | 135.00 | 242,726 | 1.000 | 60.00 | 5, 5 | 1440 MHz, 650 W | 97.7 |' '| copy | 135.00 | 242,726 | 1.000 |'; do
  grep -qF "$row" "$dir/out" || fail "expected the row $row"
done
for runs in '"value": "kernels", "ms": 135.0, "runs_ms": [120.0, 150.0]' '"value": "copy", "ms": 135.0, "runs_ms": [130.0, 140.0]'; do
  grep -qF "$runs" "$dir/out" || fail "expected the runs $runs"
done
# A value may be several keys and variables, or none.
both=parallel.overlap=fill,NCCL_MIN_CTAS=32
ORDER=$dir/order PATH=$dir/fakes:$PATH OUT=$dir/keys COMMIT=abc GPUS=2 STEPS=30 \
  tests/bench/modes.sh "$dir/archive.tar.gz" keys "none $both" 8b_fsdp_1x8192 > "$dir/out" 2> "$dir/err" ||
  fail "expected a row of each value"
grep -q '^NCCL_MIN_CTAS=: ' "$dir/keys/none.0.log" && ! grep -q 'parallel.overlap' "$dir/keys/none.0.log" ||
  fail "expected a run without more keys"
grep -q '^NCCL_MIN_CTAS=32: .* parallel.overlap=fill ' "$dir/keys/$both.1.log" || fail "expected a run with $both"
grep -qF "| $both | " "$dir/out" || fail "expected a row of $both"
code=0
tests/bench/modes.sh "$dir/archive.tar.gz" parallel.gather "kernels copy" no_row > "$dir/out" 2>&1 || code=$?
[ $code -eq 2 ] && grep -q 'expected one of the rows' "$dir/out" || fail "expected a row that is not known to be refused"
# A run that fails ends the call with an error that names the run.
printf '#!/bin/sh\necho no GPU 3; exit 9\n' > "$dir/fakes/torchrun"
code=0
ORDER=$dir/order PATH=$dir/fakes:$PATH OUT=$dir/runs \
  tests/bench/multigpu_rows.sh "$dir/archive.tar.gz" 8b_fsdp_1x8192 4 > "$dir/out" 2>&1 || code=$?
[ $code -eq 1 ] && grep -q 'no GPU 3' "$dir/out" && grep -q 'expected run peer.1 to succeed, got exit code 9' "$dir/out" ||
  fail "expected the peer's failure to be named"
echo "rows: ok"
