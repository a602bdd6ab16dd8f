#!/usr/bin/env bash
# Storage that is slow on one rank: as long as its save progresses, the others wait for longer than dist.timeout_s, at any
# point of a save. One that comes no further ends the job, and the line says that the rank was saving.
# Usage: slow_save_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/../launcher/prelude.sh"
timeout_s=2
config=(configs/gpt2-tiny.yaml data.train=README.md data.val=0 model.layers=1 schedule.name=constant
  schedule.warmup_steps=0 mesh.tp=2 train.steps=1 checkpoint.every=1 "dist.timeout_s=$timeout_s")
cat > "$dir/rank.sh" <<'END'
#!/usr/bin/env bash
[ "$OMPI_COMM_WORLD_RANK" = "$ODD" ] || unset WEFT_FAULT
echo $$ > "$CASE/pid.$OMPI_COMM_WORLD_RANK"
exec "$PROGRAM" train "$@" "checkpoint.dir=$CASE/c" "log.jsonl=$CASE/log"
END
chmod +x "$dir/rank.sh"
export PROGRAM=$weft CASE
# saves NAME RANK FAULT WORDS...: a run whose rank's storage has the fault; `code`, and `ms` that it took.
saves() {
  CASE=$dir/$1 code=0
  mkdir "$CASE"
  local begin
  begin=$(now)
  ODD=$2 WEFT_FAULT=$3 within 60 mpirun -np 2 "$dir/rank.sh" "${config[@]}" "${@:4}" > "$dir/out" 2>&1 < /dev/null || code=$?
  ms=$((($(now) - begin) / 1000000))
}

# The last writes of each rank take a second longer each: rank 0 has 62 of them, rank 1 has 35.
slow_from=(56 29)
for rank in 0 1; do
  saves slow-$rank $rank "write:slow:${slow_from[$rank]}+"
  [ $code -eq 0 ] || fail "expected a run with a slow rank $rank to reach its end"
  [ $ms -ge $((3000 * timeout_s)) ] || fail "expected a save that takes longer than dist.timeout_s, got $ms ms"
  [ "$(ls "$dir/slow-$rank/c")" = step-000001 ] || fail "expected the checkpoint of a slow rank $rank"
done
# So do the steps by which rank 0 puts a checkpoint in its place.
for point in fsync fsync_dir rename remove mkdir; do
  saves $point 0 $point:slow:1+ checkpoint.keep=1
  [ $code -eq 0 ] || fail "expected a run with a slow $point to reach its end"
done

# stuck NAME RANK FAULT
stuck() {
  saves "$@"
  judged $code $ms 60000 "rank $2 \(host $host, pid $(cat "$CASE/pid.$2")\) is late, it is saving $CASE/c/step-000001 \([0-9.]+ [KM]?i?B of [0-9.]+ KiB written, the last progress [0-9.]+ s ago\): all_gather #[0-9]+ on world"
  echo "shown: $1: ended after $ms ms: $(grep -m 1 '^weft: ' "$dir/out")"
}
stuck write-1 1 write:hang:5 train.steps=1000000
stuck fsync-0 0 fsync:hang train.steps=1000000
stuck rename-0 0 rename:hang train.steps=1000000
echo "slow saves: ok"
