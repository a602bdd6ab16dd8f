// EvaluateModel: the validation loss of a trained model, the same number that its trainer has for this state.
//
//   LoadedModel model(config, options, EvaluationProgram(options), context, mesh, device);
//   EvalRecord record = EvaluateModel(model, data);
#pragma once
#include <functional>

#include "weft/train/data/data.h"
#include "weft/train/infer/loaded_model.h"
#include "weft/train/log/metrics.h"

namespace weft {

ForwardProgram EvaluationProgram(const StepOptions& options);
// The model is loaded and has this program. Called by all ranks alike, and the same on all. `progress` is told how far
// it is.
EvalRecord EvaluateModel(
    LoadedModel& model, const Dataset& data, int64_t step = 0,
    const std::function<void(const ProgressRecord&)>& progress = [](const ProgressRecord&) {});

}  // namespace weft
