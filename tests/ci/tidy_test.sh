#!/usr/bin/env bash
# tests/tidy.sh checks the lines that changed since HEAD left main, in the sources that changed or include a changed header,
# and prints what it left out. Other programs take the place of clang-tidy and cmake here.
# It begins with those that changed last.
# Usage: tidy_test.sh ROOT BUILD
set -euo pipefail
root=$(realpath "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir"/{bin,tree/tests,tree/launcher,tree/src/core/base}
cp "$root"/tests/{tidy,packages}.sh "$dir/tree/tests/"
cat > "$dir/bin/cmake" << 'STUB'
#!/usr/bin/env bash
mkdir -p build/tidy
for source in src/core/base/{a,b}.cc launcher/c.cc; do echo "\"file\": \"$PWD/$source\""; done > build/tidy/compile_commands.json
STUB
cat > "$dir/bin/clang-tidy-16" << 'STUB'
#!/usr/bin/env bash
for source in "$@"; do [[ $source != --line-filter=* ]] || echo "${source#*=}" > "$LOG.filter"; done
echo "$source" >> "$LOG"
! grep -q finding "$source"
STUB
printf '#!/bin/sh\n' > "$dir/tree/launcher/setup.sh"
printf '#!/bin/sh\necho 1\n' > "$dir/bin/nproc"  # one source after the other
chmod +x "$dir"/bin/* "$dir/tree/launcher/setup.sh"
export PATH=$dir/bin:$PATH LOG=$dir/log
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
cd "$dir/tree"

# tidy CODE TEXT [NAME=VALUE...]: runs the script, and expects this exit code and text.
tidy() {
  local want=$1 text=$2 code=0
  shift 2
  rm -f "$LOG" "$LOG.filter"
  env "$@" tests/tidy.sh > "$dir/out" 2>&1 || code=$?
  if [ $code -ne "$want" ] || ! grep -qF -- "$text" "$dir/out"; then
    echo "tidy_test: expected exit code $want and \"$text\", got $code and:"
    cat "$dir/out"
    exit 1
  fi
}
# checked SOURCE...: expects that clang-tidy has run on these, each once and in this order.
checked() {
  local got
  got=$(tr '\n' ' ' < "$LOG")
  [ "$got" = "$(printf '%s ' "$@")" ] || { echo "tidy_test: expected clang-tidy on $*, got $got"; exit 1; }
}
commit() { git add -A && git commit -qm "$1"; }

git init -q -b main
printf 'build\n' > .gitignore
printf 'int A();\nint B();\nint C();\n' > src/core/base/only.h
printf '#include "weft/core/base/only.h"\n' > src/core/base/a.cc
printf 'int B() { return 1; }\n' > src/core/base/b.cc
printf 'int main() {}\n' > launcher/c.cc
commit first
tidy 0 'no earlier commit is here'

# The branch is compared with main, and uncommitted changes count.
git checkout -q -b branch
sed -i '2,3s/int/long/' src/core/base/only.h && commit second
printf 'int main() { return 0; }\n' > launcher/c.cc && commit third
tidy 0 'tidy: checked 2; left out 0 not compiled here, 0 after 300 s'
checked launcher/c.cc src/core/base/a.cc
grep -qF '{"name":"weft/core/base/only.h","lines":[[2,3]]}' "$LOG.filter" || { cat "$LOG.filter" && exit 1; }
printf 'int B() { return 2; }  // a finding\n' > src/core/base/b.cc
tidy 1 'tidy: checked 3;'
checked src/core/base/b.cc launcher/c.cc src/core/base/a.cc
git checkout -q src/core/base/b.cc

# Sources that no build here compiles, and sources for which no time is left, are printed.
printf 'int D();\n' > src/core/base/d.cc && commit fourth
tidy 0 'tidy: checked 2; left out 1 not compiled here, 0 after 300 s'
tidy 0 'tidy: checked 0; left out 1 not compiled here, 2 after 0 s' TIDY_SECONDS=0
[ ! -e "$LOG" ]

# On main itself, the last commits are compared with the one 20 before.
git checkout -q main && git merge -q --ff-only branch
for i in {1..20}; do git commit -q --allow-empty -m "empty $i"; done
tidy 0 'tidy: 0 sources'
echo 'int E();' >> launcher/c.cc && commit change
tidy 0 'tidy: checked 1;'
checked launcher/c.cc
