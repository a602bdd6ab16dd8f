#!/usr/bin/env bash
# Runs the commands of README and of docs/, a page at a time, in a copy of what git has of the tree, with the program
# built, and compares what they print with what the page shows: numbers and blanks aside, and ... stands for anything.
# Text below C++ is not compared here (tests/program/dtensor_page_test.sh does that).
# Usage: docs_commands_test.sh ROOT BUILD [PAGE...]; exits 77 (skipped) where the program is not built.
# Without the prelude of the other tests: a page says itself what its commands want to be set.
set -euo pipefail
export LC_ALL=C
unset OPENBLAS_CORETYPE  # a value of the host's may add a note to what is printed
root=$(realpath "$1") build=$(realpath -m "$2")
shift 2
[ -x "$build/weft" ] || exit 77
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# What takes minutes: COMMAND|a file that runs it|by a line with this|a short one in its place here; true where there is
# none, and then only that file shows that the command works.
elsewhere=(
  "./launcher/quickstart.sh|.ci/run|launcher/quickstart.sh|build/release/weft train configs/quickstart.yaml ranks=4 mesh.dp=2 mesh.tp=2 train.steps=2 schedule.warmup_steps=1 train.eval_batches=1"
  # Which command line the arguments become is shown there, with other tools in place of cmake and the program; that it trains, here.
  "./launcher/quickstart.sh README.md train.steps=50|tests/launcher/quickstart_args_test.sh|README.md train.steps=50|build/release/weft train configs/quickstart.yaml ranks=4 mesh.dp=2 mesh.tp=2 data.train=\$PWD/README.md train.steps=2 schedule.warmup_steps=1 train.eval_batches=1"
  "./tests/run.sh|.ci/run|tests/run.sh release|true"
  "launcher/setup.sh && cmake --preset release && cmake --build --preset release|tests/run.sh|cmake --build --preset|true"
  "cmake --build --preset release|tests/run.sh|cmake --build --preset|true"
  "cmake --install build/release --prefix \"\$HOME/weft\"|tests/program/examples_test.sh|cmake --install|true"
  "cmake -B build/examples -S examples -DCMAKE_PREFIX_PATH=\"\$HOME/weft\"|tests/program/examples_test.sh|-S examples|true"
  "cmake --build build/examples|tests/program/examples_test.sh|cmake --build \"\$dir/examples\"|true"
  "WEFT_UPDATE_REFERENCE=1 build/release/tests/reference/reference_test|tests/reference/reference_test.cc|WEFT_UPDATE_REFERENCE|build/release/tests/reference/reference_test"
  "mpirun -np 4 build/examples/train_gpt|tests/program/examples_test.sh|mpirun --oversubscribe|true"
)
# shorter COMMAND: what runs in its place.
shorter() {
  local row command file line instead
  for row in "${elsewhere[@]}"; do
    IFS='|' read -r command file line instead <<< "$row"
    [ "$1" = "$command" ] || continue
    grep -qF -- "$line" "$root/$file" || fail "expected a line with '$line' in $file, which is to run '$command'"
    [ "$instead" != true ] || instead="true # $file runs it"
    echo "$instead"
    return
  done
  case $1 in
    *"weft generate prompt="* | *"weft generate top_k="*) echo "$1 tokens=5" ;;
    *"weft eval runs/quickstart"*) echo "$1 train.eval_batches=1" ;;
    # Another checkout may be tested on this host.
    *MASTER_PORT=29500*) echo "${1/29500/$((20000 + $$ % 10000))}" ;;
    *) echo "$1" ;;
  esac
}

fail() {
  printf '%s: %s\n' "$page" "$*" >&2
  exit 1
}

# copy TO: the files of the tree that git knows, as they are here; all, where it is no checkout.
copy() {
  mkdir -p "$1"
  if [ -e "$root/.git" ]; then
    git -C "$root" ls-files -z | while IFS= read -r -d '' file; do [ ! -e "$root/$file" ] || printf '%s\0' "$file"; done |
      tar -C "$root" --null -T - -cf -
  else
    tar -C "$root" --exclude=./build --exclude=./runs -cf - .
  fi | tar -C "$1" -xf -
}

