#include "weft/train/checkpoint/folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>

#include "fmt/format.h"
#include "weft/train/checkpoint/manifest.h"
#include "weft/train/io/durable.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "step-", kUnfinished = ".tmp-", kProbe = ".tmp-probe-",
                           kEvaluatedFile = "evaluated";

std::vector<std::string> NamesIn(const std::string& dir) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  return names;
}

}  // namespace

bool IsCheckpointName(std::string_view name) {
  if (name.starts_with(kUnfinished)) return true;
  return name.starts_with(kPrefix) && name.find_first_not_of("0123456789", kPrefix.size()) == name.npos;
}

std::string StepFolder(const std::string& dir, int64_t step) {
  return (fs::path(dir) / fmt::format("{}{:06}", kPrefix, step)).string();
}

std::string UnfinishedFolder(const std::string& dir, int64_t step) {
  return (fs::path(dir) / fmt::format("{}{}{}", kUnfinished, kPrefix, step)).string();
}

std::string ProbeFile(const std::string& dir, const std::string& word) {
  return (fs::path(dir) / fmt::format("{}{}", kProbe, word)).string();
}

std::vector<int64_t> StepsIn(const std::string& dir) {
  std::vector<int64_t> steps;
  for (const std::string& name : NamesIn(dir)) {
    if (!name.starts_with(kPrefix)) continue;
    int64_t step = 0;
    auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
    bool ours = error == std::errc() && step >= 0 && StepFolder(dir, step) == (fs::path(dir) / name).string();
    if (ours) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end(), std::greater());
  return steps;
}

std::string NoteOfLaterSaved(const std::string& dir, int64_t step) {
  std::error_code error;  // a time that cannot be read is the minimum
  auto saved = [&](int64_t s) { return fs::last_write_time(fs::path(StepFolder(dir, s)) / kManifestFile, error); };
  int64_t latest = step;
  for (int64_t other : StepsIn(dir))
    if (other < step && saved(other) > saved(latest)) latest = other;
  if (latest == step) return "";
  return fmt::format("{} was saved after {}, which is taken as its step is higher; name the folder to take it",
                     StepFolder(dir, latest), StepFolder(dir, step));
}

bool IsEvaluated(const std::string& folder) {
  std::error_code error;
  return fs::exists(fs::path(folder) / kEvaluatedFile, error);
}

absl::Status MarkEvaluated(const std::string& folder) {
  absl::StatusOr<DurableFile> file = DurableFile::Create((fs::path(folder) / kEvaluatedFile).string());
  return file.ok() ? file->Close() : file.status();
}

absl::Status RemoveUnfinished(const std::string& dir) {
  absl::Status first;
  for (const std::string& name : NamesIn(dir))
    if (name.starts_with(std::string(kUnfinished) + std::string(kPrefix)) || name.starts_with(kProbe))
      first.Update(RemoveAll((fs::path(dir) / name).string()));
  return first;
}

absl::Status KeepNewest(const std::string& dir, std::set<int64_t>& steps, int64_t keep) {
  absl::Status first;
  while (keep > 0 && steps.size() > size_t(keep)) {
    std::string folder = StepFolder(dir, *steps.begin());
    // Rename it first, so that a half-removed folder is no checkpoint.
    std::string leaving = UnfinishedFolder(dir, *steps.begin());
    std::error_code error;
    if (fs::exists(folder, error) || error) {  // if the check fails, PutInPlace reports why
      absl::Status left = PutInPlace(folder, leaving);
      first.Update(left.ok() ? RemoveAll(leaving) : left);
    }
    steps.erase(steps.begin());
  }
  return first;
}

}  // namespace weft
