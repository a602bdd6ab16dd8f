// Finding data: files, folders and globs, always in the same order.
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
  const DataFormat* format = &DataFormats()[0];  // of all of them
  SkipCount skipped;                             // empty and binary files in folders
};

// The files behind the inputs, in input order, each folder and glob sorted by path. A folder is searched to its depth,
// without following links to folders; hidden entries, folders named "build", empty and binary files (those that hold a
// NUL) other than token shards, and links that lead nowhere are passed over in it. A file or folder that cannot be read
// is an error, and so are Parquet files and inputs of two formats.
absl::StatusOr<DataFiles> FindDataFiles(const PathList& inputs);

// A note for people where a file is among both: a loss of validation is then one of training. "" where none is.
std::string NoteOfShared(const DataFiles& train, const DataFiles& val);

}  // namespace weft
