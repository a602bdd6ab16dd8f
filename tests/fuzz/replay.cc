// The main of a fuzz target without a fuzzer: TARGET FOLDER runs it on each file of the folder.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "fuzz/allocation_bound.h"
#include "fuzz/target.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: {} FOLDER\n", argv[0]);
    return 2;
  }
  int count = 0;
  size_t largest = 0, live = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    std::ifstream file(entry.path(), std::ios::binary);
    std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
    fmt::print("{}\n", entry.path().string());  // the last one printed is the one that failed
    std::fflush(stdout);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    largest = std::max(largest, weft::fuzz::AllocationBound::Largest());
    live = std::max(live, weft::fuzz::AllocationBound::LivePeak());
    count++;
  }
  fmt::print("{} inputs, the largest allocation {} bytes, all at a time {}\n", count, largest, live);
  return count > 0 ? 0 : 1;
}
