#!/usr/bin/env bash
# A run that cannot start, or cannot continue, ends on all ranks together: one reason, from the rank that has it.
# Usage: refusal_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/prelude.sh"

# Rank ODD trains with the arguments in ODD_WORDS after those that all ranks have; the last value of a key wins. With
# WORK_DIRS each rank stands in a folder of its own there, as on hosts that share no disk: relative paths differ.
cat > "$dir/rank.sh" <<'EOF'
#!/usr/bin/env bash
[ -z "${WORK_DIRS:-}" ] || cd "$WORK_DIRS/$OMPI_COMM_WORLD_RANK" || exit 99
[ "$OMPI_COMM_WORLD_RANK" != "${ODD:-}" ] || set -- "$@" $ODD_WORDS
exec "$PROGRAM" train "$@"
EOF
chmod +x "$dir/rank.sh"
export PROGRAM=$weft

# ended CODE TEXT TIMES WORDS...: the job's exit code, and TEXT in TIMES lines.
ended() {
  local wanted=$1 text=$2 times=$3
  shift 3
  code=0
  within 60 mpirun -np 3 "$dir/rank.sh" "$@" > "$dir/out" 2>&1 < /dev/null || code=$?
  [ $code -eq "$wanted" ] || fail "expected exit code $wanted for $*"
  local lines
  lines=$(grep -cF -- "$text" "$dir/out" || true)
  [ "$lines" -eq "$times" ] || fail "expected \"$text\" in $times lines for $*"
}
refused() { ended 2 "$@"; }
config=(configs/gpt2-tiny.yaml train.steps=1 schedule.warmup_steps=0 data.train=README.md)

for rank in 0 1 2; do
  export ODD=$rank ODD_WORDS="data.train=$dir/absent.txt"
  refused "data.train: $dir/absent.txt: no such file" 1 "${config[@]}"
  refused "weft: rank $rank (host $(hostname)) failed, as 1 of 3 ranks:" 1 "${config[@]}"
done
ODD_WORDS="train.steps=many"
refused "command line: train.steps: expected an integer" 1 "${config[@]}"
ODD_WORDS="--foo"
refused 'weft train: unknown flag "--foo"' 1 "${config[@]}"

# What all can load, but not alike.
printf '%s' "$(head -c 5000 README.md)" > "$dir/short.txt"
ODD_WORDS="train.seed=2"
refused "has another config: train.seed is 2 there and 1 on rank 0" 1 "${config[@]}"
ODD_WORDS="mesh.dp=1 mesh.tp=3"
refused "has another config: mesh.dp is 1 there and 3 on rank 0" 1 "${config[@]}" mesh.dp=3
ODD_WORDS="data.train=$dir/short.txt"
refused "has other training tokens" 1 "${config[@]}"

