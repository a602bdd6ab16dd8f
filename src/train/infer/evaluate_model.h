// EvaluateModel: computes the validation loss of a trained model. The trainer gets the same number for this state.
//
//   LoadedModel model(config, options, EvaluationProgram(options), context, mesh, device);
//   absl::Status status = model.Load(source);
//   EvalRecord record = EvaluateModel(model, data);
#pragma once
#include <functional>

#include "weft/train/data/data.h"
#include "weft/train/infer/loaded_model.h"
#include "weft/train/log/metrics.h"

namespace weft {

ForwardProgram EvaluationProgram(const StepOptions& options);
// Requires a loaded model with EvaluationProgram. All ranks must call it; all get the same result. `progress` is called
// after each micro-batch.
EvalRecord EvaluateModel(
    LoadedModel& model, const Dataset& data, int64_t step = 0,
    const std::function<void(const ProgressRecord&)>& progress = [](const ProgressRecord&) {});

}  // namespace weft
