// DataNeed: the memory that the data of a config takes in each rank, before any of it is read. Text is held as tokens;
// token shards stay in their files.
#pragma once
#include <cstdint>
#include <string>

#include "weft/train/config/config.h"

namespace weft {

struct DataNeed {
  int64_t tokens = 0;   // bytes of the tokens that a rank holds during the run
  int64_t text = 0;     // bytes of text that are held besides while the tokens are made
  std::string unknown;  // why nothing is known, in words; "": both numbers are
};

// Estimated from samples of at most 8 files of each source: their tokens per byte of the file, times the bytes of all
// files. Reads 16 MiB of a source at most.
DataNeed EstimateDataNeed(const Config& config);

}  // namespace weft
