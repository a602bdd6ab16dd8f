#!/usr/bin/env bash
# weft prepare, then weft train on what it wrote; bad words and texts are one line, and a kill leaves no half of a set.
# Usage: prepare_command_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/prelude.sh"

refused() {
  run 2 "$@"
  [ "$(wc -l < "$dir/out")" -eq 1 ] || fail "expected one line for ${*:2}"
  [ ! -e "$dir/no" ] || fail "expected nothing to be written for ${*:2}"
}

run 0 "usage: weft prepare OUT INPUT... [key=value...]" prepare --help
[ "$(wc -l < "$dir/out")" -le 24 ] || fail "expected help of one screen"
run 0 "prepare" --help

# train WORDS...: in a folder of its own, where the runs go to.
train() { (cd "$dir" && run 0 "$1" train "${@:2}"); }

made=0
short=(model.layers=1 model.dim=16 train.steps=2 train.eval_batches=1 schedule.warmup_steps=1)
for words in "" "tokenizer=chars" "tokenizer=sentencepiece vocab=500" "val=configs shard=5000"; do
  name="$dir/made $((made += 1))"
  code=0
  # shellcheck disable=SC2086  # words
  within 60 "$weft" prepare "$name" README.md launcher $words > "$dir/out" 2>&1 || code=$?
  if [ $code -eq 2 ] && grep -q 'built without sentencepiece' "$dir/out"; then
    echo "without sentencepiece: not tried"
    continue
  fi
  [ $code -eq 0 ] || fail "expected prepare to work with $words"
  next=$(sed -n 's/^next: //p' "$dir/out")
  [ "$next" = "$weft train '$name/config.yaml'" ] || fail "expected the next command, in quotes as a shell takes them"
  for file in config.yaml train_000001.bin val.bin; do [ -s "$name/$file" ] || fail "expected $file with $words"; done
  train "validation" "$name/config.yaml" "${short[@]}"
  [ -e "$dir/runs/made-$made/log.jsonl" ] || fail "expected a run that is named after the folder"
  [[ $words != *tokenizer=* ]] || grep -q 'bits per byte' "$dir/out" || fail "expected bits per byte with $words"
  run 0 "compute per step" plan "$name/config.yaml" ranks=2 mesh.dp=2
  run 2 "expected a new or an empty folder, got one that holds config.yaml, t" prepare "$name" README.md
