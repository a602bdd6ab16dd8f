// Evaluation: the loss over the validation data, the same for a trainer and for a state that was saved.
#pragma once
#include <functional>
#include <optional>
#include <utility>

#include "weft/train/data/data.h"
#include "weft/train/data/slots.h"
#include "weft/train/log/metrics.h"

namespace weft {

// Calls `eval` on every micro-batch of `rows` windows, in the slots by then: {sum of the losses, number of targets},
// over all ranks; nothing: stop. `progress` is told after each of them. The records lack
// their step; nothing where it was stopped.
std::optional<EvalRecord> Evaluate(const Config& config, const Dataset& data, Slots& slots, int64_t rows,
                                   const std::function<std::optional<std::pair<double, double>>()>& eval,
                                   const std::function<void(const ProgressRecord&)>& progress);

}  // namespace weft
