#include "weft/train/preflight/run_claim.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fmt/format.h"
#include "weft/train/config/config_check.h"
#include "weft/train/config/run_name.h"
#include "weft/train/io/output_path.h"

namespace weft {
namespace {

// mkdir succeeds for only one caller, even if several try at the same time.
absl::StatusOr<std::string> MakeFirstFree(const std::string& name) {
  if (absl::Status s = MakeOutputFolder(kRunsFolder); !s.ok()) return s;
  for (int64_t number = 1;; number++) {
    std::string free = NumberedRun(name, number);
    if (::mkdir(RunFolder(free).c_str(), 0777) == 0) return free;
    if (errno != EEXIST)
      return absl::UnavailableError(
          fmt::format("{}: cannot be made ({}); give another name", RunFolder(free), std::strerror(errno)));
  }
}

}  // namespace

absl::StatusOr<RunClaim> RunClaim::Make(Config& config, const Ranks& ranks) {
  RunClaim claim;
  if (config.run.empty() || config.checkpoint.resume != "never") return claim;
  absl::StatusOr<std::string> free = ranks.rank == 0 ? MakeFirstFree(config.run) : "";
  absl::Status made = free.status();
  if (!made.ok()) made = RefuseKey(config, "run", made.message());
  if (absl::Status s = FirstFault(ranks, made); !s.ok()) return s;
  std::string name = ranks.gather(*free)[0];
  if (ranks.rank == 0) claim.made_ = RunFolder(name);
  if (name != config.run)
    claim.note_ = fmt::format("{} is there already, so this run is {}", RunFolder(config.run), RunFolder(name));
  config.run = name;
  FillRun(config);
  return claim;
}

RunClaim::~RunClaim() {
  if (made_.empty()) return;
  ::rmdir((made_ + "/tensorboard").c_str());  // created before the run began
  ::rmdir(made_.c_str());
}

}  // namespace weft
