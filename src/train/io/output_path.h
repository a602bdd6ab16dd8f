// Output paths of a run, checked before it starts. Otherwise an unwritable path would fail only hours later.
#pragma once
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft {

// Creates the folder and its missing parents. Returns an error if the folder is not writable. Does not create a new
// folder directly under /, because such a path is most likely a typo or a disk that is not mounted.
absl::Status MakeOutputFolder(const std::string& folder);

// Checks that a file can be written, and creates its folder as MakeOutputFolder does. Leaves no new file, and does not
// change an existing one.
absl::Status CheckOutputFile(const std::string& path);

// Renames a file to the first free name among PATH.1, PATH.2, ... Returns the new name.
absl::StatusOr<std::string> MoveAside(const std::string& path);

}  // namespace weft