# commands BLOCK: runs them one by one; what they print together goes to $dir/out.
commands() {
  local line command="" short want code
  : > "$dir/out"
  while IFS= read -r line; do
    command+=${command:+$'\n'}$line
    # Lines that end in a backslash or within a loop are one command with those that follow.
    if [[ $line == *\\ ]] || ! bash -n <<< "$command" 2> /dev/null; then continue; fi
    want=0
    [[ $command =~ \#\ exit\ code\ ([0-9]+)$ ]] && want=${BASH_REMATCH[1]}
    printf '$ %s\n' "$command"
    code=0
    short=$(shorter "$command")
    [ "$short" = "$command" ] || printf '  as: %s\n' "$short"
    command=$short
    eval "$command" >> "$dir/out" 2>&1 < /dev/null || code=$?
    if [ "$code" -ne "$want" ]; then
      cat "$dir/out"
      ! grep -q 'built without sentencepiece' "$dir/out" || exit 77
      fail "expected exit code $want of '$command', got $code"
    fi
    command=""
    ran=$((ran + 1))
  done <<< "${1%$'\n'}"
  [ -z "$command" ] || fail "no whole command: $command"
}

# Numbers, but not those of names such as step-000020 or dp=2, with their units.
plain() {
  sed -E 's#(^|[ /(:])[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?#\1N#g; s/N([hm][0-9]+)*s/Ns/g; s/N ?[KMG]?i?B/N B/g; s/N[KM]/N/g
    s/[[:space:]]+/ /g; s/^ | $//g'
}

# shown BLOCK: what the last commands printed is what the page shows.
shown() {
  plain < "$dir/out" > "$dir/got"
  plain <<< "${1%$'\n'}" > "$dir/want"
  awk '
    # Whether line has the pieces of want between "..." in that order.
    function fits(line, want,   pieces, n, i, at) {
      n = split(want, pieces, /\.\.\./)
      if (index(line, pieces[1]) != 1) return 0
      for (i = 1; i <= n; i++) {
        at = index(line, pieces[i])
        if (!at && pieces[i] != "") return 0
        if (pieces[i] != "") line = substr(line, at + length(pieces[i]))
      }
      return line == "" || pieces[n] == ""
    }
    NR == FNR { got[++lines] = $0; next }
    $0 == "..." { gap = 1; next }
    {
      while (++at <= lines && gap && !fits(got[at], $0)) {}
      if (at > lines || !fits(got[at], $0)) { print "expected: " $0; print "got:      " (at > lines ? "no more" : got[at]); exit failed = 1 }
      gap = 0
    }
    END { if (!failed && !gap && at < lines) { print "expected no more, got: " got[at + 1]; failed = 1 }; exit failed }
  ' "$dir/got" "$dir/want" > "$dir/difference" || {
    cat "$dir/out"
    fail "the commands printed something else than shown (numbers are N here):"$'\n'"$(cat "$dir/difference")"
  }
}

run_page() {
  local line language="" before="" block="" ran=0
  while IFS= read -r line; do
    if [[ $line != '```'* ]]; then
      block+=$line$'\n'
    elif [ -z "$language" ]; then
      language=${line#'```'} block=""
    else
      case $language in
        sh) commands "$block" ;;
        text) [ "$before" = cpp ] || shown "$block" ;;
      esac
      before=$language language=""
    fi
  done < "$root/$page"
  [ $ran -gt 0 ] || fail "expected commands, found none"
  echo "$page: $ran commands ran in $((SECONDS - begin)) s"
}

cd "$root"
[ $# -gt 0 ] || set -- README.md CONTRIBUTING.md docs/*.md docs/guide/*.md docs/design/*.md
for page in "$@"; do
  grep -q '^```sh' "$page" || continue
  begin=$SECONDS
  rm -rf "$dir/clone"
  copy "$dir/clone"
  mkdir "$dir/clone/build"
  ln -s "$build" "$dir/clone/build/release"
  (cd "$dir/clone" && run_page)
done