unset ODD
[ -e /dev/nvidiactl ] || refused "command line: device: rank 0 (host $(hostname)): device cuda: " 1 "${config[@]}" mesh.dp=3 device=cuda
NCCL_NVLS_ENABLE=1 refused "device: rank 0 (host $(hostname)): NCCL_NVLS_ENABLE: expected 0" 1 "${config[@]}" mesh.dp=3 device=cuda
refused "command line: train.recompute: expected a budget of at least" 1 "${config[@]}" mesh.dp=3 'train.recompute={"budget":0.001}'
run 2 "command line: train.recompute: expected a budget of at least" bench step config=configs/gpt2-tiny.yaml executor=compiled device=cpu 'train.recompute={"budget":0.001}'
run 2 "command line: train.recompute: expected a budget of at least" plan configs/gpt2-tiny.yaml 'train.recompute={"budget":0.001}'
# Rows that contradict each other are a mistake in the config.
rows='parallel.plan={base: none, rows: [{module: "*", at: weight, tp: shard(0)}]}'
refused "command line: parallel.plan: no rank can compute its part by these rows: einsum at" 1 "${config[@]}" mesh.tp=3 "$rows"
run 2 "command line: parallel.plan: no rank can compute its part by these rows: einsum at" plan configs/gpt2-tiny.yaml mesh.tp=2 "$rows"
refused "parallel.symmetric_memory" 1 "${config[@]}" mesh.dp=3 device=cpu parallel.symmetric_memory=true
# weft plan refuses what weft train would: with only tp this model gathers nothing, and CPUs map no memory.
run 2 "command line: parallel.gather: expected gathers over several GPUs" plan configs/gpt2-tiny.yaml device=cuda mesh.tp=2 parallel.gather=copy
run 2 "command line: parallel.symmetric_memory: expected all-gathers or sums" plan configs/gpt2-tiny.yaml device=cpu mesh.dp=2 parallel.symmetric_memory=true
refused "data.train: $dir/absent.txt: no such file" 1 "${config[@]}" "data.train=$dir/absent.txt"
refused "(host" 0 "${config[@]}" "data.train=$dir/absent.txt"
refused "model.init: $dir/absent: no such file or folder" 1 "${config[@]}" "model.init=$dir/absent"
refused "$dir/absent.yaml: no such file" 1 "$dir/absent.yaml"
refused 'weft train: unknown flag "--foo"' 1 "${config[@]}" --foo
refused "weft train: CONFIG is missing" 1 train.steps=1
refused "expected one CONFIG" 1 "${config[@]}" "${config[@]}"
refused "weft train --help says how to use it" 1 "${config[@]}" --foo

# A checkpoint.dir that is another folder for some rank: refused before the first step, and nothing is left of it.
export WORK_DIRS=$dir/hosts
mkdir -p "$WORK_DIRS"/{0,1,2}
apart=("$PWD/${config[0]}" "${config[@]:1}" "data.train=$PWD/README.md" checkpoint.dir=runs/c)
find "$WORK_DIRS" | sort > "$dir/before"
not_shared() { # FIRST WORDS...: the first rank that does not find it
  refused "command line: checkpoint.dir: expected a folder that all ranks share" 1 "${@:2}"
  grep -qF "what rank 0 (host $(hostname)) wrote to $WORK_DIRS/0/runs/c, rank $1 (host $(hostname)) does not find in $WORK_DIRS/$1/runs/c; " \
    "$dir/out" || fail "expected rank $1 and its folder to be named"
  ! grep -q 'step 1/1' "$dir/out" || fail "expected no step before the refusal"
  find "$WORK_DIRS" | sort | diff "$dir/before" - > "$dir/diff" || fail "expected nothing to be left: $(cat "$dir/diff")"
}
not_shared 1 "${apart[@]}"
ln -s ../0/runs "$WORK_DIRS/1/runs"
find "$WORK_DIRS" | sort > "$dir/before"
not_shared 2 "${apart[@]}"
# The second of two ranks has the folder now, under another path; then rank 2 comes to what they have saved.
timeout 60 mpirun -np 2 "$dir/rank.sh" "${apart[@]}" > "$dir/out" 2>&1 < /dev/null || { code=$?; fail "expected two ranks to train"; }
[ "$(ls -A "$WORK_DIRS/0/runs/c")" = step-000001 ] || fail "expected a checkpoint and nothing else"
find "$WORK_DIRS" | sort > "$dir/before"
not_shared 2 "${apart[@]}" checkpoint.resume=auto train.steps=2
unset WORK_DIRS

# A run that diverges has started: exit code 1, reported once as well.
ended 1 "weft: the validation loss after step 1 is" 1 "${config[@]}" data.val=0.1 optimizer.lr=1e38 \
  schedule.name=constant mesh.dp=3
# A need that no host can hold is reported once for all ranks of the host, before anything is allocated.
ended 1 "TiB asked for (3 ranks: parameters" 1 "${config[@]}" train.global_batch=30000000 mesh.dp=3
echo "refusals: ok"
