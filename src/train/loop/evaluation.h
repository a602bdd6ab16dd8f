// Evaluation: the loss over the validation data. Training and the evaluation of a saved state both use it.
#pragma once
#include <functional>
#include <optional>
#include <utility>

#include "weft/train/data/data.h"
#include "weft/train/data/slots.h"
#include "weft/train/log/metrics.h"

namespace weft {

// Writes each micro-batch of `rows` windows to the slots and calls `eval` on it. `eval` returns {sum of the losses,
// number of targets} over all ranks, or nullopt to stop. `progress` is called after each micro-batch. The records lack
// their step, which the caller sets. Returns nullopt if `eval` stopped it.
std::optional<EvalRecord> Evaluate(const Config& config, const Dataset& data, Slots& slots, int64_t rows,
                                   const std::function<std::optional<std::pair<double, double>>()>& eval,
                                   const std::function<void(const ProgressRecord&)>& progress);

}  // namespace weft
