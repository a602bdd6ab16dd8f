#!/usr/bin/env bash
# The examples as a user builds them: Weft is installed to a folder, examples/ is a CMake project of its own that finds
# it there, and each program succeeds on 1, 2 and 4 ranks. Then two lines of CMake are enough for a stranger's program.
# Usage: examples_test.sh ROOT BUILD; exits 77 (skipped) where the library is not built.
# shellcheck source=tests/launcher/prelude.sh
source "$(dirname "$0")/../launcher/prelude.sh"
[ -e "$build/libweft.so" ] || exit 77

step() { "$@" > "$dir/out" 2>&1 || fail "expected $*"; }
step cmake --install "$build" --prefix "$dir/weft"
step cmake -B "$dir/examples" -S examples -DCMAKE_PREFIX_PATH="$dir/weft" -DCMAKE_BUILD_TYPE=Debug
step cmake --build "$dir/examples" -- -j2
for source in examples/*.cc; do
  lines=$(wc -l < "$source") example=$(basename "$source" .cc)
  [ "$lines" -le 100 ] || fail "$source: expected at most 100 lines, got $lines"
  for ranks in 1 2 4; do
    step within 120 mpirun --oversubscribe -np $ranks "$dir/examples/$example"
    tail -n 1 "$dir/out"
  done
  step within 120 "$dir/examples/$example"
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
#include <cstdio>

#include "weft/version.h"
#include "weft/weft.h"

int main(int argc, char** argv) {
  weft::Context context = weft::Context::FromEnvironment(argc, argv);
  std::printf("Weft %s, rank %d\n", WEFT_VERSION_STRING, context.rank());
}
CODE
step cmake -B "$dir/stranger/build" -S "$dir/stranger" -DCMAKE_PREFIX_PATH="$dir/weft"
step cmake --build "$dir/stranger/build"
step "$dir/stranger/build/stranger"
grep -qx "Weft $("$weft" version | sed -nE 's/^weft ([0-9.]+).*/\1/p'), rank 0" "$dir/out" || fail "expected the version of weft"
step "$dir/weft/bin/weft" version
