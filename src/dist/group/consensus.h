// Consensus: small collectives with which ranks exchange bytes and agree on whether any of them failed.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "weft/dist/group/process_group.h"

namespace weft {

// Returns the bytes of all ranks in rank order. Collective.
std::vector<std::string> GatherBytes(ProcessGroup& group, std::string_view mine);
// Returns the fault of the lowest rank that has one, on all ranks. Collective.
absl::Status FirstFault(ProcessGroup& group, const absl::Status& mine);
// Throws Error on all ranks unless all have the same number. The error is the first rank that differs from rank 0,
// followed by `otherwise`: "rank 3 " and `otherwise`. Collective.
void CheckSame(ProcessGroup& group, uint64_t mine, const char* otherwise);

// A function that returns the bytes of all ranks in rank order. It is collective. Bootstrap::AllGather is one.
using GatherFn = std::function<std::vector<std::string>(std::string_view bytes)>;

// The ranks of a job that inspect files together, in a group or before there are groups.
struct Ranks {
  int rank = 0, size = 1;
  GatherFn gather = [](std::string_view bytes) { return std::vector<std::string>{std::string(bytes)}; };
  std::string host;  // this rank's host, if errors are to name it
};
Ranks RanksOf(ProcessGroup& group);  // `group` must outlive the result
absl::Status FirstFault(const Ranks& ranks, const absl::Status& mine);

}  // namespace weft
