#!/usr/bin/env bash
# Lists the commits that changed what tests/multigpu.sh tests since its latest row in results.md: CUDA kernels, groups of NCCL, and
# the passes and plans that order collectives. These tests need several GPUs, so no other check runs them.
#
#   tests/ci/multigpu_due.sh     exit code 2 if results.md has no such row, or the history here does not reach back to it
set -euo pipefail
cd "$(dirname "$0")/../.."

watched=(src/kernels/cuda src/dist/group/nccl src/core/passes src/core/compile)
latest="" least=
while read -r commit; do
  git merge-base --is-ancestor "$commit" HEAD 2> /dev/null || continue
  later=$(git rev-list --count "$commit..HEAD")
  [ -n "$latest" ] && [ "$later" -ge "$least" ] || latest=$commit least=$later
done < <(sed -nE 's/^\| [0-9-]+ \| ([0-9a-f]{7,})[^|]*\|.*tests\/multigpu\.sh.*/\1/p' tests/bench/results.md | sort -u)
if [ -z "$latest" ]; then
  echo "multigpu_due: expected a row of tests/multigpu.sh in tests/bench/results.md whose commit is in the history here, got none" >&2
  exit 2
fi
mapfile -t due < <(git log --format='%h %s' "$latest..HEAD" -- "${watched[@]}")
echo "tests/multigpu.sh ran at $latest; ${#due[@]} commits changed ${watched[*]} since"
[ ${#due[@]} -eq 0 ] || printf '   %s\n' "${due[@]}"
