#!/usr/bin/env bash
# weft report: pages of runs that were done, resumed or cut short, and what it refuses. What a page holds of each log,
# report_test shows. Usage: report_command_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/prelude.sh"
# shows PAGE TEXT...
shows() {
  local page=$1
  shift
  for text in "$@"; do
    grep -qF -- "$text" "$page" || { echo "report_command_test: expected '$text' in $page:"; sed -n '/<body>/,$p' "$page"; exit 1; }
  done
}
# number KEY FILE: as the page shows a loss; the last of that key.
number() { sed -nE "s/.*\"$1\":([0-9.e+-]+).*/\1/p" "$2" | tail -n 1 | xargs printf '%.4f'; }

log=$dir/a.jsonl
tiny=(configs/gpt2-tiny.yaml data.train=README.md data.val=0.05 train.eval_batches=2 schedule.warmup_steps=1
  "log.jsonl=$log" "checkpoint.dir=$dir/c" checkpoint.every=2)
run 0 "done: 4 steps" train "${tiny[@]}" train.steps=4
run 0 "$dir/a.html: the run of $log" report "$log"
shows "$dir/a.html" "done: 4 steps" "dp=1 x tp=1 on 1 rank" "$(number loss "$log") nats per token, in step 4" \
  "$(number val_loss "$log") nats per token," "family: gpt2" "<svg" "Learning rate" "Gradient norm" "Tokens per second"

# The start that follows repeats steps 3 and 4, with another rate; the config next to the log is its own.
run 0 "resumed: " train "${tiny[@]}" train.steps=6 optimizer.lr=0.00123 "checkpoint.resume=$dir/c/step-000002"
run 0 "" report "$log" "$dir/page.html"
shows "$dir/page.html" "done: 6 steps" "after step 2" "lr: 0.00123" "$(number loss "$log") nats per token, in step 6"
# A killed run: no end, and half a line. Its config is only in the log; text is escaped.
head -c -20 "$log" | sed 's/gpt2/<b>/' > "$dir/b & c.jsonl"
run 0 "" report "$dir/b & c.jsonl"
shows "$dir/b & c.html" "after step 6 of 6" "lines cut short" "b &amp; c.jsonl</h1>" "family: &lt;b&gt;"

# Long runs make small pages.
{ head -n 1 "$log"; awk 'BEGIN { for (i = 1; i <= 50000; i++) printf "{\"event\":\"step\",\"step\":%d,\"loss\":%s,\"grad_norm\":%.3f,\"lr\":0.001,\"ms\":10,\"tokens_per_s\":%d,\"mfu\":null,\"peak_bytes\":4096}\n", i, i % 1000 == 500 ? "null" : 3 + 100 / i, 1 + i % 7, 1000 + i % 100 }'; } > "$dir/long.jsonl"
run 0 "" report "$dir/long.jsonl"
shows "$dir/long.html" "in step 50000" "3.002 to 103, 50 not finite" "4.0 KiB"
[ "$(stat -c %s "$dir/long.html")" -lt 400000 ] || fail "expected a small page of a long run"

run 0 "usage: weft report" report --help
run 2 "RUN is missing" report
run 2 "nothing of that name" report "$dir/none.jsonl"
run 2 'expected the name of a run in runs/, its folder or its log, got "quikstart"' report quikstart
run 2 'expected RUN, out=FILE or chart=NAME, got "file=a.svg"' report "$log" file=a.svg
(mkdir -p "$dir/named/runs/quickstart" && cd "$dir/named" && run 2 'did you mean "quickstart"?' report quikstart)
run 2 "$dir/log.jsonl: expected a file of JSON lines, got nothing of that name" report "$dir"
run 2 "gpt2-tiny.yaml:1: expected the log of a run, whose lines begin with {\"event\":, got another file; give" report configs/gpt2-tiny.yaml "$dir/x.html"
run 2 "expected runs that differ, got $log twice" report "$log" "$log"
run 2 "/./a.jsonl twice" report "$log" "$dir/./a.jsonl"
run 2 "would overwrite $log" report "$log" "out=$log"
run 2 "would overwrite $log.config.yaml" report "$log" "out=$log.config.yaml"
cp "$log" "$dir/other.jsonl"
run 2 "OUT would overwrite $dir/other.jsonl, which is there and is no page" report "$log" "out=$dir/other.jsonl"
run 0 "" report "$log" "out=$(mktemp "$dir/empty.XXX")"
cmp "$log" "$dir/other.jsonl" || fail "expected the other log to be left as it was"
run 2 "--open" report "$log" --open

