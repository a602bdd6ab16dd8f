// Forward: a program that reads the State and changes nothing, run by any of the three executors.
//
//   Forward forward(RandomPhase::kEval, [&] { return EvalSums(model, options); }, executor, options, runtime);
//   forward.Bind(state);                                  // which has all entries that the program names
//   std::vector<Tensor> sums = forward.Run();
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "weft/core/base/rng.h"
#include "weft/core/compile/executable.h"
#include "weft/parallel/step/runner.h"

namespace weft {

class Forward {
 public:
  using Trace = std::function<std::vector<NamedValue>()>;  // emits the program where it is called
  // Traces and plans; allocates nothing. What `trace` refers to outlives this.
  Forward(RandomPhase phase, Trace trace, ExecutorKind executor, const StepOptions& options, const Runtime& runtime);

  const Plan* plan() const { return plan_ ? &*plan_ : nullptr; }  // of executor compiled, until Bind
  uint64_t Hash() const;                                          // of its collectives: the same on all ranks
  void Bind(State& state);                                        // which outlives this
  // Called by all ranks alike: the outputs, in the trace's order, whole and on the host.
  std::vector<Tensor> Run();

 private:
  std::vector<Tensor> RunEagerly();

  RandomPhase phase_;
  Trace trace_;
  ExecutorKind executor_;
  StepOptions options_;
  Runtime runtime_;
  std::vector<std::string> names_;
  LocalProgram program_;
  std::optional<Plan> plan_;
  State* state_ = nullptr;
  std::unique_ptr<Executable> executable_;
};

// A forward program that is bound to a state; all outlive it.
struct BoundForward {
  State& state;
  const StepOptions& options;
  Forward& forward;
};

}  // namespace weft
