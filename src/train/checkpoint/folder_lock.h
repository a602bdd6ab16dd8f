// FolderLock: a folder that one run writes to. The lock is the system's (flock) and ends with the process, however that
// ends; nothing is left in the folder.
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

  // kInvalidArgument where another process has it, and still has after some seconds: one that was killed may be on its
  // way out. Where the file system has no such locks, there is none.
  absl::Status Take(const std::string& folder);

 private:
  int fd_ = -1;
};

}  // namespace weft
