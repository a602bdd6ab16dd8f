#include "weft/train/infer/evaluate_model.h"

#include "weft/train/loop/evaluation.h"

namespace weft {

ForwardProgram EvaluationProgram(const StepOptions& options) {
  return {RandomPhase::kEval, EvalSums, SlotEntries(options)};
}

EvalRecord EvaluateModel(LoadedModel& model, const Dataset& data, int64_t step,
                         const std::function<void(const ProgressRecord&)>& progress) {
  Slots slots(model.state(), data, model.options());
  auto run = [&] {
    std::vector<Tensor> sums = model.Run();
    return std::optional(std::pair(sums[0].Item(), sums[1].Item()));
  };
  EvalRecord record = *Evaluate(model.config(), data, slots, model.options().rows, run, progress);
  record.step = step;
  return record;
}

}  // namespace weft
