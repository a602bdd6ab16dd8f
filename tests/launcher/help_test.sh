#!/usr/bin/env bash
# weft help, weft version and the completions: what they print comes from the tables that the program itself reads.
# Usage: help_test.sh ROOT BUILD; exits 77 (skipped) where the program is not built.
source "$(dirname "$0")/prelude.sh"

run 0 "usage: weft COMMAND" help
for command in train generate eval plan bench prepare doctor report export; do
  run 0 "usage: weft $command" help $command
  "$weft" $command --help | cmp - "$dir/out" || fail "expected what $command --help prints"
done
run 2 'unknown command "trian"; did you mean train?' help trian
run 2 'unknown command "versoin"; did you mean version?' versoin
run 0 "weft " version
grep -qxE 'weft [0-9.]+ \(([0-9a-f]{7,40}(-dirty)?|unknown)\)' "$dir/out" || fail "expected the version and the commit"
"$weft" --version | cmp - "$dir/out" || fail "expected what --version prints"

# Every key of docs/reference/keys.md, in the list of all and with its help in that of its section.
run 0 "weft help keys SECTION or KEY says more" help keys
cp "$dir/out" "$dir/listed"
keys=$(sed -n 's/^| `\([a-z_.]*\)`.*/\1/p' docs/reference/keys.md)
[ "$(wc -w <<< "$keys")" -gt 60 ] || fail "expected docs/reference/keys.md to have the keys"
mkdir "$dir/sections"
for key in $keys; do
  grep -qx "    $key" "$dir/listed" || fail "expected $key in weft help keys"
  section=${key%%.*}
  [ -e "$dir/sections/$section" ] || "$weft" help keys "$section" > "$dir/sections/$section"
  grep -qx "$key" "$dir/sections/$section" || fail "expected $key in weft help keys $section"
  [ "$("$weft" help keys "$key" | grep '^[^ ]')" = "$(grep -xo "$key\(\.[a-z_]*\)*" <<< "$keys")" ] ||
    fail "expected $key by itself in weft help keys $key"
done
run 0 "learning rate after the warm-up" help keys optimizer
run 0 "learning rate after the warm-up" help optimizer
run 0 "learning rate after the warm-up" help optimizer.lr
run 2 'got "optimizer.nam"; did you mean optimizer.name?' help keys optimizer.nam
run 2 "expected a key of mesh: mesh.replicate, mesh.dp, mesh.tp" help keys mesh.zzz
run 2 'got "optimiser"; did you mean optimizer?' help keys optimiser
run 2 "expected one section of" help keys optimizer schedule

# bash, as it calls the function: complete LINE prints the replies.
run 2 "expected bash or zsh, got nothing" completions
run 2 'expected bash or zsh, got "fish"' completions fish
"$weft" completions bash > "$dir/complete.bash"
complete() {
  env -i PATH="$PATH" bash --norc -c '
    source "$1"; cd "$3"; compopt() { :; }
    COMP_LINE=$2 COMP_POINT=${#2}; read -ra COMP_WORDS <<< "$2"; [[ $2 != *" " ]] || COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _weft; printf "%s\n" "${COMPREPLY[@]}"' bash "$dir/complete.bash" "$1" "$dir" > "$dir/out"
}
has() { complete "$1" && grep -qx -- "$2" "$dir/out" || fail "expected $2 after '$1'"; }
only() { complete "$1" && [ "$(cat "$dir/out")" = "$2" ] || fail "expected only $2 after '$1'"; }
: > "$dir/a.yaml"
has "weft " train
has "weft " completions
only "weft tr" train
only "weft help ke" keys
only "weft train a.yaml optimizer.l" optimizer.lr=
only "weft train a.yaml precision.compute=bf" bf16
only "weft train a.yaml rank" ranks=
has "weft train " a.yaml
only "weft train a.yaml data.train=a.y" a.yaml
has "weft generate " top_k=
only "weft generate greedy=t" true
only "weft eval --js" --json
has "weft bench " gemm
only "weft bench collective fact" factor=
only "weft export c d dtype=bf" bf16
only "weft prepare out tokenizer=sentencepiece" "$(printf 'sentencepiece\nsentencepiece:')"
complete "weft export c d mesh" && ! grep -q mesh "$dir/out" || fail "expected no keys of a config after export"
for key in $keys; do only "weft train a.yaml $key" "$(grep -o "^    $key[a-z_.]*$" "$dir/listed" | sed 's/ *//; s/$/=/')"; done
if command -v zsh > /dev/null; then "$weft" completions zsh > "$dir/_weft" && zsh -n "$dir/_weft" || fail "expected zsh to read it"; fi
echo "help: ok"
