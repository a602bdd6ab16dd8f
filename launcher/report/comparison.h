// Comparison: several runs on one page, with their curves in the same charts and the keys in which their configs
// differ.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/report/run_charts.h"

namespace weft {

// A key whose values differ between configs.
struct DifferentKey {
  std::string key;                  // "optimizer.lr"
  std::vector<std::string> values;  // one per config; "(not set)" if the key is missing
};
// Returns the keys in the order in which they first appear. If a config cannot be read, the error names its log.
absl::StatusOr<std::vector<DifferentKey>> DifferentKeys(std::span<const ReportedRun> runs);

// Returns kInvalidArgument if the runs have different objectives, because their losses are then not comparable, or if a
// config cannot be read.
absl::Status CheckComparable(std::span<const ReportedRun> runs);
// Requires 2 to kCurveColors runs. Returns kInvalidArgument if a config cannot be read, or if the runs have different
// objectives, because their losses are then not comparable.
absl::StatusOr<std::string> HtmlComparison(std::span<const ReportedRun> runs);

}  // namespace weft
