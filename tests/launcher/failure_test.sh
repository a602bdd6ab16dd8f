#!/usr/bin/env bash
# A rank that is killed or suspended at any moment ends the job soon, and one line says which rank it was.
# Usage: failure_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
set -euo pipefail
cd "$1"
build=$2
[ -x "$build/weft" ] || exit 77
source launcher/environment.sh
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
source tests/launcher/judged.sh

config=(configs/gpt2-tiny.yaml data.train=README.md data.val=0 model.layers=1 schedule.name=constant
  schedule.warmup_steps=0 mesh.dp=2 mesh.tp=2 train.steps=100000 dist.timeout_s=2)
cat > "$dir/rank.sh" <<'END'
#!/usr/bin/env bash
echo $$ > "$DIR/pid.$OMPI_COMM_WORLD_RANK"
exec "$PROGRAM" "$@"
END
chmod +x "$dir/rank.sh"
export PROGRAM=$build/weft DIR=$dir

# signalled SIGNAL RANK LIMIT_MS PATTERN
signalled() {
  local begin code=0
  rm -f "$dir/log" "$dir"/pid.*
  mpirun -np 4 "$dir/rank.sh" train "${config[@]}" "log.jsonl=$dir/log" > "$dir/out" 2>&1 < /dev/null &
  job=$!
  for _ in $(seq 400); do
    ! grep -q '"step":3,' "$dir/log" 2> /dev/null || break
    sleep 0.05
  done
  begin=$(now)
  kill "-$1" "$(cat "$dir/pid.$2")"
  wait $job || code=$?
  judged $code $((($(now) - begin) / 1000000)) "$3" "rank $2 \(host $host, pid $(cat "$dir/pid.$2")\) $4"
}
signalled KILL 1 4000 'died first: .*#[0-9]+ on (dp|tp|world)'
signalled STOP 2 4000 'was suspended first: .*#[0-9]+ on (dp|tp|world)'

# generate and eval catch no signal to stop by. mpirun sends SIGTERM to the ranks that are left when one dies, at times
# before they know of it: they still say which one it was. Here it comes before.
"$build/weft" train "${config[@]}" mesh.dp=1 mesh.tp=1 train.steps=1 "checkpoint.dir=$dir/c" > /dev/null
# writes SIGNAL RANK LIMIT_MS PATTERN [OTHERS]: the signal to a rank of a generate, after SIGTERM to the others
writes() {
  local begin code=0
  rm -f "$dir"/pid.*
  mpirun -np 4 "$dir/rank.sh" generate "$dir/c" tokens=1000000 > "$dir/text" 2> "$dir/out" < /dev/null &
  job=$!
  for _ in $(seq 400); do
    [ ! -s "$dir/text" ] || break
    sleep 0.05
  done
  begin=$(now)
  for rank in ${5:-}; do kill -TERM "$(cat "$dir/pid.$rank")"; done
  kill "-$1" "$(cat "$dir/pid.$2")"
  wait $job || code=$?
  judged $code $((($(now) - begin) / 1000000)) "$3" "rank $2 \(host $host, pid $(cat "$dir/pid.$2")\) $4"
}
writes KILL 1 4000 'died first: .*#[0-9]+ on (dp|tp|world)' "0 2 3"
writes INT 2 4000 'died first: .*#[0-9]+ on (dp|tp|world)'
writes TERM 0 6000 'died first: .*#[0-9]+ on (dp|tp|world)'
# Alone there is nobody to tell of.
"$build/weft" generate "$dir/c" tokens=1000000 > "$dir/text" 2> "$dir/out" < /dev/null &
job=$!
while [ ! -s "$dir/text" ] && kill -0 $job; do sleep 0.05; done
begin=$(now) code=0
kill -TERM $job
wait $job || code=$?
[ $code -eq 143 ] || fail "expected SIGTERM to end one rank with exit code 143, got $code"
[ $((($(now) - begin) / 1000000)) -le 1000 ] || fail "expected SIGTERM to end one rank at once"
echo "failures: ok"
