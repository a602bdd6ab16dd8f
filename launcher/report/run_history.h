// RunHistory: the contents of a log of JSON lines, from the first start to the last line, in bounded memory.
//
// A resumed run appends to its log and repeats the steps after the checkpoint. The latest record of a step counts. The
// last line, and a line directly before a start, may be truncated; such lines are skipped.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/report/series.h"
#include "weft/train/log/metrics.h"

namespace weft {

struct RunHistory {
  StartRecord start;             // the latest
  std::vector<int64_t> resumed;  // the step after which each later start continued
  std::optional<StepRecord> last;
  std::optional<EvalRecord> last_eval, best_eval;
  // Only of the latest start. If end and stop are empty, the run failed, was killed or is still running.
  std::optional<EndRecord> end;
  std::optional<StopRecord> stop;
  std::optional<StartupRecord> startup;  // none: no step is finished, or the log is of a version without this event
  std::optional<SaveRecord> saved;       // the latest checkpoint
  int64_t cut_lines = 0;
  double tokens = 0;        // trained on in the steps that count
  double step_seconds = 0;  // the time of the steps that count
  double seconds = 0;       // the time of the whole run, including repeated steps
  std::optional<int64_t> peak_bytes;
  Series loss, grad_norm, lr, tokens_per_s, mfu, val_loss;
};

// Errors name the path and the line, what was expected and what was found.
absl::StatusOr<RunHistory> ReadRunHistory(const std::string& path);

}  // namespace weft
