#!/usr/bin/env bash
# weft bench: each kind on 1 and on 2 ranks of the CPU, as a table and as JSON lines that weft report reads, and the
# arguments that it refuses. Times are not judged. Usage: bench_command_test.sh ROOT BUILD; exits 77 (skipped) where the
# program is not built.
source "$(dirname "$0")/../prelude.sh"

step=(config=configs/gpt2-tiny.yaml model.layers=1 model.context=16 train.global_batch=4)
# words KIND: tiny sizes of it.
words() {
  case $1 in
    collective) echo "op=all bytes=64,4K dtype=f32,bf16" ;;
    gemm) echo "m=8,16,32 n=8 k=16,8,8 dtype=f32,bf16" ;;
    sdpa) echo "batch=1,2 heads=4 kv_heads=2 seq=16 head_dim=8 dtype=f32" ;;
    encoder) echo "batch=4 seq=16 dim=8 ffn=16 heads=2 layers=1 dtype=f32,bf16" ;;
    step) echo "${step[*]} mesh.dp=-1" ;;
    dispatch) echo "elements=4" ;;
    copy) echo "bytes=4K,64K,8 dtype=f32,bf16" ;;
  esac
}
# Cases of a kind on this number of ranks. One rank has no send; a barrier has one size.
cases() {
  case $1 in
    collective) [ "$2" = 1 ] && echo 38 || echo 46 ;;
    gemm | dispatch | copy) echo 6 ;;
    sdpa) echo 4 ;;
    encoder) echo 8 ;;
    step) echo 3 ;;
  esac
}
keys="kind case device device_name ranks threads dtype labels sizes median_ms min_ms p90_ms repeats calls processor_ms rate unit more host version commit unix_time"

: > "$dir/all.jsonl"
for kind in collective gemm sdpa encoder step dispatch copy; do
  for ranks in 1 2; do
    read -ra tiny <<< "$(words $kind)"
    code=0
    within 60 "$weft" bench $kind "${tiny[@]}" repeats=2 device=cpu threads=1 ranks=$ranks --json > "$dir/out" 2> "$dir/err" < /dev/null || code=$?
    [ $code -eq 0 ] || fail "expected $kind to be measured on $ranks ranks"
    [ "$(wc -l < "$dir/out")" -eq "$(cases $kind $ranks)" ] || fail "expected $(cases $kind $ranks) lines of $kind on $ranks ranks"
    for key in $keys; do
      [ "$(grep -c "\"$key\":" "$dir/out")" -eq "$(cases $kind $ranks)" ] || fail "expected $key in each line of $kind"
    done
    ! grep -v "^{\"kind\":\"$kind\",.*\"device\":\"cpu\",.*\"ranks\":$ranks,\"threads\":1,.*\"repeats\":2," "$dir/out" || fail "expected other lines of $kind"
    ! grep -vE '"rate":([0-9.e+-]+|null),' "$dir/out" || fail "expected rates that are numbers"
    [ $kind != collective ] || ! grep -v '"wrong":0\.0' "$dir/out" || fail "expected no wrong result"
    cat "$dir/out" >> "$dir/all.jsonl"
  done
done
# A rank has a thread per core on which it may run, and not per core of the host.
core=$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')
for ranks in 1 2; do
  within 60 taskset -c "$core" "$weft" bench gemm m=8 repeats=2 device=cpu ranks=$ranks --json > "$dir/out" 2> "$dir/err" < /dev/null ||
    { code=$?; fail "expected products to be measured on one core"; }
  grep -q "\"ranks\":$ranks,\"threads\":1," "$dir/out" || fail "expected one thread on one core"
done
# mpirun may have bound a rank to a core, which is a note where the host has more.
cores=$(getconf _NPROCESSORS_ONLN)
if [ "$cores" -gt 1 ]; then
  within 60 taskset -c "$core" mpirun -np 1 --bind-to none "$weft" bench gemm m=8 repeats=2 device=cpu > "$dir/out" 2> "$dir/err" < /dev/null ||
    { code=$?; fail "expected products to be measured by a rank that is bound"; }
  grep -qF "rank 0 may use 1 of the $cores cores of its host" "$dir/err" || fail "expected a note on the core"
