#!/usr/bin/env bash
# Lists the commits that changed what tests/multigpu.sh tests since the latest row of each of its parts in results.md, on two
# and on four GPUs: CUDA kernels, groups, and the passes, programs and plans that order collectives. These tests need several
# GPUs, so no other check runs them.
#
#   tests/ci/multigpu_due.sh     exit code 2 if results.md has no such row, or the history here does not reach back to it
set -euo pipefail
cd "$(dirname "$0")/../.."

watched=(src/kernels/cuda src/dist/group src/core/runtime src/core/passes src/core/compile src/parallel/program src/parallel/step)
parts=(training checkpoint example bench refusal failure delays)
declare -A latest least
# note COMMIT LATER COMMAND: a row's command ran the parts that its ONLY names, or all, LATER commits before this one.
note() {
  local part ranks only sizes
  only=$(sed -nE "s/.*ONLY=('([^']*)'|([^ ]*)) .*/\2\3/p" <<< "$3")
  sizes=$(sed -nE 's/.*multigpu\.sh [A-Za-z.]+( [24 ]+).*/\1/p' <<< "$3")
  for ranks in ${sizes:-2 4}; do
    for part in "${parts[@]}"; do
      [[ $part =~ ${only//\\/} ]] || continue
      [ -n "${least[$ranks $part]:-}" ] && [ "$2" -ge "${least[$ranks $part]}" ] || latest[$ranks $part]=$1 least[$ranks $part]=$2
    done
  done
}
while read -r commit row; do
  git merge-base --is-ancestor "$commit" HEAD 2> /dev/null || continue
  later=$(git rev-list --count "$commit..HEAD")
  while read -r command; do note "$commit" "$later" "$command"; done < <(grep -o '`[^`]*tests/multigpu\.sh [^`]*`' <<< "$row" | tr -d '`')
done < <(sed -nE 's/^\| [0-9-]+ \| ([0-9a-f]{7,})[^|]*\|(.*tests\/multigpu\.sh .*)/\1 \2/p' tests/bench/results.md)
if [ ${#latest[@]} -eq 0 ]; then
  echo "multigpu_due: expected a row of tests/multigpu.sh in tests/bench/results.md whose commit is in the history here, got none" >&2
  exit 2
fi
for ranks in 2 4; do
  for commit in $(for part in "${parts[@]}"; do echo "${latest[$ranks $part]:-never}"; done | sort -u); do
    ran=()
    for part in "${parts[@]}"; do [ "${latest[$ranks $part]:-never}" != "$commit" ] || ran+=("$part"); done
    [ "$commit" != never ] || { echo "tests/multigpu.sh on $ranks GPUs: ${ran[*]} have no row"; continue; }
    due=$(git rev-list --count "$commit..HEAD" -- "${watched[@]}")
    echo "tests/multigpu.sh on $ranks GPUs: ${ran[*]} ran at $commit; $due commits changed ${watched[*]} since"
  done
done
