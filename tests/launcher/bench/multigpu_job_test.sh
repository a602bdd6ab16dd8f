#!/usr/bin/env bash
# Checks multigpu_job.sh with two ranks on CPUs, and its memory check with a double of nvidia-smi.
# Usage: multigpu_job_test.sh ROOT BUILD. Exits with 77 (skipped) if the program is not built.
source "$(dirname "$0")/../prelude.sh"
job=tests/bench/multigpu_job.sh
mkdir "$dir/fakes"
cat > "$dir/fakes/nvidia-smi" << 'END'
#!/usr/bin/env bash
for ((i = 0; ; i++)); do
  printf '0, %d\n1, 1636\n' $((1636 + GROWTH * i))
  sleep 0.05
done
END
chmod +x "$dir/fakes/nvidia-smi"

# runs GROWTH PART...: on CPUs, while the first GPU gets GROWTH MiB more with each sample.
runs() {
  GROWTH=$1 PATH=$dir/fakes:$PATH REPLAYS=100 DEVICE=auto CONFIG=configs/llama-tiny.yaml KEYS="" DIR=$dir/checkpoints \
    within 100 $job "$weft" 2 "${@:2}" > "$dir/out" 2>&1
}
runs 0 launch replays checkpoint || fail "expected all parts to pass"
[ "$(grep -c 'shown: one step of' "$dir/out")" = 3 ] || fail "expected three launches"
[ "$(grep -c 'shown: {"event":"startup"' "$dir/out")" = 3 ] || fail "expected the phases of three starts"
# The phases count from the begin of a rank, which mpirun starts. The system knows it to a tick of 10 ms.
sed -nE 's/.*the first step ends after ([0-9]+) ms and takes ([0-9.]+) ms; the job ends after ([0-9]+) ms$/\1 \2 \3/p
  s/.*"event":"startup".*"step_done":([0-9.]+).*/\1/p' "$dir/out" | awk '
  NF == 3 { first = $1; bad += !(0 < $2 && $2 < first && first <= $3) }
  NF == 1 { bad += !(0 < $1 && $1 * 1000 < first + 11) }
  END { exit bad || NR != 6 }' || fail "expected the step within the launch, and the launch within the job"
grep -q 'shown: GPU 0: 1636 MiB, then 1636 MiB' "$dir/out" || fail "expected the memory of a GPU"
[ "$(grep -c '"event":"save"' "$dir/out")" = 2 ] || fail "expected two saves"
[ "$(grep -c 'shown: the checkpoint evaluated on' "$dir/out")" = 2 ] || fail "expected a loss of both meshes"
! runs 1 replays || fail "expected memory that grows to be found"
grep -q 'expected memory that stays as it is' "$dir/out" || fail "expected the growth to be named"
! runs 0 lunch || fail "expected a part that is not known to be refused"
echo "job: ok"
