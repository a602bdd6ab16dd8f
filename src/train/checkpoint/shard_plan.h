// ShardPlan: the file that a rank writes, known before anything is written, and on every rank alike. It is a
// safetensors file of the boxes that the rank owns, under the names of the entries.
#pragma once
#include <string>
#include <vector>

#include "weft/parallel/step/state.h"
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
  std::string header;  // with its length before it
  std::vector<PlannedBox> boxes;
  uint64_t bytes = 0;                                  // of the file
  size_t NumCrcs() const { return boxes.size() + 1; }  // the header's, then those of the boxes
};

// No boxes: the rank owns nothing and writes no file.
ShardPlan PlanShard(const State& state, int rank);

// What all ranks together have written; `crcs` holds those of each rank, and nothing of a rank without a file.
Manifest ManifestOf(const State& state, const std::vector<std::vector<uint32_t>>& crcs);

}  // namespace weft
