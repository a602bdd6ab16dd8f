#include "weft/dist/net/job_name.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "weft/dist/net/host_identity.h"

namespace weft {
namespace {

std::string LauncherId() {
  for (const char* name : {"TORCHELASTIC_RUN_ID", "SLURM_HET_JOB_ID", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"}) {
    const char* id = std::getenv(name);
    if (!id || !*id || std::string_view(id) == "none") continue;  // torchrun sets "none" when it got no id
    const char* step = std::getenv("RANK") ? nullptr : std::getenv("SLURM_STEP_ID");
    return std::string(name) + "=" + id + (step ? std::string(" step ") + step : "");
  }
  return "";
}

uint64_t HashOf(const Key& key, std::string_view kind, std::string_view text) {
  if (text.empty()) return 0;
  Key code = Hmac(key, {"weft job name", kind, text});
  uint64_t hash = 0;
  std::memcpy(&hash, code.data(), sizeof(hash));
  return hash;
}

bool Differ(uint64_t a, uint64_t b) { return a && b && a != b; }

}  // namespace

JobName NameOfThisJob(const Key& key, std::string_view words) {
  std::error_code error;  // a removed working directory is unknown
  std::string folder = std::filesystem::current_path(error).string();
  return {HashOf(key, "launcher", LauncherId()), HashOf(key, "words", words), HashOf(key, "host", HostIdentity()),
          HashOf(key, "folder", folder)};
}

bool MayBeOneJob(const JobName& a, const JobName& b) {
  return !Differ(a.launcher, b.launcher) && !Differ(a.words, b.words) &&
         (a.host != b.host || !Differ(a.folder, b.folder));
}

}  // namespace weft
