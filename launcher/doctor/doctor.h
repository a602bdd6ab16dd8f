// The checks of weft doctor. Each check gives one Finding.
#pragma once
#include <string>
#include <vector>

#include "launcher/doctor/finding.h"
#include "weft/dist/start/bootstrap.h"

namespace weft {

// Checks this host: the processor, libraries, memory, the GPU, names, the network, the clock, and `folder`, to which a
// run would write. With several ranks ExamineJob checks NCCL, otherwise this does.
std::vector<Finding> ExamineHost(const std::string& folder, bool several_ranks);
// Checks what needs all ranks: hosts, versions, clocks, devices, connections, and sums over the transport of the
// groups. Collective. Returns the findings on rank 0 and nothing on the other ranks. Throws Error if the ranks fail to
// communicate. If connecting or a sum failed, the error names that check.
std::vector<Finding> ExamineJob(Bootstrap& bootstrap);

}  // namespace weft
