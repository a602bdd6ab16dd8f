// What the ranks of a group tell each other: bytes, and whether all are well.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "dist/process_group.h"

namespace weft {

// The bytes of all ranks, in order; called by all ranks alike.
std::vector<std::string> GatherBytes(ProcessGroup& group, std::string_view mine);
// The first fault of any rank, the same on all.
absl::Status FirstFault(ProcessGroup& group, const absl::Status& mine);

}  // namespace weft
