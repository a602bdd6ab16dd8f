// Where a run will write: tried before it starts, as what cannot be written then would be said hours later.
#pragma once
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft {

// Makes the folder and those above it; fails where it cannot be written. A new folder of / is not made: that is a
// slip of the finger, or a disk that is not mounted.
absl::Status MakeOutputFolder(const std::string& folder);

// The same for a file, of which none is left that was not there; one that is there stays as it is.
absl::Status CheckOutputFile(const std::string& path);

// Gives a file the first name of PATH.1, PATH.2, ... that nothing has, and returns that name.
absl::StatusOr<std::string> MoveAside(const std::string& path);

}  // namespace weft
