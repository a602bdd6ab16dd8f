// Finding and reading text: files, folders and globs, always in the same order.
#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace weft {

// The files behind the inputs, in input order, each folder and glob sorted by path. A folder is searched to its depth,
// without following links to folders; hidden entries, folders named "build", empty and binary files (those that hold a
// NUL) and links that lead nowhere are passed over in it. A file or folder that cannot be read is an error.
absl::StatusOr<std::vector<std::string>> FindTextFiles(const std::vector<std::string>& inputs);

// One file, which must be UTF-8 text and not empty. Errors name the file and the offset of the first bad byte.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

// The text of all files behind the inputs, end to end.
absl::StatusOr<std::string> ReadText(const std::vector<std::string>& inputs);

}  // namespace weft
