// Memory: how much there is, what a request is for, and the error message if there is too little. A check before the
// run and a failed allocation give the same message.
//
//   MemoryUse use("moments");
//   Fail(OutOfMemory({.where = "NVIDIA H200 (cuda:0)", .asked = bytes, .memory = device.MemoryNow()}));
#pragma once
#include <cstddef>
#include <string>

namespace weft {

struct Memory {
  size_t free = 0, total = 0;  // bytes available now, and bytes in all; total 0: unknown
};

// Names what this thread allocates memory for while the object lives. The innermost scope counts.
class MemoryUse {
 public:
  explicit MemoryUse(const char* category);
  ~MemoryUse();
  MemoryUse(const MemoryUse&) = delete;
  MemoryUse& operator=(const MemoryUse&) = delete;
  static const char* Current();  // "values of an op" outside any scope

 private:
  const char* previous_;
};

struct Shortage {
  std::string where;                        // "the CPU of host a", "NVIDIA H200 (cuda:0)"
  size_t asked = 0;                         // bytes; 0: unknown
  std::string what = MemoryUse::Current();  // what the memory is for
  Memory memory;
};
// Returns "out of memory on WHERE: 3.0 GiB asked for (moments), 1.0 GiB free of 8.0 GiB; ", followed by advice.
std::string OutOfMemory(const Shortage& shortage);

std::string BytesText(size_t bytes);  // "512 B", "3.5 MiB", "26.4 GiB"

}  // namespace weft
