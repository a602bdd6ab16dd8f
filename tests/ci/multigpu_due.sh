#!/usr/bin/env bash
# Lists the commits that changed CUDA kernels or groups of NCCL since the latest row of tests/multigpu.sh in results.md. These
# tests need several GPUs, so no other check runs them.
#
#   tests/ci/multigpu_due.sh     exit code 2 if results.md has no such row, or the history here does not reach back to it
set -euo pipefail
cd "$(dirname "$0")/../.."

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
mapfile -t due < <(git log --format='%h %s' "$latest..HEAD" -- src/kernels/cuda src/dist/group/nccl)
echo "tests/multigpu.sh ran at $latest; ${#due[@]} commits changed CUDA kernels or groups of NCCL since"
[ ${#due[@]} -eq 0 ] || printf '   %s\n' "${due[@]}"
