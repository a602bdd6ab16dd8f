#!/usr/bin/env bash
# run: NAME as a user sees it: each run gets a folder of its own, what resumes keeps it, no log is lost, and generate,
# eval and report find the run.
# Usage: run_name_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/prelude.sh"

text=$root/README.md config=$root/configs/gpt2-tiny.yaml
mkdir "$dir/jobs"
cd "$dir/jobs"
words=("$config" "data.train=$text" data.val=0 model.layers=1 schedule.warmup_steps=0 train.steps=2 run=a)

# On two ranks, which share the name that rank 0 finds.
for name in a a-2 a-3; do
  code=0
  within 60 mpirun -np 2 "$weft" train "${words[@]}" mesh.dp=2 > "$dir/out" 2>&1 < /dev/null || code=$?
  [ $code -eq 0 ] || fail "expected $name to train"
  for file in log.jsonl config.yaml step-000002/manifest.json; do [ -e "runs/$name/$file" ] || fail "expected runs/$name/$file"; done
  ls runs/$name/tensorboard/events.out.* > /dev/null || fail "expected events"
  grep -qx "run: $name" "runs/$name/config.yaml" || fail "expected the name in the merged config"
  ! grep -q 'runs/' "runs/$name/config.yaml" || fail "expected no path that follows from the name"
  [ $name = a ] || grep -qF "note: runs/a is there already, so this run is runs/$name" "$dir/out" || fail "expected a note"
done
[ "$(ls runs)" = "$(printf 'a\na-2\na-3')" ] || fail "expected three folders"

# The same folder again; the log grows.
lines=$(wc -l < runs/a-2/log.jsonl)
run 0 "resumed: runs/a-2/step-000002" train "${words[@]}" run=a-2 train.steps=3 checkpoint.resume=auto
[ "$(wc -l < runs/a-2/log.jsonl)" -gt "$lines" ] || fail "expected the log to be added to"
run 0 "resumed: runs/a-2/step-000003" train runs/a-2/config.yaml train.steps=4 checkpoint.resume=runs/a-2/step-000003
# auto without a checkpoint starts from the beginning and loses nothing.
mkdir -p runs/b && echo '{"event":"start"}' > runs/b/log.jsonl
run 0 "note: runs/b/log.jsonl had the log of another run, which is runs/b/log.jsonl.1 now" train "${words[@]}" run=b checkpoint.resume=auto
[ "$(cat runs/b/log.jsonl.1)" = '{"event":"start"}' ] || fail "expected the older log as it was"
# A run of the merged config that does not resume is another one.
run 0 "log: runs/a-2-2/log.jsonl" train runs/a-2/config.yaml train.steps=1 checkpoint.resume=never
# Keys that name a place win.
run 0 "log: mine.jsonl" train "${words[@]}" run=c log.jsonl=mine.jsonl checkpoint.dir=mine
[ -e mine/step-000002 ] && [ -e mine.jsonl.config.yaml ] && [ "$(ls runs/c)" = tensorboard ] || fail "expected the places that keys name"
run 2 "command line: run: expected a name of letters" train "${words[@]}" run=../x
# Refused before it starts: no folder is left.

run 1 "asked for" train "${words[@]}" run=d train.global_batch=90000000
[ ! -e runs/d ] || fail "expected no folder of a run that was refused"

run 0 "newest run: runs/a-2-2" generate tokens=3
run 0 "weights: runs/a-2-2/step-000001" generate tokens=3
run 0 "newest run: runs/a-2-2" eval "data.val=$text" train.eval_batches=1
run 0 "weights: runs/a-2/step-000002" generate "${words[@]}" tokens=3
run 0 "weights: runs/b/step-000002" generate "${words[@]}" run=b tokens=3
run 0 "newest run: runs/b" generate run=b tokens=3
run 0 "newest run: runs/a-2-2" eval run=a-2 "data.val=$text" train.eval_batches=1
run 2 "command line: run: expected a run that has saved a checkpoint, got \"x\", of which $dir/jobs/runs has none" generate run=x
run 2 "b: no such file or folder; " generate b tokens=3
grep -q "; did you mean runs/b?$" "$dir/out" || fail "expected the folder of the run"
run 0 "runs/a/report.html: the run of runs/a/log.jsonl" report runs/a
mkdir "$dir/empty"
cd "$dir/empty"
run 2 "CHECKPOINT or CONFIG is missing, and no run in $dir/empty/runs has saved a checkpoint" generate tokens=3
run 2 "CHECKPOINT or CONFIG is missing, and no run in $dir/empty/runs has saved a checkpoint" eval
run 2 'command line: run: expected the name of a run in runs/, got ""; without run= the newest is taken' generate run=

# A table of the steps, in addition to the log.
run 0 "table: t.csv" train "${words[@]}" log.csv=t.csv
[ "$(wc -l < t.csv)" -eq 3 ] && [ "$(head -c 10 t.csv)" = "step,loss," ] || fail "expected names and two steps"
run 2 "log.csv: would overwrite t.csv, which log.jsonl names" train "${words[@]}" log.csv=t.csv log.jsonl=t.csv
echo "runs: ok"
