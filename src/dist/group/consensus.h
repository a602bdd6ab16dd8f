// What the ranks of a group tell each other: bytes, and whether all are well.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "weft/dist/group/process_group.h"

namespace weft {

// The bytes of all ranks, in order; called by all ranks alike.
std::vector<std::string> GatherBytes(ProcessGroup& group, std::string_view mine);
// The first fault of any rank, the same on all.
absl::Status FirstFault(ProcessGroup& group, const absl::Status& mine);
// Throws Error, on all ranks, unless all have the same number: "rank 3 " and `otherwise`.
void CheckSame(ProcessGroup& group, uint64_t mine, const char* otherwise);

// The bytes of all ranks, in order; called by all ranks alike. Bootstrap::AllGather is one.
using Gather = std::function<std::vector<std::string>(std::string_view bytes)>;

// The ranks of a job, as they look at files together: in a group, or before there are groups.
struct Ranks {
  int rank = 0, size = 1;
  Gather gather = [](std::string_view bytes) { return std::vector<std::string>{std::string(bytes)}; };
  std::string host;  // of this rank, where errors are to name it
};
Ranks RanksOf(ProcessGroup& group);  // which outlives them
absl::Status FirstFault(const Ranks& ranks, const absl::Status& mine);

}  // namespace weft
