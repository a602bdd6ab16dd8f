#!/usr/bin/env bash
# docs/guide/dtensor.md and its program, examples/dtensor_in_ten_minutes.cc, agree step by step. The C++ of each step on the
# page stands in the section of the program that "// step N" opens, in the same order, indentation aside. The text of
# each step is what that section prints on four ranks, after the line "step N". The program succeeds on 1 and 2 ranks.
# Usage: dtensor_page_test.sh ROOT BUILD; exits 77 (skipped) if the library is not built.
# shellcheck source=tests/launcher/prelude.sh
source "$(dirname "$0")/../launcher/prelude.sh"
[ -e "$build/libweft.so" ] || exit 77
page=docs/guide/dtensor.md example=dtensor_in_ten_minutes

step() { "$@" > "$dir/out" 2> "$dir/err" || fail "expected $*"; }
step cmake --install "$build" --prefix "$dir/weft"
step cmake -B "$dir/examples" -S examples -DCMAKE_PREFIX_PATH="$dir/weft" -DCMAKE_BUILD_TYPE=Debug
step cmake --build "$dir/examples" --target $example
for ranks in 1 2 4; do
  step within 120 mpirun --oversubscribe -np $ranks "$dir/examples/$example"
done
cp "$dir/out" "$dir/printed"

dedented() { sed 's/^ *//'; }
# Step 0 is what precedes the first step.
code_of() {
  awk -v n="$1" '/\/\/ step [0-9]+/ { split($0, part, "// step "); at = part[2] } at + 0 == n' "examples/$example.cc"
}
printed_by() { awk -v n="$1" '/^step [0-9]+$/ { at = $2; next } at + 0 == n' "$dir/printed"; }

# code BLOCK: it stands in the rest of the step's section, which then begins after it.
code() {
  local block
  block=$(dedented <<< "${1%$'\n'}")
  [[ $section == *$'\n'"$block"$'\n'* ]] || fail "expected in the section of step $at of $example.cc: $block"
  section=$'\n'${section#*$'\n'"$block"$'\n'}
  shown+=" cpp"
}
# text BLOCK: it is what the step prints.
text() {
  diff <(printed_by "$at") - <<< "${1%$'\n'}" > "$dir/out" || fail "expected the text of step $at (>), printed (<)"
  shown+=" text"
}
# begin STEP: the one before had code and text.
begin() {
  [ "$at" -eq 0 ] || [ "$shown" = " cpp text" ] || fail "$page: expected C++ and then text in step $at, got:$shown"
  at=$1 shown=""
  section=$'\n'$(code_of "$at" | dedented)$'\n'
}

at=0 language="" block=""
begin 0
while IFS= read -r line; do
  if [ -z "$language" ] && [[ $line =~ ^##\ Step\ ([0-9]+): ]]; then
    [ "${BASH_REMATCH[1]}" -eq $((at + 1)) ] || fail "$page: expected step $((at + 1)), got: $line"
    begin "${BASH_REMATCH[1]}"
  elif [[ $line != '```'* ]]; then
    block+=$line$'\n'
  elif [ -z "$language" ]; then
    language=${line#'```'} block=""
  else
    case $language in
      cpp) code "$block" ;;
      text) text "$block" ;;
    esac
    language=""
  fi
done < $page
begin $((at + 1))
steps=$((at - 1))
[ $steps -gt 0 ] || fail "$page: expected steps, found none"
for count in "$(grep -cE '// step [0-9]+' "examples/$example.cc")" "$(grep -cE '^step [0-9]+$' "$dir/printed")"; do
  [ "$count" -eq $steps ] || fail "expected $steps steps in $example.cc and its output, as on $page, got $count"
done
lines=$(wc -l < $page)
[ "$lines" -le 200 ] || fail "$page: expected at most 200 lines, got $lines"
echo "$page: $steps steps agree with $example.cc"