fi
# The rates for weft plan, of the mesh of the ranks and, with meshes=all, of other meshes.
rates=(config=configs/gpt2-tiny.yaml model.layers=1 model.context=16 train.global_batch=4 device=cpu threads=1 seconds=0.001)
for ranks in 1 2; do
  run 0 "" bench rates "${rates[@]}" ranks=$ranks mesh.dp=-1 meshes=all --json
  grep '^{' "$dir/out" > "$dir/rates$ranks.jsonl"
  for kind in call copy gemm; do
    grep -q "^{\"kind\":\"$kind\",.*\"ranks\":$ranks," "$dir/rates$ranks.jsonl" || fail "expected lines of $kind"
  done
  for class in product attention memory; do
    grep -q "\"class\":\"$class\"" "$dir/rates$ranks.jsonl" || fail "expected lines of class $class"
  done
  run 0 "" plan configs/gpt2-tiny.yaml model.layers=1 model.context=16 train.global_batch=4 mesh.dp=$ranks rates="$dir/rates$ranks.jsonl" --json
  grep -qE '^  "step_ms": [0-9.e-]+,$' "$dir/out" || fail "expected a predicted step"
  search=(plan --search configs/gpt2-tiny.yaml model.layers=1 model.context=16 train.global_batch=4 "devices=$ranks" rates="$dir/rates$ranks.jsonl")
  run 0 "the fastest on each mesh (--verbose prints all):" "${search[@]}"
  [ "$(grep -cE '^ +[0-9-]+ .*mesh\.' "$dir/out")" -eq "$ranks" ] || fail "expected a row for each of the $ranks meshes of $ranks devices"
  run 0 "all of them:" "${search[@]}" --verbose
done
run 2 "expected a mesh of 2 devices, got none that has the given axes: mesh.tp=3; leave one of them out" \
  plan --search configs/gpt2-tiny.yaml devices=2 mesh.tp=3 rates="$dir/rates2.jsonl"
for kind in collective overlap; do
  grep -q "^{\"kind\":\"$kind\"" "$dir/rates2.jsonl" || fail "expected lines of $kind on 2 ranks"
  ! grep -q "^{\"kind\":\"$kind\"" "$dir/rates1.jsonl" || fail "expected no lines of $kind on 1 rank"
done
run 2 "meshes: expected names of config, all" bench rates "${rates[@]}" meshes=some
run 2 "config is missing" bench rates

# A table has a line for each case, after two lines of head; ranks of an axis communicate by themselves.
run 0 "gemm 8 x 8 x 8" bench gemm m=8 repeats=1 device=cpu
[ "$(wc -l < "$dir/out")" -eq 3 ] || fail "expected a table of one row"
run 0 "wrong: 0" bench collective op=all_reduce bytes=1K repeats=1 device=cpu ranks=2 mesh.tp=2 axis=tp
grep -q 'on .* 2 ranks\|, 2 ranks on ' "$dir/out" || fail "expected the ranks in the head"
! grep -q "one rank" "$dir/out" || fail "expected no note on one rank"
run 0 "note: with one rank nothing moves to another" bench collective op=all_reduce bytes=1K repeats=1 device=cpu

# The rate of a rank over the ranks.
run 0 "$dir/all.html: the measurement of $dir/all.jsonl" report "$dir/all.jsonl"
run 0 "$dir/all.svg: the measurement of $dir/all.jsonl" report "$dir/all.jsonl" "out=$dir/all.svg"
grep -q "by ranks" "$dir/all.svg" || fail "expected a picture of the rates by ranks"
run 2 "got chart=loss" report "$dir/all.jsonl" "out=$dir/all.svg" chart=loss
for text in "gemm in TFLOP/s, by ranks" "collective in GB/s bus, by ranks" "step in tokens/s, by ranks" "<svg" "over ranks" "2 ranks"; do
  grep -qF "$text" "$dir/all.html" || fail "expected '$text' in the page"
done
sed 's/"rate":/"rat":/' "$dir/all.jsonl" > "$dir/bad.jsonl"
run 2 "bad.jsonl:1: expected rate as a number or null; give a file that weft bench --json wrote" report "$dir/bad.jsonl"

