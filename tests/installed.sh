#!/usr/bin/env bash
# Uses an installed Weft as a stranger does: builds the examples and a project with two lines for Weft in a folder of their
# own, and runs each program on 1, 2 and 4 ranks.
#
#   tests/installed.sh EXAMPLES [PREFIX]   EXAMPLES is a copy of examples/; without PREFIX, CMake must find Weft by itself
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 2; }
examples=$(realpath "$1") prefix=()
[ $# -eq 1 ] || prefix=("-DCMAKE_PREFIX_PATH=$(realpath "$2")")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# step COMMAND...: runs the command, and prints its output only if it fails.
step() { "$@" > "$dir/out" 2>&1 || { cat "$dir/out"; echo "installed: failed: $*"; exit 1; }; }
# built SOURCE: builds the project in the folder SOURCE in $dir/build.
built() {
  rm -rf "$dir/build"
  step cmake -B "$dir/build" -S "$1" ${prefix[@]+"${prefix[@]}"}
  step cmake --build "$dir/build" -j2
}
# on_ranks PROGRAM
on_ranks() {
  local ranks
  for ranks in 1 2 4; do
    step timeout --kill-after=5 120 mpirun --oversubscribe -np $ranks "$dir/build/$1"
  done
  echo "installed: $1 ran on 1, 2 and 4 ranks"
}

built "$examples"
for source in "$examples"/*.cc; do
  on_ranks "$(basename "$source" .cc)"
done

mkdir "$dir/stranger"
cat > "$dir/stranger/CMakeLists.txt" << 'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(stranger LANGUAGES CXX)
add_executable(stranger stranger.cc)
find_package(weft REQUIRED)
target_link_libraries(stranger weft::weft)
CMAKE
cat > "$dir/stranger/stranger.cc" << 'CODE'
#include "weft/weft.h"
int main(int argc, char** argv) {
  weft::Context context = weft::Context::FromEnvironment(argc, argv);
  return context.rank() < context.world_size() ? 0 : 1;
}
CODE
built "$dir/stranger"
on_ranks stranger
