#!/usr/bin/env bash
# A name that the config takes and no code has a rule for does not compile: the switches have no default, and warnings
# are errors. Usage: forgotten_name_test.sh ROOT BUILD; exits 77 (skipped) where warnings are no errors.
set -euo pipefail
root=$(realpath "$1") build=$(realpath "$2")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/weft/train/config"

# command SOURCE: how the build compiles it, with the config of $dir, to nothing.
command() {
  sed -nE "s|^ *\"command\": \"(.*) -o [^ ]* -c ($root/$1)\",\$|\1 -fsyntax-only \2|p" "$build/compile_commands.json" |
    sed -e 's|\\\\|\\|g' -e 's|\\"|"|g' -e "s| -I| -I$dir -I|"
}

# forgets SOURCE ENUM: the source refuses an enumerator of ENUM that it does not know, and nothing else.
forgets() {
  local line
  line=$(command "$1")
  [ -n "$line" ] || { echo "forgotten_name_test: $1 is not in compile_commands.json"; exit 1; }
  [[ $line == *-Werror* ]] || exit 77
  cp "$root/src/train/config/config.h" "$dir/weft/train/config/config.h"
  (cd "$build" && eval "$line") || { echo "forgotten_name_test: expected $1 to compile as it is"; exit 1; }
  sed -i "s|^enum class $2 {\(.*\)};|enum class $2 {\1, kForgotten};|" "$dir/weft/train/config/config.h"
  grep -q kForgotten "$dir/weft/train/config/config.h" || { echo "forgotten_name_test: config.h has no enum $2"; exit 1; }
  if (cd "$build" && eval "$line") 2> "$dir/out"; then
    echo "forgotten_name_test: expected $1 not to compile with one more $2"
    exit 1
  fi
  grep -q 'kForgotten.*not handled in switch' "$dir/out" || { cat "$dir/out"; exit 1; }
}

forgets src/train/config/model_of.cc ExecutorMode
echo "forgotten names: ok"
