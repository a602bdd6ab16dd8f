#!/usr/bin/env bash
# Installs, builds and trains a byte-level Llama on a 2 x 2 mesh: four ranks, on two cores in minutes. Then prints a sample
# of what the model writes.
#
#   ./launcher/quickstart.sh                           on Weft's own sources and documents
#   ./launcher/quickstart.sh TEXT [key=value...]       on a text file or folder of yours; any config key can follow
set -euo pipefail
caller=$PWD
cd "$(dirname "$0")/.."

words=("$@")
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '2,6s/^# \{0,1\}//p' launcher/quickstart.sh
  exit 0
fi
# What can be seen to be wrong is said before minutes of building.
refuse() {
  printf 'quickstart: %s\n' "$1" >&2
  exit 2
}
if [[ $# -gt 0 && $1 != *=* ]]; then
  words[0]="data.train=$(cd "$caller" && realpath -m -- "$1")"
  [ -e "${words[0]#*=}" ] || refuse "$1: no such text file or folder; name one, or key=value"
fi
for word in "${words[@]:1}"; do
  [[ $word == *=* ]] ||
    refuse "expected one TEXT and then key=value, got \"$word\" too; give several as a folder or data.train=[a,b]"
done

launcher/setup.sh
log=build/quickstart.log
mkdir -p build
if ! cmake --preset release > "$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
cmake --build --preset release --target weft

words=(configs/quickstart.yaml ranks=4 mesh.dp=2 mesh.tp=2 ${words[@]+"${words[@]}"})
build/release/weft train "${words[@]}"

# A prompt that every tokenizer of bytes can read; of another one nothing is known here.
sample=(tokens=300 temperature=0.8)
[[ " ${words[*]}" == *" data.tokenizer="* ]] || sample+=(prompt="The ")
printf '\nwhat it writes:\n\n'
code=0
build/release/weft generate "${words[@]}" "${sample[@]}" 2> "$log" || code=$?
printf '\n'
cat "$log" >&2
exit $code
