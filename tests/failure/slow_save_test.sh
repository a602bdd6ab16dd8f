#!/usr/bin/env bash
# Storage that is slow on one rank: as long as its save progresses, the others wait for longer than dist.timeout_s, at any
# point of a save. One that comes no further ends the job, and the line says that the rank was saving.
# Usage: slow_save_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/../launcher/prelude.sh"
source "$root/tests/failure/cases.sh"
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
rank_program=$dir/rank.sh
# saves RANK FAULT WORDS...: a run whose rank's storage has the fault; `code`, and `ms` that it took.
saves() {
  CASE=$dir code=0
  local begin
  begin=$(now)
  ODD=$1 WEFT_FAULT=$2 within 60 mpirun -np 2 "$rank_program" "${config[@]}" "${@:3}" > "$dir/out" 2>&1 < /dev/null || code=$?
  ms=$((($(now) - begin) / 1000000))
}

# The last writes of each rank take a second longer each: rank 0 has 62 of them, rank 1 has 35.
slow_from=(56 29)
slow_writes() {
  saves "$1" "write:slow:${slow_from[$1]}+"
  [ $code -eq 0 ] || fail "expected a run with a slow rank $1 to reach its end"
  [ $ms -ge $((3000 * timeout_s)) ] || fail "expected a save that takes longer than dist.timeout_s, got $ms ms"
  [ "$(ls "$dir/c")" = step-000001 ] || fail "expected the checkpoint of a slow rank $1"
}
# So do the steps by which rank 0 puts a checkpoint in its place.
slow_point() {
  saves 0 "$1:slow:1+" checkpoint.keep=1
  [ $code -eq 0 ] || fail "expected a run with a slow $1 to reach its end"
}
# stuck RANK FAULT
stuck() {
  saves "$@" train.steps=1000000
  judged $code $ms 60000 "rank $1 \(host $host, pid $(cat "$CASE/pid.$1")\) is late, it is saving $CASE/c/step-000001 \([0-9.]+ [KM]?i?B of [0-9.]+ KiB written, the last progress [0-9.]+ s ago\): all_gather #[0-9]+ on world"
  echo "shown: $2 on rank $1: ended after $ms ms: $(grep -m 1 '^weft: ' "$dir/out")"
}
for rank in 0 1; do in_background slow-$rank slow_writes $rank; done
for point in fsync fsync_dir rename remove mkdir; do in_background $point slow_point $point; done
in_background write-1 stuck 1 write:hang:5
in_background fsync-0 stuck 0 fsync:hang
in_background rename-0 stuck 0 rename:hang
collect
echo "slow saves: ok"
