// Slots: writes the inputs of a micro-step into the State: this rank's rows of the data, and the step's scalars.
//
// On the CPU it writes directly to the memory that the step reads. For other devices it writes to staging memory, which
// holds the micro-steps of two steps, so that one step can run while the next is filled. Writing allocates nothing.
#pragma once
#include "weft/parallel/step/micro_step.h"
#include "weft/train/data/data.h"

namespace weft {

class Slots {
 public:
  // Requires a state with its entries (AddEntries). The state and the data must outlive the slots.
  Slots(State& state, const Dataset& data, const StepOptions& options);

  // Sets the position at which the run began in the data. The default is the beginning.
  void StartAt(const DataPosition& position) { position_ = position; }
  // Sets the scalars for the fills that follow. Steps count from 1.
  void SetStep(int64_t step, double learning_rate);
  void FillTrain(int64_t step, int micro);
  // Fills the micro-batch whose first window, over all ranks, is `first`. Windows from `end` on are ignored.
  void FillEval(int64_t first, int64_t end);

 private:
  // A host copy of the slots.
  struct Set {
    BufferPtr host;
    BatchSpan mine;
  };
  Set MakeSet(BufferPtr host) const;
  void* At(const Set& set, const char* name) const;
  std::span<int32_t> Ids(const Set& set, const char* name) const;
  void Write(const Set& set, const char* name, double value) const;
  const Set& Next();
  void Commit(const Set& set);

  State& state_;
  const Dataset& data_;
  int64_t rows_;      // of a micro-step, over all ranks
  int64_t offset_;    // of this rank's rows within them
  BufferPtr target_;  // the memory of the slots
  std::vector<Set> sets_;
  size_t next_ = 0;
  DataPosition position_;  // of the step being filled
  double step_ = 0, learning_rate_ = 0;
};

}  // namespace weft
