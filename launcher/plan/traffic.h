// Traffic: the bytes that a rank hands to the collectives of a step, summed by axis and by module. Blocks with equal
// traffic become one entry.
#pragma once
#include <string>
#include <vector>

#include "weft/core/compile/comm_plan.h"

namespace weft {

// Calls of one op over one axis. `calls` and `bytes` are per rank and training step.
struct TrafficRow {
  std::string phase;  // "forward", "backward" or "optimizer"; "" in the sums by axis
  std::string axis;
  Op op;
  int64_t calls = 0, bytes = 0;
  bool operator==(const TrafficRow&) const = default;
};

struct ModuleTraffic {
  std::string name;  // "embed", "blocks.0", "blocks.1 to blocks.11: the same"
  std::vector<TrafficRow> rows;
};

// Returns rows sorted by the names of axis and op.
std::vector<TrafficRow> TrafficByAxis(const std::vector<CommLine>& lines);
// Returns the modules in the order in which they first communicate. The module of a collective is
// - the part of its scope up to the number of a block ("blocks.3" for "optimizer.blocks.3.mlp.up.weight"),
// - else the first name of its scope,
// - else "model".
// Consecutive blocks with equal rows become one entry, with the rows of one of them.
std::vector<ModuleTraffic> TrafficByModule(const std::vector<CommLine>& lines);

}  // namespace weft