done
run 2 "; $dir/made 1/train_*.bin names what to train on" train configs/gpt2-tiny.yaml "data.train=$dir/made 1"
for flag in "--out $dir/flag" "--out=$dir/flag2"; do
  # shellcheck disable=SC2086  # words
  run 0 "text: 1 file," prepare README.md val=0 $flag
  [ "$(ls "${flag#--out?}")" = "$(printf 'config.yaml\ntrain_000001.bin')" ] || fail "expected no val.bin with val=0"
done
run 0 "note: val: README.md is among the training data too" prepare "$dir/both" README.md launcher val=README.md
run 0 "note: command line: data.val: README.md is among" train configs/gpt2-tiny.yaml data.train=README.md data.val=README.md "${short[@]}"
run 2 "${dir}/flag: expected a YAML config, got a folder; did you mean $dir/flag/config.yaml?" train "$dir/flag"
train "done: 2 steps" "$dir/flag/config.yaml" "${short[@]:0:3}" schedule.warmup_steps=1
! grep -q '^note: ' "$dir/out" || fail "expected no note about a config that weft prepare wrote"

refused "weft prepare: OUT is missing; weft prepare --help" prepare
for words in "prepare $dir/no README.md" "export $dir/none" "report $dir/none" "plan configs/gpt2-tiny.yaml"; do
  code=0
  # shellcheck disable=SC2086  # words
  within 60 mpirun -np 2 "$weft" $words > "$dir/out" 2>&1 || code=$?
  [ $code -eq 2 ] && [ "$(grep -c 'expected to run as one process, got 2 ranks; start it without mpirun' "$dir/out")" -eq 1 ] ||
    fail "expected $words to be refused on two ranks, once"
done
# Other launchers, by the variables that they set.
while IFS='|' read -r ranks variables; do
  code=0
  # shellcheck disable=SC2086  # words
  within 60 env $variables "$weft" prepare "$dir/no" README.md > "$dir/out" 2>&1 < /dev/null || code=$?
  [ $code -eq 2 ] && grep -q "expected to run as one process, got $ranks; start it without mpirun, srun" "$dir/out" ||
    fail "expected $variables to be refused"
  [ ! -e "$dir/no" ] || fail "expected nothing to be written on several ranks"
done << 'LAUNCHERS'
4 ranks|PMIX_RANK=0 SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_STEP_ID=0
several ranks|PMIX_RANK=1
2 ranks|PMI_RANK=0 PMI_SIZE=2
3 ranks|RANK=0 WORLD_SIZE=3
4 ranks|SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_STEP_ID=0
LAUNCHERS
# A command of a batch script, or of the shell that salloc starts, is one process of a job of four.
for step in "" SLURM_STEP_ID=4294967290; do
  within 60 env SLURM_PROCID=0 SLURM_NTASKS=4 $step "$weft" prepare "$dir/batch$step" README.md > "$dir/out" 2>&1 < /dev/null ||
    { code=$?; fail "expected a batch script to prepare"; }
done
refused "weft prepare: INPUT is missing; weft prepare --help" prepare "$dir/no"
refused "weft prepare: OUT is missing: the first path is the folder to write to, got README.md, a file" prepare README.md
refused "weft prepare: INPUT is missing" prepare "$dir/no" val=0
refused 'command line: outt: unknown argument; did you mean --out?' prepare README.md --outt "$dir/no"
refused 'command line: --out: expected a string after it, got nothing' prepare README.md --out
refused 'command line: tokeniser: unknown argument; did you mean tokenizer?' prepare "$dir/no" README.md tokeniser=chars
refused 'unknown key "zzz"; weft prepare --help lists them' prepare "$dir/no" README.md zzz=1
refused 'tokenizer: expected one of bytes, chars, sentencepiece, chars:PATH, huggingface:PATH, sentencepiece:PATH, tiktoken:PATH, got "byte"' \
  prepare "$dir/no" README.md tokenizer=byte
refused 'vocab: has no effect, as tokenizer=bytes learns nothing' prepare "$dir/no" README.md vocab=300
refused 'vocab: expected an integer >= 1 and <= 1000000, got "many"' prepare "$dir/no" README.md vocab=many
refused 'shard: expected an integer >= 1 and <= 2147483647, got "0"' prepare "$dir/no" README.md shard=0
refused 'val: expected a path, a list of paths, or a number >= 0 and < 1, got "1"' prepare "$dir/no" README.md val=1
refused 'field: expected one field, got "a -> b"; pairs stay JSONL' prepare "$dir/no" README.md 'field=a -> b'
refused "$dir/a=b: no such file or folder" prepare "$dir/no" "$dir/a=b"
refused "weft prepare: OUT is missing: the first path is the folder to write to, got README.md, a file" prepare README.md "$dir/no"

# A kill leaves all of the set or a part that is named; what was not published is cleared away by the next run.
fault() { WEFT_FAULT=$1 within 60 "$weft" prepare "$dir/killed" README.md shard=1200 > "$dir/out" 2>&1 && code=0 || code=$?; }
for point in create:kill:2 write:kill:9 fsync:kill rename:kill; do
  fault $point
  [ $code -eq 137 ] || fail "expected a kill at $point"
  [ "$(ls "$dir/killed")" = "" ] || fail "expected no file after $point, got $(ls "$dir/killed")"
done
fault write:enospc:5
[ $code -eq 1 ] && grep -qF "cannot be written (No space left on device)" "$dir/out" || fail "expected a full disk to be named"
run 0 "next:" prepare "$dir/killed" README.md shard=1200
[ ! -e "$dir/killed/.unfinished" ] || fail "expected nothing unfinished"
echo "prepare: ok"
