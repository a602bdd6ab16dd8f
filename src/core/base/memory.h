// Memory: how much there is, what it is asked for, and the words for too little of it: the same whether a check before
// the run finds out or an allocation.
//
//   MemoryUse use("moments");
//   Fail(OutOfMemory({.where = "NVIDIA H200 (cuda:0)", .asked = bytes, .memory = device.Memory()}));
#pragma once
#include <cstddef>
#include <string>

namespace weft {

struct Memory {
  size_t free = 0, total = 0;  // bytes that could be allocated now, and that there are; total 0: nobody knows
};

// What this thread asks for memory for, while the object lives; the innermost counts.
class MemoryUse {
 public:
  explicit MemoryUse(const char* category);
  ~MemoryUse();
  MemoryUse(const MemoryUse&) = delete;
  MemoryUse& operator=(const MemoryUse&) = delete;
  static const char* Current();  // "values of an op" where there is none

 private:
  const char* previous_;
};

struct Shortage {
  std::string where;                        // "the CPU of host a", "NVIDIA H200 (cuda:0)"
  size_t asked = 0;                         // 0: nobody knows
  std::string what = MemoryUse::Current();  // that it is asked for
  Memory memory;
};
// "out of memory on WHERE: 3.0 GiB asked for (moments), 1.0 GiB free of 8.0 GiB; ", then what to do.
std::string OutOfMemory(const Shortage& shortage);

std::string BytesText(size_t bytes);  // "512 B", "3.5 MiB", "26.4 GiB"

}  // namespace weft
