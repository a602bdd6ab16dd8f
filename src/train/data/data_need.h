// DataNeed: the memory that each rank needs for the data of a config, known before the data is read. Text is held as
// tokens; token shards stay in their files.
#pragma once
#include <cstdint>
#include <string>

#include "weft/train/config/config.h"

namespace weft {

struct DataNeed {
  int64_t tokens = 0;   // bytes of tokens that a rank holds during the run
  int64_t text = 0;     // bytes of text held as well while it is encoded
  std::string unknown;  // why the numbers are unknown; "": they are known
};

// Estimates the need from samples of at most 8 files of each source: tokens per byte of file, times the bytes of all
// files. Reads about 16 MiB of text per source at most.
DataNeed EstimateDataNeed(const Config& config);

}  // namespace weft
