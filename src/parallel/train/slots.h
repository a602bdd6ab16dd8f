// Slots: what the host writes into the State before a micro-step: this rank's rows of the data, and the step's scalars.
// Tokens go straight to where the step reads them; writing allocates nothing.
#pragma once
#include "parallel/train/data.h"
#include "parallel/train/program.h"

namespace weft {

class Slots {
 public:
  // The state has its entries (AddEntries); state and data outlive the slots.
  Slots(State& state, const Dataset& data, const StepOptions& options);

  // Steps count from 1.
  void SetStep(int64_t step, double learning_rate);
  void FillTrain(int64_t step, int micro);
  // The micro-batch whose first window, over all ranks, is `first`. Windows from `end` on are ignored.
  void FillEval(int64_t first, int64_t end);

 private:
  State& state_;
  const Dataset& data_;
  int64_t rows_;    // of a micro-step, over all ranks
  int64_t offset_;  // of this rank's rows in them
  BatchSpan mine_;
};

}  // namespace weft