# Pictures: all charts, or one; they load nothing, and replace nothing but pictures.
picture() {
  run 0 "$1: the run" report "${@:2}" "out=$1"
  python3 -c 'import sys, xml.etree.ElementTree as t; t.parse(sys.argv[1])' "$1" 2> /dev/null || ! command -v python3 > /dev/null ||
    fail "expected $1 to be XML"
  ! grep -qE 'href|url\(|<script' "$1" || fail "expected $1 to load nothing"
}
picture "$dir/all.svg" "$log"
shows "$dir/all.svg" "Learning rate" "Gradient norm" "Tokens per second" "prefers-color-scheme: dark"
picture "$dir/loss.svg" "$log" chart=loss
shows "$dir/loss.svg" ">Loss<" "- - validation"
! grep -q "Learning rate" "$dir/loss.svg" || fail "expected one chart"
picture "$dir/all.svg" "$log"
cp "$dir/a.html" "$dir/page.svg"
run 2 "page.svg, which is there and is no picture" report "$log" "out=$dir/page.svg"
run 2 "expected out=FILE.svg with chart=loss, got $dir/a.html" report "$log" chart=loss
run 2 'chart: expected one of all, loss, tokens_per_s, grad_norm, lr, mfu, got "los"; did you mean "loss"?' report "$log" "out=$dir/x.svg" chart=los
run 2 "expected out=FILE.html or out=FILE.svg, got $dir/x.png" report "$log" "out=$dir/x.png"
run 2 "expected values for chart=mfu, got none" report "$log" "out=$dir/x.svg" chart=mfu

# Several runs, by log, folder and name: one page, with the keys that differ.
mkdir -p "$dir/runs/first" "$dir/runs/second"
cp "$log" "$dir/runs/first/log.jsonl"
sed 's/lr: 0.00123/lr: 0.005/' "$log" > "$dir/runs/second/log.jsonl"
run 0 "$dir/runs/compare.html: the runs of $dir/runs/first/log.jsonl, $dir/runs/second/log.jsonl" report "$dir/runs/first" "$dir/runs/second/"
shows "$dir/runs/compare.html" "<h1>first, second</h1>" '<b class="c1">second</b>' "Keys that differ" \
  "<th>optimizer.lr</th><td>0.00123</td><td>0.005</td>" "second, validation" "width=device-width"
(cd "$dir" && within 60 "$weft" report first "$log" second both.html > "$dir/out" 2>&1) || fail "expected names of runs to be found"
shows "$dir/both.html" "<h1>first, a, second</h1>"
picture "$dir/both.svg" "$dir/runs/first" "$dir/runs/second"
shows "$dir/both.svg" "second, validation"
run 2 "nothing of that name" report "$log" "$dir/none.jsonl"
: > "$dir/empty.jsonl"
run 2 "empty.jsonl: expected a log with a start event, got none" report "$log" "$dir/empty.jsonl"
printf 'step,loss\n1,2\n' > "$dir/run.csv"
run 2 "run.csv:1: expected the log of a run" report "$log" "$dir/run.csv"
sed 's/objective: next/objective: masked/' "$log" > "$dir/masked.jsonl"
run 2 "masked.jsonl: expected a run with train.objective next, as $log has it, got masked" report "$log" "$dir/masked.jsonl"
many=()
for i in {1..9}; do cp "$log" "$dir/m$i.jsonl" && many+=("$dir/m$i.jsonl"); done
run 2 "expected at most 8 runs, which have a colour each, got 9" report "${many[@]}"
run 1 "none/a.html.unfinished: cannot be made (No such file or directory)" report "$log" "$dir/none/a.html"
sed '2s/"loss":[^,]*/"loss":"high"/' "$log" > "$dir/bad.jsonl"
run 2 "bad.jsonl:2: loss: expected a number, got \"high\"" report "$dir/bad.jsonl"
mkdir "$dir/bad2.jsonl.config.yaml"
cp "$log" "$dir/bad2.jsonl"
run 2 "bad2.jsonl.config.yaml: expected a file, got a folder" report "$dir/bad2.jsonl"
ls "$dir"/*.unfinished 2> /dev/null && fail "expected nothing to be left"
echo "report: ok"
