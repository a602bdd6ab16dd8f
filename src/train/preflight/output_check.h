// Where a run writes against what it reads and what else it writes: none of its files may destroy another.
#pragma once
#include <string>
#include <vector>

#include "weft/train/config/config.h"

namespace weft {

// A file or folder that a run writes to.
struct OutputPath {
  const char* key;  // "log.jsonl"
  std::string path;
  const char* kind;   // "log": what an error calls a file; null: the path is a folder
  const char* lines;  // what the file holds, for people
  const char* start;  // how the file starts
  bool is_folder() const { return !kind; }
};
// Those of the log, in the order in which they are opened, and the profile. Checkpoints are apart.
std::vector<OutputPath> OutputPathsOf(const Config& config);

// By the paths as they lead through links now, and by how a file in the log's place begins.
std::vector<ConfigFault> CheckOutputPaths(const Config& config);

}  // namespace weft