run 0 "usage: weft bench KIND" bench --help
run 2 "weft bench: expected collective, gemm, sdpa, encoder, step, dispatch, copy, rates first, got nothing" bench
run 2 'got "gem"; did you mean gemm?' bench gem
run 2 'command line: mm: unknown argument; did you mean m?' bench gemm mm=3
run 2 'command line: jsno: unknown argument; did you mean --json?' bench gemm --jsno
run 2 'command line: m: expected integers >= 1 and <= 16777216, with commas between them, got "0"' bench gemm m=0
run 2 'command line: m: expected 1 or 3 numbers, as k has, got "1,2"' bench gemm m=1,2 k=1,2,3
run 2 'command line: dtype: expected names of f64, f32, bf16, f16, got "fp32"; did you mean "f32"?' bench gemm dtype=fp32
run 2 'command line: op: expected names of all_reduce, all_gather' bench collective op=allreduce
run 2 'command line: op: expected 2 ranks or more for send, got 1; start more with ranks=N' bench collective op=send
run 2 'command line: bytes: expected sizes such as 4K,1M or a range such as 1M..64M' bench collective bytes=1MB
run 2 'command line: axis: expected names of dp, tp, world, got "pp"' bench collective axis=pp
run 2 'axis: expected one with 2 ranks or more, got tp, which has 1' bench collective axis=tp mesh.dp=2 device=cpu ranks=2
run 2 'command line: memory: expected names of ordinary, copied, symmetric, got "windows"' bench collective memory=windows
run 2 'command line: memory: expected ordinary on a CPU, got symmetric; give device=cuda, or memory=ordinary' bench collective memory=symmetric device=cpu
run 2 'command line: kv_heads: expected a divisor of the 8 heads, got 3' bench sdpa kv_heads=3
run 2 'command line: seq: expected batch x heads x seq x head_dim <= 1099511627776' bench sdpa seq=16777216 batch=16777216
run 1 'out of memory on' bench gemm m=16777216 device=cpu
run 2 'command line: causal: expected true or false' bench sdpa causal=yes
run 2 'command line: window: expected 0, or more with causal=true, got 4' bench sdpa window=4 causal=false
run 2 'command line: documents: expected 1 to the 16 tokens, got 17' bench sdpa seq=16 documents=17
run 2 'command line: padding: expected [0, 1), got 1' bench sdpa padding=1
run 0 'sdpa 1x8x16x8 causal window 4 2 documents 8 of padding backward' bench sdpa seq=16 head_dim=8 window=4 documents=2 padding=0.5 \
  seconds=0.01 device=cpu
run 2 'command line: padding: expected [0, 1), got 1' bench encoder padding=1
run 2 'command line: heads: expected a divisor of dim 8, got 3' bench encoder dim=8 heads=3
run 2 'command line: batch: expected a multiple of the 2 ranks that share it, got 3' bench encoder batch=3 ranks=2 device=cpu
run 2 'command line: dtype: expected f64, f32 or bf16, got f16' bench encoder dtype=f16 device=cpu
run 2 'command line: pass: expected names of forward, step, got "backward"' bench encoder pass=backward
run 0 'speedup: ' bench encoder batch=4 seq=16 dim=8 ffn=16 heads=2 layers=1 seconds=0.01 device=cpu
run 0 ' 19 real' bench encoder batch=4 seq=16 padding=0.7 dim=8 ffn=16 heads=2 layers=1 seconds=0.01 device=cpu ranks=2 mesh.tp=2
run 2 'command line: executor: expected names of compiled, interpret, eager, got "compile"; did you mean "compiled"?' bench dispatch executor=compile
run 2 'command line: device: expected one of auto, cpu, cuda, got "gpu"' bench gemm device=gpu
run 2 'weft bench: config is missing; expected config=FILE' bench step
run 2 'weft bench: config is missing; expected config=configs/gpt2-tiny.yaml' bench step configs/gpt2-tiny.yaml
run 2 'nowhere.yaml' bench step config=nowhere.yaml
run 2 'model.layer: unknown key' bench step "${step[@]}" model.layer=2
run 2 'mesh: dp=1 x tp=3 is 3 ranks, but 1 started' bench collective mesh.tp=3
run 2 'command line: seconds: expected a number > 0' bench gemm seconds=0
echo "bench: ok"
