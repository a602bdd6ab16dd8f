// Comparison: several runs on one page, their curves over each other, and the keys in which their configs differ.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/report/run_history.h"

namespace weft {

struct ReportedRun {
  std::string name, log;  // as people know it; the path
  RunHistory history;
  std::string config;  // YAML
};

// A key whose values are not the same in all configs.
struct DifferentKey {
  std::string key;                  // "optimizer.lr"
  std::vector<std::string> values;  // of each config; "(not set)" where the key is missing
};
// In the order in which keys first appear. An error names the log whose config cannot be read.
absl::StatusOr<std::vector<DifferentKey>> DifferentKeys(std::span<const ReportedRun> runs);

// At least two runs, and at most kCurveColors. kInvalidArgument: a config cannot be read, or losses mean different
// things because the objectives differ.
absl::StatusOr<std::string> HtmlComparison(std::span<const ReportedRun> runs);

}  // namespace weft
