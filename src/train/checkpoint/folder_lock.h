// FolderLock: lets only one run write to a folder. It is a lock of the system (flock), which ends with the process in
// every case and leaves nothing in the folder.
#pragma once
#include <string>

#include "absl/status/status.h"

namespace weft {

class FolderLock {
 public:
  FolderLock() = default;
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // Takes the lock. Waits some seconds, because a killed process may still be exiting. Returns kInvalidArgument if
  // another process holds the lock after that. Returns OK without a lock if the file system has no such locks.
  absl::Status Take(const std::string& folder);

 private:
  int fd_ = -1;
};

}  // namespace weft
