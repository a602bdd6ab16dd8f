// StagedFolder: files that appear in a folder together, once all of them are on the disk, or not at all.
//
//   absl::StatusOr<StagedFolder> folder = StagedFolder::Make("data/mine");
//   status = folder->Write("notes.txt", text);      // or whatever else writes to folder->Stage(name)
//   status = folder->Publish();
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft {

class StagedFolder {
 public:
  // Makes the folder. One that is there may hold nothing but what a run that was killed has left.
  static absl::StatusOr<StagedFolder> Make(const std::string& path);
  // Removes what is not published.
  ~StagedFolder();
  StagedFolder(StagedFolder&& other) noexcept;
  StagedFolder& operator=(StagedFolder&&) = delete;

  // Where the file of that name is to be written.
  std::string Stage(const std::string& name);
  // Where it lies then, until it is published.
  std::string Staged(const std::string& name) const;
  absl::Status Write(const std::string& name, std::string_view text);
  // Gives the files their names, in the order in which they were staged. What fails here takes them away again.
  absl::Status Publish();

 private:
  StagedFolder(std::string path, bool made) : path_(std::move(path)), made_(made) {}
  std::string StagePath() const;

  std::string path_;  // "": moved from
  bool made_;         // by this one
  bool published_ = false;
  std::vector<std::string> names_;
};

}  // namespace weft
