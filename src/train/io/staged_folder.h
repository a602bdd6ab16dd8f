// StagedFolder: files that appear in a folder together once all of them are on the disk, or not at all.
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
  // Creates the folder. An existing folder must be empty except for leftovers of a killed run, which Make removes.
  static absl::StatusOr<StagedFolder> Make(const std::string& path);
  // Removes the staged files, and the folder if Make created it, unless they were published.
  ~StagedFolder();
  StagedFolder(StagedFolder&& other) noexcept;
  StagedFolder& operator=(StagedFolder&&) = delete;

  // Adds `name` to the files to publish. Returns the path to write the file to.
  std::string Stage(const std::string& name);
  // Returns the path of the staged file until it is published.
  std::string Staged(const std::string& name) const;
  absl::Status Write(const std::string& name, std::string_view text);
  // Moves the files to their names in the order in which they were staged. On an error, removes those already moved.
  absl::Status Publish();

 private:
  StagedFolder(std::string path, bool made) : path_(std::move(path)), made_(made) {}
  std::string StagePath() const;

  std::string path_;  // empty after a move
  bool made_;         // whether Make created the folder
  bool published_ = false;
  std::vector<std::string> names_;
};

}  // namespace weft
