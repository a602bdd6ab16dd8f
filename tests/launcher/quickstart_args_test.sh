#!/usr/bin/env bash
# quickstart.sh in a copy of the tree with pretended tools: which command lines its arguments become, to train and then to
# write a sample.
# Usage: quickstart_args_test.sh ROOT
set -euo pipefail
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/clone/launcher" "$tree/bin" "$tree/my texts"
cp "$1"/launcher/*.sh "$tree/clone/launcher/"
printf '#!/bin/bash\nexit 0\n' > "$tree/clone/launcher/setup.sh"
printf '#!/bin/bash\nexit 0\n' > "$tree/bin/cmake"
printf '#!/bin/bash\nprintf "<%%s>" "$@"\necho " root=$OMPI_ALLOW_RUN_AS_ROOT threads=$OMP_NUM_THREADS"\n' \
  > "$tree/bin/mpirun"
chmod +x "$tree"/bin/* "$tree"/clone/launcher/*.sh
echo text | tee "$tree/my texts/a.txt" > "$tree/my texts/README.md"

weft='<-np><4><build/release/weft>' config='<configs/quickstart.yaml><mesh.dp=2><mesh.tp=2>'
expect() {
  local environment=" root=1 threads=1" want got
  want="$weft<train>$config$1$environment"$'\n\nwhat it writes:\n'"$weft<generate>$config$1<tokens=300><temperature=0.8>$environment"
  shift
  got=$(cd "$tree/my texts" && env -u OMP_NUM_THREADS PATH="$tree/bin:$PATH" \
    "$tree/clone/launcher/quickstart.sh" "$@")
  [ "$got" = "$want" ] || { echo "quickstart $*: expected $want, got $got"; exit 1; }
}
expect ""
expect "<train.steps=3><mesh.dp=4>" train.steps=3 mesh.dp=4
expect "<data.train=$tree/my texts/a.txt>" a.txt
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
"$tree/clone/launcher/quickstart.sh" --help | grep -q 'key=value' || { echo "quickstart --help shows no usage"; exit 1; }
echo "quickstart: ok"
