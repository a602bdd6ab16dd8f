// StepTime: how long a plan would take, from the times of its parts.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/core/predict/rates.h"

namespace weft {

// How long one kernel waits for collectives in all blocks together.
struct Wait {
  std::string kernel, collective;  // as BatchWork::place
  double ms = 0;
  int64_t times = 0;
};

// How long the kernels of one place take in all blocks together.
struct KernelTime {
  std::string kernel;  // as BatchWork::place
  double ms = 0;
  int64_t times = 0;
};

// Milliseconds. All of a step on one rank, if the ranks take the same time.
struct StepTime {
  double total = 0;
  double products = 0, attention = 0, memory = 0;  // kernels, by class of work; they never run at the same time
  double collectives = 0;                          // that collectives take, on all lanes together
  double exposed = 0;                              // that no kernel runs, since all wait for collectives
  double lost = 0;                                 // that kernels take longer while collectives run
  std::vector<Wait> waits;                         // for collectives on lanes, of a microsecond or more
  std::vector<KernelTime> kernels;                 // all kernels and copies, without collectives

  StepTime& operator+=(const StepTime& other);
  StepTime operator*(int64_t times) const;
};

// The parts of a plan: the work of its batches in order, and of the copies at its end.
struct PlanWork {
  std::vector<BatchWork> batches, copies;
  OverlapPlan overlap;  // of the batches; one main stream and no lanes if the runtime does not overlap
};
// Returns the parts of a plan as an Executable runs them, with collectives in a kind of memory (batch_work.h). Needs no
// device and no memory.
PlanWork WorkOf(const Plan& plan, const Runtime& runtime, const std::string& memory = "");

// Returns the time of a run whose batch i takes ms[i], if its batches start as in `overlap` (TimesOf in overlap.h).
StepTime Simulate(const OverlapPlan& overlap, std::span<const BatchWork> batches, std::span<const double> ms);

// Returns the time of a run of the plan. While a collective is hidden, kernels lose a part of its time
// (Rates::lost_share). Returns an error as Rates::MillisecondsOf does.
absl::StatusOr<StepTime> TimeOf(const PlanWork& plan, const Rates& rates);

}  // namespace weft
