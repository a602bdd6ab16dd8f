// What weft doctor looks at: one finding each, on this rank.
#pragma once
#include <string>
#include <vector>

#include "weft/dist/start/bootstrap.h"

namespace weft {

struct Finding {
  enum Grade : uint8_t { kGood, kWarning, kFault } grade = kGood;
  std::string what, fact, remedy;  // "disk", "12.1 GiB free, 4 ms to write and sync", what to do where it is not good
};

// The processor, its libraries, memory, devices, the network and `folder`, where a run would write.
std::vector<Finding> ExamineHost(const std::string& folder);
// What only all ranks together know: hosts, versions, clocks, connections, and sums over the groups' transport. On rank
// 0; empty on the others. Throws Error that names the check in which the ranks failed.
std::vector<Finding> ExamineJob(Bootstrap& bootstrap);

}  // namespace weft
