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
printf '#!/bin/bash\necho "$*" >> %q\n' "$tree/cmake" > "$tree/bin/cmake"
# A host's own GPU and toolkit do not count here: the driver is a file of the tree, nvcc and nvidia-smi are pretended.
sed -i "s|/proc/driver/nvidia/version|$tree/driver|" "$tree/clone/launcher/quickstart.sh"
export CUDA_HOME=$tree/cuda
# Speed, which the program prints to stderr while the text is on its way, must come after the text.
printf '#!/bin/bash\n[ $1 = train ] || echo speed >&2\nprintf "<%%s>" "$@"\necho\n[[ "$*" != "generate "*fail=1* ]] || exit 3\n' \
  > "$tree/clone/build/release/weft"
chmod +x "$tree"/bin/* "$tree"/clone/launcher/*.sh "$tree/clone/build/release/weft"
echo text | tee "$tree/my texts/a.txt" > "$tree/my texts/README.md"

# The host's tools without its nvcc and nvidia-smi.
bare_path=$tree/tools
mkdir "$bare_path"
for tool in bash cat cp dirname grep head ls mkdir mktemp printf realpath rm sed; do ln -s "$(command -v $tool)" "$bare_path/"; done

config='<configs/quickstart.yaml><ranks=4><mesh.dp=2><mesh.tp=2>'
expect() {
  local want got prompt="<prompt=The >"
  [[ $1 != *data.tokenizer* ]] || prompt=""
  want="<train>$config$1"$'\n\nwhat it writes:\n\n'"<generate>$config$1<tokens=300><temperature=0.8>$prompt"$'\n\nspeed'
  shift
  rm -f "$tree/cmake"
  got=$(cd "$tree/my texts" && PATH="$tree/bin:$bare_path" "$tree/clone/launcher/quickstart.sh" "$@" 2>&1)
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
  got=$(cd "$tree/my texts" && PATH="$tree/bin:$bare_path" "$tree/clone/launcher/quickstart.sh" "$@" 2>&1) || code=$?
  [[ $code -eq 2 && $got == "quickstart: "*"$text"* ]] || { echo "quickstart $*: expected code 2 and $text, got $code and $got"; exit 1; }
}
refused "absent: no such text file or folder" absent
refused 'got "README.md" too' a.txt README.md
refused 'got "README.md" too' train.steps=3 README.md
code=0
(cd "$tree" && PATH="$tree/bin:$bare_path" "$tree/clone/launcher/quickstart.sh" fail=1 > /dev/null 2>&1) || code=$?
[ $code -eq 3 ] || { echo "quickstart: expected the exit code of the sample, 3, got $code"; exit 1; }
# --gpu: what it needs, and what it then builds and runs, of a GPU that is named and of one that is not.
refused "there is no $tree/driver; install the driver" --gpu
touch "$tree/driver"
refused "nvcc, which builds the kernels, is neither on PATH" --gpu train.steps=3
mkdir -p "$CUDA_HOME/bin"
printf '#!/bin/bash\n' | tee "$CUDA_HOME/bin/nvcc" > "$tree/bin/nvidia-smi"
chmod +x "$CUDA_HOME/bin/nvcc" "$tree/bin/nvidia-smi"
refused 'got "README.md" too' --gpu a.txt README.md
gpu() {
  config='<configs/quickstart.yaml><device=cuda>' expect "$2" --gpu "${@:3}"
  [ "$(cat "$tree/cmake")" = "--preset release -DWEFT_CUDA=ON$1"$'\n--build --preset release --target weft weft_cuda' ] ||
    { echo "quickstart --gpu: got the builds $(cat "$tree/cmake")"; exit 1; }
}
gpu "" ""
gpu "" "<data.train=$tree/my texts/a.txt><train.steps=3>" a.txt train.steps=3
echo 'echo 9.0' >> "$tree/bin/nvidia-smi"
gpu "" "<train.steps=3>" train.steps=3
printf '#!/bin/bash\necho 8.6\n' > "$tree/bin/nvidia-smi"
gpu " -DWEFT_CUDA_ARCH=86-real" ""
printf '#!/bin/bash\necho 7.5\n' > "$tree/bin/nvidia-smi"
refused "compute capability 7.5, and the kernels need 8.0" --gpu
# Without it the run stays on the CPU, and a line says that there is a GPU.
got=$(cd "$tree" && PATH="$tree/bin:$bare_path" "$tree/clone/launcher/quickstart.sh" 2>&1)
[[ $got == "quickstart: this host has a GPU, and this trains on the CPU; "*"<train>$config"* ]] ||
  { echo "quickstart on a host with a GPU: got $got"; exit 1; }
"$tree/clone/launcher/quickstart.sh" --help | grep -q -- '--gpu' && "$tree/clone/launcher/quickstart.sh" --help | grep -q 'key=value' || { echo "quickstart --help shows no usage"; exit 1; }
echo "quickstart: ok"
