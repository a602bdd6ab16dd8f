// Bandwidths of collectives, as nccl-tests define them in their doc/PERFORMANCE.md. The algorithm bandwidth is the size
// divided by the time. The bus bandwidth is the resulting load of a link. It can be compared with the peak of the
// hardware for any number of ranks.
#pragma once
#include "weft/dist/group/collective.h"

namespace weft {

// Returns the bus bandwidth divided by the algorithm bandwidth in a group of `ranks`. The size is that of the larger of
// a rank's two buffers. Returns 0 for a barrier, which moves no data.
double BusFactor(CollectiveOp op, int ranks);

}  // namespace weft
