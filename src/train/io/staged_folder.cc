#include "weft/train/io/staged_folder.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "fmt/format.h"
#include "weft/core/host/suggest.h"
#include "weft/train/io/bad_input.h"
#include "weft/train/io/durable.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
constexpr const char* kStage = ".unfinished";

std::string Join(const std::string& folder, const std::string& name) { return (fs::path(folder) / name).string(); }

// Only leftovers of a killed run may be deleted; anything else may be a user's.
absl::Status CheckEmpty(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error))
    if (std::string name = it->path().filename().string(); name != kStage) names.push_back(name);
  if (error) return BadInput(path, fmt::format("cannot be searched ({})", error.message()));
  if (names.empty()) return absl::OkStatus();
  std::sort(names.begin(), names.end());
  return BadInput(path,
                  fmt::format("expected a new or an empty folder, got one that holds {}; give another one or remove it",
                              FirstFew(names, 3)));
}

}  // namespace

absl::StatusOr<StagedFolder> StagedFolder::Make(const std::string& path) {
  std::error_code error;
  bool there = fs::exists(path, error);
  if (there && !fs::is_directory(path, error))
    return BadInput(path, "expected a new or an empty folder to write to, got a file");
  if (there)
    if (absl::Status s = CheckEmpty(path); !s.ok()) return s;
  StagedFolder folder(path, !there);
  if (absl::Status s = RemoveAll(folder.StagePath()); !s.ok()) return s;
  if (absl::Status s = MakeFolders(folder.StagePath()); !s.ok()) return s;
  return folder;
}

StagedFolder::StagedFolder(StagedFolder&& other) noexcept
    : path_(std::exchange(other.path_, "")),
      made_(other.made_),
      published_(other.published_),
      names_(std::move(other.names_)) {}

StagedFolder::~StagedFolder() {
  if (path_.empty() || published_) return;
  std::error_code ignored;  // the caller already has an earlier error
  fs::remove_all(StagePath(), ignored);
  if (made_) fs::remove(path_, ignored);
}

std::string StagedFolder::StagePath() const { return Join(path_, kStage); }

std::string StagedFolder::Stage(const std::string& name) {
  names_.push_back(name);
  return Staged(name);
}

std::string StagedFolder::Staged(const std::string& name) const { return Join(StagePath(), name); }

absl::Status StagedFolder::Write(const std::string& name, std::string_view text) {
  return WriteFile(Stage(name), text);
}

absl::Status StagedFolder::Publish() {
  absl::Status status = SyncFolder(StagePath());
  size_t placed = 0;
  while (status.ok() && placed < names_.size()) {
    status = PutInPlace(Join(StagePath(), names_[placed]), Join(path_, names_[placed]));
    placed += status.ok();
  }
  if (status.ok()) status = RemoveAll(StagePath());
  if (status.ok()) status = SyncFolder(path_);
  published_ = status.ok();
  std::error_code ignored;
  for (size_t i = 0; !published_ && i < placed; i++) fs::remove(Join(path_, names_[i]), ignored);
  return status;
}

}  // namespace weft
