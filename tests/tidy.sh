#!/usr/bin/env bash
# Runs clang-tidy 16 with .clang-tidy on the lines of src/ and launcher/ that changed since BASE, uncommitted changes included.
# A changed header is checked through one source that includes it. Any finding is an error. Prints what was checked, and what
# was left out because it is not compiled here or because TIDY_SECONDS (default 300) were over.
#
#   tests/tidy.sh [BASE]   the default BASE is where HEAD left main; if HEAD is on main, it is the 20th commit before HEAD
set -euo pipefail
cd "$(dirname "$0")/.."
source tests/packages.sh
case ${1:-} in -h | --help) sed -n '2,6s/^# \{0,1\}//p' tests/tidy.sh; exit 0 ;; esac
seconds=${TIDY_SECONDS:-300}
build=build/tidy

# base_of_change: prints the commit with which to compare, or nothing if there is none.
base_of_change() {
  local ref base head
  head=$(git rev-parse -q --verify HEAD) || return 0
  for ref in origin/HEAD origin/main main; do
    base=$(git merge-base HEAD "$ref" 2> /dev/null) || continue
    [ "$base" = "$head" ] || { echo "$base" && return; }
  done
  base=$(git rev-list --first-parent --max-count=21 HEAD | tail -n 1)
  [ "$base" = "$head" ] || echo "$base"
}

# Prints the changed lines as clang-tidy's line filter. Headers of src are included through a folder named weft.
line_filter() {
  git diff -U0 --no-color --diff-filter=d "$base" -- "${paths[@]}" | awk '
    /^\+\+\+ b\// { name = substr($0, 7); sub(/^src\//, name ~ /\.h$/ ? "weft/" : "src/", name) }
    /^@@ / {
      split($3, at, ","); first = substr(at[1], 2); count = at[2] == "" ? 1 : at[2]
      if (count > 0) lines[name] = lines[name] (lines[name] ? "," : "") "[" first "," first + count - 1 "]"
    }
    END {
      for (name in lines) { printf "%s{\"name\":\"%s\",\"lines\":[%s]}", sep ? "," : "[", name, lines[name]; sep = 1 }
      print sep ? "]" : "[]"
    }'
}

# Prints the changed files. Those that changed last come first, as an earlier run may have had time for the others.
changed() {
  git diff --name-only --diff-filter=d "$base" -- "${paths[@]}" > "$work/changed"
  { git diff --name-only HEAD && git log --name-only --format= "$base..HEAD" && cat "$work/changed"; } |
    awk 'FNR == NR { changed[$0] = 1; next } changed[$0] && !seen[$0]++' "$work/changed" -
}

# Prints each source to check once: the changed ones, and one for each changed header.
sources() {
  local file first
  changed | while read -r file; do
    [[ $file == *.h ]] || { echo "$file" && continue; }
    first=${file%.h}.cc
    [ -e "$first" ] || first=$(git grep -lF "\"${file/#src/weft}\"" -- 'src/*.cc' 'launcher/*.cc' | head -n 1 || true)
    echo "${first:-$file}"
  done | awk '!seen[$0]++'
}

# check FILE: appends the name to checked, unknown (it has no compile command) or late. Fails if there are findings.
check() {
  local list=checked
  if ! grep -qF "/$1\"" $build/compile_commands.json; then
    list=unknown
  elif [ "$(date +%s)" -ge "$deadline" ]; then
    list=late
  fi
  echo "$1" >> "$work/$list"
  [ $list != checked ] || clang-tidy-16 --quiet -p $build --warnings-as-errors='*' --extra-arg=-Wno-unknown-warning-option \
    --line-filter="$(< "$work/filter")" "$1" 2> "$work/stderr.${1//\//_}" || { cat "$work/stderr.${1//\//_}" && return 1; }
}

paths=('src/*.cc' 'src/*.h' 'launcher/*.cc' 'launcher/*.h')
base=${1:-$(base_of_change)}
[ -n "$base" ] || { echo "tidy: no earlier commit is here, so nothing is known to have changed"; exit 0; }
git rev-parse -q --verify "$base^{commit}" > /dev/null || { echo "tidy: $base is no commit of this checkout" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
touch "$work"/{checked,unknown,late}
sources > "$work/sources"
line_filter > "$work/filter"
echo "tidy: $(wc -l < "$work/sources") sources for what changed since $(git log -1 --format='%h (%s)' "$base")"
[ -s "$work/sources" ] || exit 0

launcher/setup.sh
need clang-tidy-16
# Clang cannot read the headers that GCC precompiled, and needs the header that the build generates.
{ cmake --preset release -B $build -DWEFT_PCH=OFF -DWEFT_CUDA=OFF -DWEFT_WERROR=OFF &&
  cmake --build $build --target weft_commit; } > "$work/cmake" 2>&1 || { cat "$work/cmake" && exit 1; }
deadline=$(($(date +%s) + seconds))
export -f check
export build work deadline
failed=0
xargs -P "$(nproc)" -I{} bash -c 'check {}' < "$work/sources" || failed=1
for list in checked unknown late; do
  [ ! -s "$work/$list" ] || { echo "tidy: $list:" && sort "$work/$list" | sed 's/^/  /'; }
done
echo "tidy: checked $(wc -l < "$work/checked"); left out $(wc -l < "$work/unknown") not compiled here, $(wc -l < "$work/late") after $seconds s"
exit $failed
