#include "weft/train/checkpoint/whole.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "weft/core/host/notice.h"
#include "weft/train/checkpoint/folder.h"

namespace weft {
namespace {

template <class T>
std::string_view BytesOf(const T* data, size_t count) {
  return {reinterpret_cast<const char*>(data), count * sizeof *data};
}

// Returns rank 0's view of a folder, so that all ranks use the same.
std::vector<int64_t> SharedSteps(const std::string& dir, const Ranks& ranks) {
  std::vector<int64_t> steps = ranks.rank == 0 ? StepsIn(dir) : std::vector<int64_t>();
  std::string bytes = ranks.gather(BytesOf(steps.data(), steps.size()))[0];
  steps.resize(bytes.size() / sizeof(int64_t));
  if (!steps.empty()) std::memcpy(steps.data(), bytes.data(), bytes.size());
  return steps;
}

// Returns rank 0's view, so that all ranks look for the same kind.
enum Kind : char { kNothing, kCheckpoint, kFolder };
Kind KindOf(const std::string& path, const Ranks& ranks) {
  namespace fs = std::filesystem;
  std::error_code error;
  Kind kind = !fs::is_directory(path, error)                      ? kNothing
              : fs::exists(fs::path(path) / kManifestFile, error) ? kCheckpoint
                                                                  : kFolder;
  return Kind(ranks.gather(std::string(1, char(kind)))[0][0]);
}

// Returns "; did you mean data/mine/checkpoints?" if a folder in this one holds checkpoints, otherwise "".
std::string AdviceIn(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (!StepsIn(it->path().string()).empty()) found.push_back(it->path().string());
  return found.empty() ? "" : fmt::format("; did you mean {}?", *std::min_element(found.begin(), found.end()));
}

}  // namespace

absl::StatusOr<Checkpoint> OpenWhole(const std::string& folder, const Ranks& ranks) {
  absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(folder);
  if (absl::Status s = FirstFault(ranks, checkpoint.status()); !s.ok()) return s;
  uint32_t mine = checkpoint->Crc();
  bool same = ranks.gather(BytesOf(&mine, 1))[0] == BytesOf(&mine, 1);
  absl::Status status = checkpoint->Verify(ranks.rank, ranks.size);
  if (!same)
    status =
        absl::DataLossError(fmt::format("{}: rank {} finds another manifest there than rank 0; give all ranks the "
                                        "same folder",
                                        folder, ranks.rank));
  if (absl::Status s = FirstFault(ranks, status); !s.ok()) return s;
  return checkpoint;
}

std::vector<std::string> NewestWhole::Faults() const {
  std::vector<std::string> faults;
  for (const std::string& fault : broken) faults.push_back("broken, passed over: " + fault);
  return faults;
}

std::vector<std::string> NewestWhole::Notes() const {
  std::vector<std::string> notes = Faults();
  if (!later.empty()) notes.push_back(NoteLine(later));
  return notes;
}

NewestWhole FindNewestWhole(const std::string& dir, const Ranks& ranks, int64_t last) {
  NewestWhole newest;
  for (int64_t step : SharedSteps(dir, ranks)) {
    if (step > last) continue;
    absl::StatusOr<Checkpoint> checkpoint = OpenWhole(StepFolder(dir, step), ranks);
    if (checkpoint.ok()) {
      newest.checkpoint = *std::move(checkpoint);
      newest.later = NoteOfLaterSaved(dir, step);
      break;
    }
    newest.broken.emplace_back(checkpoint.status().message());
  }
  return newest;
}

absl::Status BrokenAlone(const std::string& dir, const NewestWhole& newest) {
  return absl::InvalidArgumentError(
      fmt::format("{}: expected a whole checkpoint, got only broken ones:\n{}", dir, fmt::join(newest.broken, "\n")));
}

absl::StatusOr<NamedCheckpoint> OpenNamed(const std::string& path, const Ranks& ranks) {
  Kind kind = KindOf(path, ranks);
  if (kind == kCheckpoint) {
    absl::StatusOr<Checkpoint> checkpoint = OpenWhole(path, ranks);
    if (!checkpoint.ok()) return absl::InvalidArgumentError(checkpoint.status().message());
    return NamedCheckpoint{*std::move(checkpoint), {}};
  }
  NewestWhole newest = kind == kFolder ? FindNewestWhole(path, ranks) : NewestWhole();
  if (newest.checkpoint) return NamedCheckpoint{*std::move(newest.checkpoint), newest.Notes()};
  if (!newest.broken.empty()) return BrokenAlone(path, newest);
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::path(path) / "model.safetensors", error))
    return absl::InvalidArgumentError(
        fmt::format("{0}: expected a checkpoint, got a folder of published weights; give the config of such a model, "
                    "and model.init={0}",
                    path));
  return absl::InvalidArgumentError(
      fmt::format("{}: expected a checkpoint (a folder with {}) or a folder of them (step-000100 and so on), got {}; "
                  "checkpoint.dir=FOLDER makes weft train save them{}",
                  path, kManifestFile, kind == kFolder ? "a folder of neither" : "no folder", AdviceIn(path)));
}

}  // namespace weft
