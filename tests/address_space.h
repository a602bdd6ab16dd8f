// Limits the address space of this process. Meant for a process that ends soon, such as the child of a death test.
#pragma once
#include <sys/resource.h>

#include <cstddef>

#include "weft/core/base/process_memory.h"

namespace weft {

// Returns the number of bytes that this process has mapped. A sanitizer maps terabytes, so a sanitized process cannot
// run under a limit.
inline size_t MappedBytes() {
  constexpr size_t kHigh = size_t(1) << 50;
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  rlimit high{kHigh, before.rlim_max};
  setrlimit(RLIMIT_AS, &high);
  size_t mapped = kHigh - MemoryOfProcess().memory.free;
  setrlimit(RLIMIT_AS, &before);
  return mapped;
}
inline bool IsSanitized() { return MappedBytes() > size_t(1) << 40; }

// Limits the address space so that the process can map `bytes` bytes more.
inline void LeaveAddressSpace(size_t bytes) {
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = MappedBytes() + bytes;
  setrlimit(RLIMIT_AS, &limit);
}

}  // namespace weft
