#!/usr/bin/env bash
# Compares Weft with PyTorch (torch_peer.py with its best settings) on several GPUs of one machine. A call makes one row of
# results.md and ends within nine minutes. The machine needs no build: the archive is from tests/gpu.sh --pack or
# launcher/bundle.sh.
#
#   tests/bench/multigpu_rows.sh ARCHIVE.tar.gz ROW [GPUS]     on 2 or 4 GPUs; by default on all GPUs of the machine
#   tests/bench/multigpu_rows.sh --dry [ROW [GPUS]]            prints the commands of a row, or of all rows
#
# Weft first trains for 20 s, so that clocks settle. Then Weft, PyTorch, PyTorch, Weft run, each with 10 s of warm-up steps and
# 20 timed steps. Prints a JSON line and the row: for each program the median step (the mean of its two runs; for PyTorch of its
# slowest rank), tokens/s per GPU, peak memory, and clocks and watts of the GPUs; and the ratios of both programs.
#
# CACHE=FOLDER keeps PyTorch's compilations between calls, which saves minutes. OUT=FOLDER gets the output of the runs and
# samples of nvidia-smi. COMMIT names the program in the row. LIMIT_S (default 530) is the time limit of a call in seconds.
# KEYS="key=value..." are more keys of Weft, or variables of its environment, to compare other options with PyTorch.
set -euo pipefail
usage() {
  sed -n '2,17s/^# \{0,1\}//p' "$0" >&2
  exit 2
}
[ $# -ge 1 ] && [ $# -le 3 ] || usage
archive=$1
[ ! -f "$archive" ] || archive=$(realpath "$archive")
cd "$(dirname "$0")/../.."
# shellcheck source=/dev/null
source tests/bench/beside_torch.sh

# Each row has its name, the numbers of GPUs, the approximate ms of a step, Weft's config, keys and variables | the fastest of the peer's
# settings that were tried. N stands for the number of GPUs, and 2N for twice that. Both programs send gradients in the same type.
table='
8b_fsdp_1x8192   2,4  820 llama_8b  mesh.dp=N train.global_batch=N precision.reduce=bf16 parallel.plan=vocabulary | --model llama-8B --batch 1 --seq 8192 --no-reshard --loss-chunks 8 --reduce-dtype bf16
8b_fsdp_2x8192   2,4 1550 llama_8b  mesh.dp=N train.global_batch=2N precision.reduce=bf16 parallel.plan=vocabulary | --model llama-8B --batch 2 --seq 8192 --no-reshard --loss-chunks 8 --reduce-dtype bf16
8b_dp2_tp2_2x8192 4   890 llama_8b  mesh.dp=2 mesh.tp=2 parallel.sequence_parallel=true train.global_batch=4 parallel.overlap=halves parallel.symmetric_memory=true | --model llama-8B --batch 2 --seq 8192 --tp 2 --no-reshard
8b_dp2_tp2_bf16_2x8192 4 880 llama_8b mesh.dp=2 mesh.tp=2 parallel.sequence_parallel=true train.global_batch=4 parallel.overlap=halves parallel.symmetric_memory=true precision.reduce=bf16 | --model llama-8B --batch 2 --seq 8192 --tp 2 --no-reshard --reduce-dtype bf16
8b_tp_4x4096     2,4  490 llama_8b  mesh.dp=1 mesh.tp=N parallel.fsdp=gradients precision.reduce=bf16 parallel.symmetric_memory=true parallel.sequence_parallel=true parallel.overlap=chunks train.global_batch=4 model.context=4096 WEFT_TUNE=settled | --model llama-8B --batch 4 --seq 4096 --tp N
8b_tp_plain_4x4096 2,4 490 llama_8b mesh.dp=1 mesh.tp=N parallel.fsdp=gradients precision.reduce=bf16 parallel.overlap=always parallel.sequence_parallel=true train.global_batch=4 model.context=4096 | --model llama-8B --batch 4 --seq 4096 --tp N
8b_tp_1x8192     2,4  290 llama_8b  mesh.dp=1 mesh.tp=N parallel.fsdp=gradients precision.reduce=bf16 parallel.symmetric_memory=true parallel.sequence_parallel=true train.global_batch=1 | --model llama-8B --batch 1 --seq 8192 --tp N
8b_dp2_tp2_plain_2x8192 4 930 llama_8b mesh.dp=2 mesh.tp=2 parallel.sequence_parallel=true train.global_batch=4 parallel.overlap=always | --model llama-8B --batch 2 --seq 8192 --tp 2 --no-reshard
8b_tp_plain_1x8192 2,4 290 llama_8b mesh.dp=1 mesh.tp=N parallel.fsdp=gradients precision.reduce=bf16 parallel.overlap=always parallel.sequence_parallel=true train.global_batch=1 | --model llama-8B --batch 1 --seq 8192 --tp N
124m_dp_64x1024  2,4  125 gpt2_124m mesh.dp=N train.global_batch=64N | --model gpt2-124M --batch 64 --seq 1024 --dp ddp
1b_dp_4x4096     2,4  270 llama_1b  mesh.dp=N train.global_batch=4N | --model llama-1B --batch 4 --seq 4096 --no-reshard
1b_dp_vocabulary_4x4096 2,4 265 llama_1b mesh.dp=N train.global_batch=4N parallel.plan=vocabulary | --model llama-1B --batch 4 --seq 4096 --no-reshard
1b_fsdp_4x4096   2,4  270 llama_1b  mesh.dp=N train.global_batch=4N parallel.fsdp=full parallel.plan=vocabulary kernels.logits=4 | --model llama-1B --batch 4 --seq 4096 --no-reshard
1b_fsdp_bf16_4x4096 2,4 260 llama_1b mesh.dp=N train.global_batch=4N parallel.fsdp=full parallel.plan=vocabulary precision.reduce=bf16 kernels.logits=4 | --model llama-1B --batch 4 --seq 4096 --no-reshard --reduce-dtype bf16
1b_tp_4x4096     2,4  130 llama_1b  mesh.tp=N parallel.sequence_parallel=true train.global_batch=4 | --model llama-1B --batch 4 --seq 4096 --tp N
'
variable='^[A-Z0-9_]+='
names() { awk 'NF { print $1 }' <<< "$table"; }
gpus_of() { awk -v name="$1" '$1 == name { gsub(",", " ", $2); print $2 }' <<< "$table"; }
# expand N WORDS...: replaces N, 2N and so on by their numbers.
expand() {
  local word
  for word in "${@:2}"; do
    if [[ $word =~ ^(.*=)?([0-9]*)N$ ]]; then word=${BASH_REMATCH[1]}$((${BASH_REMATCH[2]:-1} * $1)); fi
    echo "$word"
  done
}
# define ROW GPUS: sets `config`, `keys` and `weft_command` of Weft, `settings` and `peer_command` of the peer, and `step_ms`.
define() {
  local left right
  [[ " $(gpus_of "$1") " = *" $2 "* ]] || {
    echo "multigpu_rows: expected one of the rows $(names | xargs) on as many GPUs as it takes, got $1 on $2" >&2
    exit 2
  }
  IFS='|' read -r left right < <(awk -v name="$1" '$1 == name' <<< "$table")
  read -r _ _ step_ms config left <<< "$left"
  # shellcheck disable=SC2086  # several arguments
  mapfile -t keys < <(expand "$2" $left device=cuda ${KEYS:-} | grep -vE "$variable")
  # shellcheck disable=SC2086
  mapfile -t variables < <(printf '%s\n' $left ${KEYS:-} | grep -E "$variable")
  # shellcheck disable=SC2086
  mapfile -t settings < <(expand "$2" $right)
  weft_command=(${variables:+env "${variables[@]}"} mpirun -np "$2" --bind-to none "${program:-weft}")
  peer_command=(torchrun --standalone --nproc_per_node="$2" tests/bench/torch_peer.py)
}

if [ "$archive" = --dry ]; then
  for row in ${2:-$(names)}; do
    gpus=${3:-$(gpus_of "$row")}
    for gpus in ${gpus:-any}; do
      define "$row" "$gpus"
      echo "$row on $gpus: ${weft_command[*]} train configs/$config.yaml ${keys[*]}"
      echo "$row on $gpus: ${peer_command[*]} ${settings[*]}"
    done
  done
  exit
fi
[ -f "$archive" ] && [ $# -ge 2 ] || usage
row=$2 deadline=$((SECONDS + ${LIMIT_S:-530}))
gpus=${3:-$(nvidia-smi -L | wc -l)}
# shellcheck source=/dev/null
source launcher/environment.sh
# shellcheck source=/dev/null
source tests/bundle.sh
open_bundle "$archive"
program=$folder/weft/bin/weft
define "$row" "$gpus"
if [ -n "${CACHE:-}" ]; then
  mkdir -p "$CACHE"
  CACHE=$(realpath "$CACHE")
  export TORCHINDUCTOR_CACHE_DIR=$CACHE/inductor TRITON_CACHE_DIR=$CACHE/triton
fi

# watched NAME COMMAND...: runs the command within the remaining time, and samples the GPUs meanwhile.
watched() {
  local name=$1 code=0 smi
  shift
  limit=(timeout --kill-after=10 $((deadline > SECONDS ? deadline - SECONDS : 1)))
  stdbuf -oL nvidia-smi --id="$(seq -s , 0 $((gpus - 1)))" --loop-ms=500 --format=csv,noheader,nounits \
    --query-gpu=index,clocks.sm,power.draw,temperature.gpu,memory.used > "$out/$name.gpus.csv" &
  smi=$!
  "$@" || code=$?
  kill $smi
  wait $smi || true  # it was killed
  [ $code -eq 0 ] && return
  tail -5 "$out/$name".*.log >&2
  [ $code -ne 124 ] || echo "multigpu_rows: LIMIT_S ran out; with CACHE=FOLDER the next call finds what PyTorch has compiled" >&2
  echo "multigpu_rows: expected run $name to succeed, got exit code $code" >&2
  exit 1
}
weft() { watched "$1" run_weft "$1" "$config" "${keys[@]}" train.steps="$2"; }
peer() { watched "$1" run_peer "$1" "${settings[@]}" --steps 20 --warmup "$2"; }

warm=$((10000 / step_ms))
[ $warm -ge 10 ] || warm=10  # in the first steps Weft records its step, and the peer tries its algorithms
weft load $((20000 / step_ms))
weft weft.1 $((warm + 20))
peer peer.1 $warm
peer peer.2 $warm
weft weft.2 $((warm + 20))
python3 -B tests/bench/multigpu_rows.py "$row" "$gpus" "$out" "${keys[*]} ${variables[*]}" "${settings[*]}"
