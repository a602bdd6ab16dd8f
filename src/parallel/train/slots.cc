#include "parallel/train/slots.h"

namespace weft {
namespace {

std::span<int32_t> SpanOf(State& state, const char* name) {
  const Tensor& local = state.At(name).local;  // [local rows, C]
  return {local.as<int32_t>(), size_t(local.num_elements())};
}

}  // namespace

Slots::Slots(State& state, const Dataset& data, const StepOptions& options)
    : state_(state),
      data_(data),
      rows_(options.rows),
      offset_(state.View(entry::kTokens).dim(0).offset),
      mine_{SpanOf(state, entry::kTokens), SpanOf(state, entry::kTargets)} {}

void Slots::SetStep(int64_t step, double learning_rate) {
  state_.SetScalar(entry::kLr, learning_rate);
  state_.SetScalar(entry::kStep, double(step));
  state_.SetScalar(entry::kUpdates, double(step));
}

void Slots::FillTrain(int64_t step, int micro) {
  state_.SetScalar(entry::kFirstRow, double(micro * rows_));
  data_.FillTrain(step - 1, micro * rows_ + offset_, mine_);
}

void Slots::FillEval(int64_t first, int64_t end) { data_.FillEval(first + offset_, end, mine_); }

}  // namespace weft
