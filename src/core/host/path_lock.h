// PathLock: lets only one run write to a file or a folder. It is a lock of the system (flock), which ends with the
// process in every case and leaves nothing on the disk.
#pragma once
#include <string>

#include "absl/status/status.h"

namespace weft {

class PathLock {
 public:
  PathLock() = default;
  ~PathLock();
  PathLock(const PathLock&) = delete;
  PathLock& operator=(const PathLock&) = delete;

  // Takes the lock of the file or folder that is at the path now, and then gives up the one that it held. Waits some
  // seconds, because a killed process may still be exiting. Returns kInvalidArgument if another process holds the lock
  // after that. Returns OK without a lock if nothing is there, if it is neither a file nor a folder, or if the file
  // system has no such locks.
  absl::Status Take(const std::string& path);

 private:
  int fd_ = -1;
};

}  // namespace weft
