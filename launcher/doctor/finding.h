// Finding: what a check of weft doctor found.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

struct Finding {
  enum Grade : uint8_t { kGood, kWarning, kFault } grade = kGood;
  std::string what, fact, remedy;  // "disk", "12.1 GiB free, 4 ms to write and sync", advice unless it is good
};

// Returns a fault unless all ranks have the same value. The fact lists the distinct values.
Finding Alike(const char* what, const std::vector<std::string>& values, const char* remedy);

}  // namespace weft
