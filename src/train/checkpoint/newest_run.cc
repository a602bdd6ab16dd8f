#include "weft/train/checkpoint/newest_run.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "weft/train/checkpoint/folder.h"
#include "weft/train/checkpoint/manifest.h"
#include "weft/train/config/run_name.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

std::string NewestHere(const std::string& name) {
  std::pair<fs::file_time_type, std::string> newest = {fs::file_time_type::min(), ""};
  std::error_code error;
  for (fs::directory_iterator it(kRunsFolder, error), end; !error && it != end; it.increment(error)) {
    std::string run = it->path().filename().string(), folder = it->path().string();
    if (!name.empty() && !IsNumberedRun(name, run)) continue;
    std::error_code unreadable;
    for (int64_t step : StepsIn(folder))
      if (auto time = fs::last_write_time(fs::path(StepFolder(folder, step)) / kManifestFile, unreadable); !unreadable)
        newest = std::max(newest, {time, run});
  }
  return newest.second;
}

}  // namespace

std::string NewestRun(const Ranks& ranks, const std::string& name) {
  return ranks.gather(ranks.rank == 0 ? NewestHere(name) : "")[0];
}

}  // namespace weft
