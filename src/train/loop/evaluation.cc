#include "weft/train/loop/evaluation.h"

#include <algorithm>
#include <chrono>

namespace weft {

std::optional<EvalRecord> Evaluate(const Config& config, const Dataset& data, Slots& slots, int64_t rows,
                                   const std::function<std::optional<std::pair<double, double>>()>& eval,
                                   const std::function<void(const ProgressRecord&)>& progress) {
  auto seconds = [start = std::chrono::steady_clock::now()] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  int64_t windows = data.eval_windows();
  if (config.train.eval_batches != TrainConfig::kAllBatches)
    windows = std::min(windows, config.train.eval_batches * config.train.global_batch);
  double sum = 0, count = 0;
  for (int64_t w = 0; w < windows; w += rows) {
    slots.FillEval(w, windows);
    auto batch = eval();
    if (!batch) return std::nullopt;
    sum += batch->first;
    count += batch->second;
    progress({.done = std::min(w + rows, windows), .all = windows, .seconds = seconds()});
  }
  EvalRecord record{.val_loss = sum / count, .tokens = int64_t(count), .bytes = data.EvalBytes(windows)};
  record.ms = seconds() * 1e3;
  return record;
}

}  // namespace weft
