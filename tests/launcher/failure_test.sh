#!/usr/bin/env bash
# A rank of a training run that is killed or suspended at any moment ends the run soon, and one line says which rank it
# was.
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
exec "$PROGRAM" train "$@"
END
chmod +x "$dir/rank.sh"
export PROGRAM=$build/weft DIR=$dir

# signalled SIGNAL RANK LIMIT_MS PATTERN
signalled() {
  local begin code=0
  rm -f "$dir/log" "$dir"/pid.*
  mpirun -np 4 "$dir/rank.sh" "${config[@]}" "log.jsonl=$dir/log" > "$dir/out" 2>&1 < /dev/null &
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
echo "failures: ok"
