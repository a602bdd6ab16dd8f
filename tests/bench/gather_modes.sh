#!/usr/bin/env bash
# Compares the ways in which FSDP gathers weights on several GPUs of one machine: parallel.gather=kernels and copy, in a step of
# rows of multigpu_rows.sh. It trains the first row for a few seconds, so that clocks settle, and then each row with kernels, copy,
# copy and kernels. The machine needs no build: the archive is from tests/gpu.sh --pack or launcher/bundle.sh.
#
#   tests/bench/gather_modes.sh ARCHIVE.tar.gz [ROW [GPUS]]     by default 1b_fsdp_4x4096 and 8b_fsdp_1x8192, on all GPUs
#   tests/bench/gather_modes.sh --dry [ROW [GPUS]]              prints the commands
#
# Prints a JSON line and a row of a table for each: the median step of each way (the mean of its two runs), what copies save of
# it, and the memory of a GPU by the program's count and by nvidia-smi's, which has the communicators too. Two rows take less than
# four minutes on two GPUs. OUT=FOLDER gets the output of the runs. LIMIT_S (default 230) is the time limit of a call in seconds;
# a row that it cuts off has no line.
set -euo pipefail
usage() {
  sed -n '2,13s/^# \{0,1\}//p' "$0" >&2
  exit 2
}
[ $# -ge 1 ] && [ $# -le 3 ] || usage
archive=$1
[ ! -f "$archive" ] || archive=$(realpath "$archive")
cd "$(dirname "$0")/../.."
# shellcheck source=/dev/null
source tests/bench/beside_torch.sh
[ -f "$archive" ] || [ "$archive" = --dry ] || usage
rows=${2:-1b_fsdp_4x4096 8b_fsdp_1x8192} deadline=$((SECONDS + ${LIMIT_S:-230}))
gpus=${3:-$([ "$archive" = --dry ] && echo 2 || nvidia-smi -L | wc -l)}

# define ROW: sets `config` and `keys` by the command of multigpu_rows.sh.
define() {
  local words
  words=$(tests/bench/multigpu_rows.sh --dry "$1" "$gpus") || exit 2
  read -ra words <<< "$(head -1 <<< "$words")"
  while [ "${words[0]}" != train ]; do words=("${words[@]:1}"); done
  config=$(basename "${words[1]}" .yaml) keys=("${words[@]:2}")
  [[ $1 != *_fsdp_* ]] || return 0
  echo "gather_modes: expected a row of FSDP, such as 1b_fsdp_4x4096, got $1" >&2
  exit 2
}
if [ "$archive" = --dry ]; then
  for row in $rows; do
    define "$row"
    for way in kernels copy copy kernels; do
      echo "$row on $gpus: mpirun -np $gpus --bind-to none weft train configs/$config.yaml ${keys[*]} parallel.gather=$way"
    done
  done
  exit
fi
# shellcheck source=/dev/null
source launcher/environment.sh
# shellcheck source=/dev/null
source tests/bundle.sh
open_bundle "$archive"
weft_command=(mpirun -np "$gpus" --bind-to none "$folder/weft/bin/weft")

# timed NAME STEPS WAY: one run, with samples of the GPUs.
timed() {
  local code=0 smi
  limit=(timeout --kill-after=10 $((deadline > SECONDS ? deadline - SECONDS : 1)))
  stdbuf -oL nvidia-smi --id="$(seq -s , 0 $((gpus - 1)))" --loop-ms=500 --format=csv,noheader,nounits \
    --query-gpu=index,clocks.sm,power.draw,temperature.gpu,memory.used > "$out/$1.gpus.csv" &
  smi=$!
  run_weft "$1" "$config" "${keys[@]}" parallel.gather="$3" train.steps="$2" || code=$?
  kill $smi
  wait $smi || true  # it was killed
  grep -h '^note: ' "$out/$1.weft.log" >&2 || true
  [ $code -eq 0 ] && return
  tail -15 "$out/$1.weft.log" >&2
  echo "gather_modes: expected run $1 with parallel.gather=$3 to succeed, got exit code $code" >&2
  [ $code -ne 124 ] || echo "gather_modes: LIMIT_S ran out" >&2
  return 1
}
failed=0
for row in $rows; do
  define "$row"
  i=0 made=1
  [ "$row" != "${rows%% *}" ] || timed "$row.load" 18 kernels || exit 1
  for way in kernels copy copy kernels; do
    i=$((i + 1))
    timed "$row.$i" 18 $way || { made=0; break; }
  done
  if [ $made -eq 1 ]; then
    python3 -B tests/bench/gather_modes.py "$row" "$gpus" "$out"
  else
    failed=1
  fi
done
exit $failed
