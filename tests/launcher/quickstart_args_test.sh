#!/usr/bin/env bash
# quickstart.sh in a copy of the tree with pretended tools: which command lines its arguments become, to train and then to
# write a sample.
# Usage: quickstart_args_test.sh ROOT
set -euo pipefail
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/clone/launcher" "$tree/clone/build/release" "$tree/bin" "$tree/my texts"
cp "$1"/launcher/*.sh "$tree/clone/launcher/"
printf '#!/bin/bash\nexit 0\n' > "$tree/clone/launcher/setup.sh"
printf '#!/bin/bash\nexit 0\n' > "$tree/bin/cmake"
# Speed, which the program prints to stderr while the text is on its way, must come after the text.
printf '#!/bin/bash\n[ $1 = train ] || echo speed >&2\nprintf "<%%s>" "$@"\necho\n[[ "$*" != "generate "*fail=1* ]] || exit 3\n' \
  > "$tree/clone/build/release/weft"
chmod +x "$tree"/bin/* "$tree"/clone/launcher/*.sh "$tree/clone/build/release/weft"
echo text | tee "$tree/my texts/a.txt" > "$tree/my texts/README.md"

config='<configs/quickstart.yaml><ranks=4><mesh.dp=2><mesh.tp=2>'
expect() {
  local want got prompt="<prompt=The >"
  [[ $1 != *data.tokenizer* ]] || prompt=""
  want="<train>$config$1"$'\n\nwhat it writes:\n\n'"<generate>$config$1<tokens=300><temperature=0.8>$prompt"$'\n\nspeed'
  shift
  got=$(cd "$tree/my texts" && PATH="$tree/bin:$PATH" "$tree/clone/launcher/quickstart.sh" "$@" 2>&1)
  [ "$got" = "$want" ] || { echo "quickstart $*: expected $want, got $got"; exit 1; }
}
expect ""
expect "<train.steps=3><mesh.dp=4>" train.steps=3 mesh.dp=4
expect "<data.train=$tree/my texts/a.txt>" a.txt
expect "<data.tokenizer=chars>" data.tokenizer=chars
expect "<data.train=$tree/my texts/README.md><train.steps=50>" README.md train.steps=50
expect "<data.train=$tree/my texts><train.steps=3>" . train.steps=3
# refused TEXT WORDS...: before anything is built
refused() {
  local text=$1 code=0 got
  shift
  got=$(cd "$tree/my texts" && PATH="$tree/bin:$PATH" "$tree/clone/launcher/quickstart.sh" "$@" 2>&1) || code=$?
  [[ $code -eq 2 && $got == "quickstart: "*"$text"* ]] || { echo "quickstart $*: expected code 2 and $text, got $code and $got"; exit 1; }
}
refused "absent: no such text file or folder" absent
refused 'got "README.md" too' a.txt README.md
refused 'got "README.md" too' train.steps=3 README.md
code=0
(cd "$tree" && PATH="$tree/bin:$PATH" "$tree/clone/launcher/quickstart.sh" fail=1 > /dev/null 2>&1) || code=$?
[ $code -eq 3 ] || { echo "quickstart: expected the exit code of the sample, 3, got $code"; exit 1; }
"$tree/clone/launcher/quickstart.sh" --help | grep -q 'key=value' || { echo "quickstart --help shows no usage"; exit 1; }
echo "quickstart: ok"
