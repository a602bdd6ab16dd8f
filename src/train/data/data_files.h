// Finds data files in folders and globs, always in the same order.
#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/train/config/config.h"
#include "weft/train/data/data_format.h"
#include "weft/train/data/skip_count.h"

namespace weft {

struct DataFiles {
  std::vector<std::string> paths;
  const DataFormat* format = &DataFormats()[0];  // the format of all of them
  SkipCount skipped;                             // empty and binary files in folders
};

// Returns the files of the inputs, in input order. The files of each folder or glob are sorted by path. Folders are
// searched recursively, without following links to folders. The search skips hidden entries, folders named "build",
// checkpoints, broken links, and files that are empty or binary (contain a NUL) but not token shards. Returns an error
// for a file or folder that cannot be read, for Parquet files, and for inputs of two formats.
absl::StatusOr<DataFiles> FindDataFiles(const PathList& inputs);

// Returns a message for the user if a file is in both sets, because the validation loss then includes training data.
// Returns "" if no file is.
std::string NoteOfShared(const DataFiles& train, const DataFiles& val);

}  // namespace weft
