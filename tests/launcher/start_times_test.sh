#!/usr/bin/env bash
# The event startup of real runs, on one rank and on two: each phase has its name and a time that is not before that of the
# phase before it, and all of them lie within the time of the process.
# Usage: start_times_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/prelude.sh"

log=$dir/log.jsonl
words=(train configs/gpt2-tiny.yaml data.train=README.md data.val=0.05 train.eval_batches=1 model.layers=1
  schedule.name=constant schedule.warmup_steps=0 "log.jsonl=$log" "log.csv=$dir/log.csv" "checkpoint.dir=$dir/c")
# The phases in the order of the reference page.
names=$(sed -n '/^## startup$/,/^## eval$/s/^| `\([a-z_]*\)`.*/\1/p' docs/reference/log-events.md)
[ "$(wc -w <<< "$names")" -eq 10 ] || fail "expected ten phases on the page"

# checked STARTS COMMAND WORD...: runs the command. Its log then has one event for each start, after the first step of it.
checked() {
  local starts=$1 begin ns line ms
  shift
  begin=$(now)
  within 60 "$@" > "$dir/out" 2>&1 < /dev/null || { code=$?; fail "expected the run to end"; }
  ns=$(($(now) - begin))
  [ "$(grep -c '"event":"startup"' "$log")" -eq "$starts" ] || fail "expected $starts events"
  [ "$(sed -nE 's/^\{"event":"(start|step|startup)".*/\1/p' "$log" | tr '\n' ' ' | grep -o 'start step startup' | wc -l)" -eq "$starts" ] ||
    fail "expected the event after the first step of each start"
  line=$(grep '"event":"startup"' "$log" | tail -n 1)
  ms=$(grep -B 1 '"event":"startup"' "$log" | tail -n 2 | sed -nE 's/.*"event":"step".*"ms":([0-9.e+-]+).*/\1/p')
  [ "$(grep -oE '"[a-z_]+":[0-9]' <<< "$line" | cut -d '"' -f 2)" = "$names" ] || fail "expected the phases of the page, got $line"
  # The system knows the begin of a process to a tick of 10 ms.
  grep -oE ':[0-9.e+-]+' <<< "$line" | tr -d : | awk -v wall="$((ns / 1000000))" -v ms="${ms:-none}" '
    $1 < last { bad = 1 }
    { before = last; last = $1 }
    END { exit bad || !(ms > 0) || (last - before) * 1000 < ms || last * 1000 > wall + 11 }' ||
    fail "expected times in order, at least $ms ms for the step, and none past $((ns / 1000000)) ms, got $line"
}
checked 1 "$weft" "${words[@]}" train.steps=3
checked 2 "$weft" "${words[@]}" train.steps=5 checkpoint.resume=auto
[ "$(cut -d , -f 1 "$dir/log.csv" | tr '\n' ' ')" = "step 1 2 3 4 5 " ] || fail "expected a table of five steps"
! grep -q startup "$dir/out" || fail "expected no line of it on the terminal"
rm -r "$log" "$dir/c"
checked 1 mpirun -np 2 "$weft" "${words[@]}" mesh.dp=2 train.steps=2
run 0 "the run of $log" report "$log"
grep -qE 'to the end of the first step: program [0-9.]+s, ranks [0-9.]+s, data .*, first step [0-9.]+s<' "$dir/log.html" ||
  fail "expected the phases in the report"
run 0 "nothing to do" "${words[@]}" train.steps=2 checkpoint.resume=auto
[ "$(grep -c '"event":"startup"' "$log")" -eq 1 ] || fail "expected no event of a start without a step"
echo "start_times: ok"
