// Search: predicts the step of a config on every mesh and with every option that weft plan --search tries.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "launcher/plan/candidates.h"
#include "launcher/plan/rates_file.h"
#include "weft/core/predict/step_time.h"

namespace weft {

struct SearchRequest {
  Words given;  // the user's words for the config
  int64_t devices = 1;
  double memory = 0;  // GiB of a device; 0: no limit
};

struct Found {
  Candidate candidate;
  StepTime time;
  int64_t bytes = 0;        // of memory on a rank
  double tokens_per_s = 0;  // of a device
};

struct SearchResult {
  using Reasons = std::map<std::string, int64_t>;  // why candidates were left out, and how many
  std::vector<Found> found;                        // the fastest first
  std::map<std::string, Reasons> left_out;         // by the keys of their mesh (PastedMesh)
  int64_t plans = 0;                               // how many steps were planned

  Reasons ReasonsOfAll() const;
};

// At most so many steps are planned.
inline constexpr int64_t kMostPlans = 1000;

// load(keys) returns the config with these keys, resolved for its mesh. Returns an error if the first call fails, if
// the rates are of another device, or if nothing is found; then it lists the reasons. Each candidate is planned as weft
// plan does it. One that needs more memory than the limit is tried again with what saves memory (Smaller). On a GPU 3
// GiB are left to CUDA, as in training.
using ConfigLoader = absl::FunctionRef<absl::StatusOr<Config>(const Words& words)>;
absl::StatusOr<SearchResult> Search(const Config& config, const SearchRequest& request, const RatesFile& rates,
                                    ConfigLoader load);

// Returns a table with the fastest candidate of each mesh, or with `all` every candidate, and the reasons. A mesh on
// which nothing was found has a row with its most frequent reason.
std::string ToText(const SearchResult& result, const SearchRequest& request, bool all);
// Returns all that was found, and the reasons.
std::string ToJson(const SearchResult& result);

}  // namespace weft
