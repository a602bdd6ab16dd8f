// Checks the paths that a run writes against those that it reads and against each other, so that no file destroys
// another.
#pragma once
#include <string>
#include <vector>

#include "weft/train/config/config.h"

namespace weft {

// A file or folder that a run writes.
struct OutputPath {
  const char* key;  // "log.jsonl"
  std::string path;
  const char* kind;   // name of the file in errors, "log"; null: the path is a folder
  const char* lines;  // the contents of the file, for messages
  const char* start;  // the first bytes of the file
  bool is_folder() const { return !kind; }
};
// Returns the outputs of the log, in the order in which they are opened, and the profile. Does not include checkpoints.
std::vector<OutputPath> OutputPathsOf(const Config& config);

// Follows links as they are now. Also checks that an existing file at a log's path begins like such a log.
std::vector<ConfigFault> CheckOutputPaths(const Config& config);

}  // namespace weft
