#!/usr/bin/env bash
# Finds habits that make English hard to read, in pages, comments, help texts and messages (docs/style.md).
# Usage: prose_test.sh ROOT. First tries each habit on a sentence that has it. Sentences that need such a phrase are in
# tests/prose/exceptions.txt with their reasons; an exception that matches nothing fails.
set -euo pipefail
export LC_ALL=C
cd "${1:?usage: prose_test.sh ROOT}"

# One habit per line: an extended regular expression | what to write instead | a sentence that has the habit.
habits() {
  cat << 'HABITS'
(//|#|\.) Of (a|an|the|all|each|its|those|what|one|two|[a-z]+ nodes?)\b@the subject: "For a local node, its tensor"@// Of a local node: its tensor.
[Tt]he same (of|for)\b@the noun again@// The same for a context.
(//|#|\.) (What|Who) (is|was|are|were|has|had|goes|cannot|can|does) [^?]*$@a noun: "Lost output"@// What is lost there stays lost.
\balone\b@only, or by itself@// Of ranks of this host alone.
\bbehind\b@after@// The token behind it.
\bbeside\b@next to, in addition to, or while@// Written beside the training.
\b(goes|go|went|going) on\b@continues, or resumes@// The run goes on.
\banew\b@again, or from the beginning@// It starts anew.
\bat last\b@finally, or in the last step@// The loss at last.
\b(one|two|bytes|calls?|lines?|values?|tokens|[0-9]+|[MGK]i?B|us|ms|FLOPs) an? (rank|element|token|step|second|line|host|GPU|call|axis|thread|block|sequence|op|device|run|test|file|row|launch|layer|parameter|measurement)\b@per rank, per element@// It holds 4 bytes an element.
\b(told|heard)\b@reported, distinguished, or asked@// Ranks are told apart by it.
\bsaid\b@reported, printed, or refused@// The reason is said once.
\b(words?|word) (that|which|after|behind|follow|of the command)\b|\b([Ff]irst|[Ll]ast|other|[Tt]hese|[Tt]hose|same|further|with the|without the|the command's) words?\b@arguments, or a line@// The words that follow go to ctest.
\b(ranks?|logs?|process(es)?|hosts?|jobs?|all) (is|are|feels?) (well|content|happy)\b|\bend(s|ed)? well\b@what the process does@// All ranks are content.
, say[,;.)]@for example@// A name, say, of a file.
, for (it|there|they|he|she|nothing|nobody|no|its) @because@// It ends, for it cannot be read.
HABITS
}

# The files whose English is checked. Records of measurements keep the sentences with which they were written.
files() {
  if [ -e .git ]; then
    git ls-files '*.md' '*.h' '*.cc' '*.cu' '*.cuh' '*.def' '*.sh' '*.cmake' '*CMakeLists.txt' '*.yaml' '*.awk' '*.py' .ci/run
  else
    find . -path ./build -prune -o -type f \( -name '*.md' -o -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \
      -o -name '*.def' -o -name '*.sh' -o -name '*.cmake' -o -name CMakeLists.txt -o -name '*.yaml' -o -name '*.awk' \
      -o -name '*.py' -o -path ./.ci/run \) -print | sed 's|^\./||'
  fi | grep -vE '^(\.github/.*|tests/prose_test\.sh|tests/prose/habits\.awk|tests/bench/results\.md|tests/bench/ladder/README\.md|docs/style\.md)$' | sort |
    while IFS= read -r file; do [ ! -e "$file" ] || echo "$file"; done
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
report() { printf 'prose_test: %s\n' "$*" && failed=1; }

while IFS=@ read -r pattern instead sentence; do
  grep -qE "$pattern" <<< "$sentence" || report "the pattern of '$instead' does not find: $sentence"
done < <(habits)

files | xargs awk -f tests/prose/habits.awk > "$work/english"
[ "$(wc -l < "$work/english")" -gt 10000 ] || report "expected the English of the tree, got $(wc -l < "$work/english") lines"
# An exception is FILE|a part of the sentence|the reason; lines that begin with # explain.
sed -E '/^(#|$)/d' tests/prose/exceptions.txt > "$work/exceptions"
while IFS=@ read -r pattern instead _; do
  { grep -E "$pattern" "$work/english" || true; } | while IFS= read -r line; do
    allowed=no
    while IFS='|' read -r file part _; do
      [[ $line == "$file:"* && $line == *"$part"* ]] || continue
      allowed=yes
      echo "$file|$part" >> "$work/used"
    done < "$work/exceptions"
    [ $allowed = yes ] || printf '%s\n    write: %s\n' "$line" "$instead"
  done
done < <(habits) > "$work/found"
if [ -s "$work/found" ]; then
  cat "$work/found"
  report "expected plain English, got $(grep -c '^    write:' "$work/found") phrases to replace (docs/style.md); exceptions have a line in tests/prose/exceptions.txt"
fi
# Pages have one sentence per line, tables apart, so that a diff shows sentences.
if grep -E '^(docs/.*|README|CONTRIBUTING|CHANGELOG)\.md:' "$work/english" | grep -E '\.md:[0-9]+: *[^| ].*[a-z`)]\. [A-Z]'; then
  report "expected one sentence per line in pages"
fi
touch "$work/used"
while IFS='|' read -r file part _; do
  grep -qxF "$file|$part" "$work/used" || report "tests/prose/exceptions.txt: nothing in $file has: $part"
done < "$work/exceptions"
[ $failed -ne 0 ] || echo "prose: no habit found in $(files | wc -l) files"
exit $failed
