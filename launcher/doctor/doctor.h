// The checks of weft doctor. Each check gives one Finding.
#pragma once
#include <string>
#include <vector>

#include "weft/dist/start/bootstrap.h"

namespace weft {

struct Finding {
  enum Grade : uint8_t { kGood, kWarning, kFault } grade = kGood;
  std::string what, fact, remedy;  // "disk", "12.1 GiB free, 4 ms to write and sync", advice unless it is good
};

// Checks this host: the processor, libraries, memory, the GPU, names, the network, the clock, and `folder`, to which a
// run would write.
std::vector<Finding> ExamineHost(const std::string& folder);
// Checks what needs all ranks: hosts, versions, clocks, connections, and sums over the transport of the groups.
// Collective. Returns the findings on rank 0 and nothing on the other ranks. Throws Error if the ranks fail to
// communicate. If connecting or a sum failed, the error names that check.
std::vector<Finding> ExamineJob(Bootstrap& bootstrap);

}  // namespace weft
