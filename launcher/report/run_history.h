// RunHistory: what a log of JSON lines says of its run, from the first start to the last line, in bounded memory.
//
// A run that was resumed appends to its log and repeats the steps behind the checkpoint: the latest word on a step
// counts. Lines that were cut short, the last one or one that the next start stands behind, are passed over.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/report/series.h"
#include "weft/train/log/metrics.h"

namespace weft {

struct RunHistory {
  StartRecord start;             // the latest, as the end is
  std::vector<int64_t> resumed;  // the steps that the later starts went on after
  std::optional<StepRecord> last;
  std::optional<EvalRecord> last_eval, best_eval;
  // Of the latest start alone. With neither, the run failed, was killed or goes on.
  std::optional<EndRecord> end;
  std::optional<StopRecord> stop;
  std::optional<SaveRecord> saved;  // the latest checkpoint
  int64_t cut_lines = 0;
  double tokens = 0;        // trained on in the steps that count,
  double step_seconds = 0;  //   and the time these took
  double seconds = 0;       // of all that was run, repeated steps too
  std::optional<int64_t> peak_bytes;
  Series loss, grad_norm, lr, tokens_per_s, mfu, val_loss;
};

// Errors name the path and the line, what was expected and what is there.
absl::StatusOr<RunHistory> ReadRunHistory(const std::string& path);

}  // namespace weft
