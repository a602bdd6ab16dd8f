#!/usr/bin/env bash
# A name that the config takes and no code has a rule for does not compile: the switches have no default, and warnings
# are errors. Nor does a schedule that the table of schedules lacks.
# Usage: forgotten_name_test.sh ROOT BUILD; exits 77 (skipped) where warnings are no errors.
set -euo pipefail
root=$(realpath "$1") build=$(realpath "$2")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/weft/train/config"

# command SOURCE: how the build compiles it, with the config of $dir, to a file that nobody reads.
command() {
  local line
  line=$(sed -nE "s|^ *\"command\": \"(.*) -o [^ ]* -c ($root/$1)\",\$|\1 -S -o $dir/code.s \2|p" \
    "$build/compile_commands.json" | sed -e 's|\\\\|\\|g' -e 's|\\"|"|g' -e "s| -I| -I$dir -I|")
  [ -n "$line" ] || { echo "forgotten_name_test: $1 is not in compile_commands.json" >&2; exit 1; }
  [[ $line == *-Werror* ]] || exit 77
  echo "$line"
}
# refused COMMAND SOURCE ERROR: the source, as it now is, does not compile because of this.
refused() {
  if (cd "$build" && eval "$1") 2> "$dir/out"; then
    echo "forgotten_name_test: expected $2 not to compile with kForgotten"
    exit 1
  fi
  grep -q "kForgotten.*$3" "$dir/out" || { cat "$dir/out"; exit 1; }
}

# forgets SOURCE ENUM: the source refuses an enumerator of ENUM that it does not know, and nothing else.
forgets() {
  local line
  line=$(command "$1")
  cp "$root/src/train/config/config.h" "$dir/weft/train/config/config.h"
  (cd "$build" && eval "$line") || { echo "forgotten_name_test: expected $1 to compile as it is"; exit 1; }
  sed -i "s|^enum class $2 {\(.*\)};|enum class $2 {\1, kForgotten};|" "$dir/weft/train/config/config.h"
  grep -q kForgotten "$dir/weft/train/config/config.h" || { echo "forgotten_name_test: config.h has no enum $2"; exit 1; }
  refused "$line" "$1" "not handled in switch"
  rm "$dir/weft/train/config/config.h"
}

# forgets_row SOURCE TYPE TABLE: the source refuses a row of this type that its table does not have, and nothing else.
forgets_row() {
  local line copy=$dir/${1##*/}
  line=$(command "$1")
  line=${line/"$root/$1"/"$copy"}
  cp "$root/$1" "$copy"
  (cd "$build" && eval "$line") || { echo "forgotten_name_test: expected $1 to compile as it is"; exit 1; }
  sed -i "s|^constexpr const $2\* $3\[\]|constexpr $2 kForgotten{};\n&|" "$copy"
  grep -q kForgotten "$copy" || { echo "forgotten_name_test: $1 has no table $3"; exit 1; }
  refused "$line" "$1" "defined but not used"
}

forgets src/train/config/model_of.cc ExecutorMode
forgets_row src/train/config/schedule.cc Schedule kSchedules
echo "forgotten names: ok"
