// ShardPlan: the layout of the file that a rank writes. It is known in advance, and on every rank. The file is a
// safetensors file of the boxes that the rank owns, under the names of the state's entries.
#pragma once
#include <string>
#include <vector>

#include "weft/parallel/program/state.h"
#include "weft/train/checkpoint/manifest.h"

namespace weft {

struct PlannedBox {
  std::string tensor;
  DType dtype;
  Box box;
  uint64_t offset = 0;  // in the file
  uint64_t bytes() const { return uint64_t(Volume(box)) * SizeOf(dtype); }
};
struct ShardPlan {
  std::string file;
  std::string header;  // including its length prefix
  std::vector<PlannedBox> boxes;
  uint64_t bytes = 0;                                  // of the file
  size_t NumCrcs() const { return boxes.size() + 1; }  // the header's, then one per box
};

// Returns the plan of a rank. A plan without boxes means that the rank owns nothing and writes no file.
ShardPlan PlanShard(const State& state, int rank);

// Returns the manifest of what all ranks wrote. `crcs` has the checksums of each rank, none for a rank without a file.
Manifest ManifestOf(const State& state, const std::vector<std::vector<uint32_t>>& crcs);

}  // namespace weft
