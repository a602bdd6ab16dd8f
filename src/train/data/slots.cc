#include "weft/train/data/slots.h"

namespace weft {

Slots::Slots(State& state, const Dataset& data, const StepOptions& options)
    : state_(state),
      data_(data),
      rows_(options.rows),
      offset_(state.View(entry::kTokens).dim(0).offset),
      target_(state.At(entry::kTokens).local.buffer()) {
  if (target_->device().kind == DeviceKind::kCpu) {
    sets_.push_back(MakeSet(target_));
    return;
  }
  MemoryUse use("staging");
  for (int i = 0; i < SlotImages(options.micro_steps); i++)
    sets_.push_back(MakeSet(state.device().AllocateStaging(target_->bytes())));
}

Slots::Set Slots::MakeSet(BufferPtr host) const {
  Set set{std::move(host), {}};
  set.mine = {Ids(set, entry::kTokens), Ids(set, entry::kTargets)};
  return set;
}

void* Slots::At(const Set& set, const char* name) const {
  const Tensor& slot = state_.At(name).local;
  return static_cast<char*>(set.host->data()) + (static_cast<char*>(slot.data()) - static_cast<char*>(target_->data()));
}

std::span<int32_t> Slots::Ids(const Set& set, const char* name) const {
  return {static_cast<int32_t*>(At(set, name)), size_t(state_.At(name).local.num_elements())};  // [local rows, C]
}

void Slots::Write(const Set& set, const char* name, double value) const {
  switch (state_.At(name).local.dtype()) {
    case DType::kI64:
      *static_cast<int64_t*>(At(set, name)) = int64_t(value);
      break;
    case DType::kF64:
      *static_cast<double*>(At(set, name)) = value;
      break;
    default:
      *static_cast<float*>(At(set, name)) = float(value);
  }
}

void Slots::SetStep(int64_t step, double learning_rate) {
  step_ = double(step);
  learning_rate_ = learning_rate;
}

const Slots::Set& Slots::Next() {
  const Set& set = sets_[next_];
  next_ = (next_ + 1) % sets_.size();
  Write(set, entry::kLr, learning_rate_);
  Write(set, entry::kStep, step_);
  Write(set, entry::kUpdates, step_);
  return set;
}

void Slots::Commit(const Set& set) {
  if (set.host != target_) state_.device().Copy(target_->data(), set.host->data(), target_->bytes());
}

void Slots::FillTrain(int64_t step, int micro) {
  const Set& set = Next();
  Write(set, entry::kFirstRow, double(micro * rows_));
  if (position_.step < step - 1) position_ = data_.PositionAfter(step - 1, position_);
  data_.FillTrain(step - 1, micro * rows_ + offset_, set.mine, position_);
  Commit(set);
}

void Slots::FillEval(int64_t first, int64_t end) {
  const Set& set = Next();
  data_.FillEval(first + offset_, end, set.mine);
  Commit(set);
}

}  // namespace weft
