#!/usr/bin/env bash
# Compares Weft with PyTorch (torch_peer.py) on the CPU: models of four blocks of width 768, 4 sequences of 256 tokens, in f32 and in
# bf16 with f32 weights. Weft, PyTorch, PyTorch and Weft run one after the other, each with all cores. Prints a row per model for
# tests/bench/results.md: the median ms of a step, the mean of a program's two runs, tokens/s, and the ratio. Fails if a run does.
#
#   tests/bench/versus_torch_cpu.sh WEFT [gpt2_f32|gpt2_bf16|llama_f32|llama_bf16...]     all four by default
#
# WEFT_PYTHON (python3) is a Python that has PyTorch. COMPILE=full|none is how PyTorch compiles. STEPS (16) is the number of steps of
# a run; the first quarter does not count. COMMIT names the program in the rows, and OUT is the folder of the output.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
weft=$(realpath "$1") steps=${STEPS:-16}
shift
cd "$(dirname "$0")/../.."
# shellcheck source=/dev/null
source launcher/environment.sh
# shellcheck source=/dev/null
source tests/bench/beside_torch.sh
# shellcheck disable=SC2034  # beside_torch.sh uses them
weft_command=("$weft") peer_command=(env "OMP_NUM_THREADS=$(env -u OMP_NUM_THREADS nproc)" "${WEFT_PYTHON:-python3}" -B tests/bench/torch_peer.py)

size="model.layers=4 model.heads=12 model.dim=768 model.vocab=8192 model.context=256"
declare -A configs=([gpt2]=gpt2_124m [llama]=llama_1b) models=([gpt2]=gpt2-w768 [llama]=llama-w768)
declare -A more=([gpt2]="" [llama]="model.kv_heads=4 model.ffn=2048") precisions=([f32]="fp32 --no-tf32" [bf16]=mixed)
[ $# -gt 0 ] || set -- gpt2_f32 gpt2_bf16 llama_f32 llama_bf16
for name; do
  family=${name%_*} dtype=${name#*_}
  [ -n "${configs[$family]:-}" ] && [ -n "${precisions[$dtype]:-}" ] ||
    { echo "versus_torch_cpu: expected gpt2 or llama, and f32 or bf16, as in gpt2_f32, got $name" >&2; exit 2; }
  read -ra keys <<< "$size ${more[$family]} precision.compute=$dtype train.global_batch=4 device=cpu data.synthetic=true"
  read -ra flags <<< "--model ${models[$family]} --precision ${precisions[$dtype]} --compile ${COMPILE:-full} --batch 4 --seq 256"
  weft_run() { run_weft "$name.$1" "${configs[$family]}" "${keys[@]}" train.steps="$steps" schedule.warmup_steps=0 || { tail -3 "$out/$name.$1.weft.log" >&2; exit 1; }; }
  peer_run() { run_peer "$name.$1" --device cpu "${flags[@]}" --steps $((steps * 3 / 4)) --warmup $((steps / 4)) || { tail -3 "$out/$name.$1.peer.log" >&2; exit 1; }; }
  weft_run 0
  peer_run 1
  peer_run 2
  weft_run 3
  PYTHONPATH=tests/bench python3 -B - "$name" "$out" $((steps / 4)) << 'PY'
import datetime, os, sys
import step_times
name, out, warm = sys.argv[1:]
weft = [step_times.of_weft(f"{out}/{name}.{i}.jsonl", lambda steps: steps[int(warm):])["ms"] for i in (0, 3)]
peer = [step_times.of_peer(f"{out}/{name}.{i}.peer.log")["ms"] for i in (1, 2)]
mean = lambda runs: sum(runs) / len(runs)
family, dtype = name.split("_")
print(f"| {datetime.date.today()} | {os.environ['COMMIT']} | {family}, {dtype} | {mean(weft):.1f} ({weft[0]:.1f}, {weft[1]:.1f}) | {4 * 256e3 / mean(weft):,.0f} | "
      f"{mean(peer):.1f} ({peer[0]:.1f}, {peer[1]:.1f}) | {4 * 256e3 / mean(peer):,.0f} | {mean(peer) / mean(weft):.3f} |", flush=True)
PY
done
