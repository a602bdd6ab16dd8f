#!/usr/bin/env bash
# `device: auto` where a run cannot use GPUs: it is the CPU, and one note says why if any host has NVIDIA's driver. A
# folder on LD_LIBRARY_PATH decides whether a rank finds a driver: it holds a library in the driver's place, or a file
# that is no library. So the test is the same on hosts with a driver and without one.
# Usage: device_auto_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/prelude.sh"

mkdir "$dir/driver" "$dir/none"
ln -s "$(ldd "$weft" | awk '/libm\.so/ { print $3 }')" "$dir/driver/libcuda.so.1"
: > "$dir/none/libcuda.so.1"
# Each rank runs weft with its own folder. mpirun of Open MPI 5.0.7 crashes where commands are joined by a colon.
cat > "$dir/rank.sh" << RANK
#!/usr/bin/env bash
folders=(\$FOLDERS)
LD_LIBRARY_PATH=$dir/\${folders[OMPI_COMM_WORLD_RANK]}\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH} exec "$weft" "\$@"
RANK
chmod +x "$dir/rank.sh"

# notes COUNT TEXT FOLDER...: a run of a rank for each folder succeeds, with so many notes about the device on stderr
# and in its log. They hold the text.
notes() {
  local wanted=$1 text=$2
  shift 2
  rm -f "$dir/log"
  code=0
  FOLDERS="$*" within 60 mpirun -np $# "$dir/rank.sh" train configs/gpt2-tiny.yaml data.train=README.md data.val=0 \
    model.layers=1 schedule.warmup_steps=0 train.steps=2 "mesh.dp=$#" "log.jsonl=$dir/log" \
    > "$dir/out" 2> "$dir/err" < /dev/null || code=$?
  [ $code -eq 0 ] || fail "expected a run with $* to succeed"
  grep -q '"step":2,' "$dir/log" || fail "expected two steps with $*"
  [ "$(grep -c 'device auto' "$dir/err")" -eq "$wanted" ] || fail "expected $wanted notes about the device with $*"
  [ "$(grep -cF "note: device auto is the CPU: $text" "$dir/err")" -eq "$wanted" ] || fail "expected \"$text\" with $*"
  [ "$(grep -cF '{"event":"note","text":"device auto is the CPU: ' "$dir/log")" -eq "$wanted" ] ||
    fail "expected $wanted notes in the log with $*"
}
notes 0 "" none
notes 0 "" none none
lacking="host $host has no NVIDIA driver, and others have one"
notes 1 "$lacking" none driver
notes 1 "$lacking" driver none
# The library has no GPU, or this build has no CUDA.
notes 1 "device cuda: " driver
echo "shown: one rank: $(grep -o 'device auto.*' "$dir/err")"
notes 1 "rank 0 (host $host): device cuda: " driver driver
echo "device auto: ok"
