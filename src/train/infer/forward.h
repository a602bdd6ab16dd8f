// Forward: a program that reads the State and changes nothing. Any of the three executors can run it.
//
//   Forward forward(RandomPhase::kEval, [&] { return EvalSums(model, options); }, executor, options, runtime);
//   forward.Bind(state);                                  // must have all entries that the program names
//   std::vector<Tensor> sums = forward.Run();
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "weft/core/base/rng.h"
#include "weft/parallel/program/function.h"
#include "weft/parallel/step/training_step.h"

namespace weft {

class Forward {
 public:
  using Trace = std::function<std::vector<NamedValue>()>;  // emits the program into the current builder
  // Traces and, with executor compiled, plans. Allocates no tensors. Everything that `trace` refers to must outlive
  // this.
  Forward(RandomPhase phase, Trace trace, ExecutorKind executor, const StepOptions& options, const Runtime& runtime);

  // Returns the plan of executor compiled. Returns null for other executors, and after Bind.
  const Plan* plan() const { return how_.plan ? &*how_.plan : nullptr; }
  uint64_t Hash() const;    // of its collectives; must be equal on all ranks
  void Bind(State& state);  // `state` must outlive this
  // Returns the outputs, in the order of the trace, whole and on the host. All ranks must call it.
  std::vector<Tensor> Run();

 private:
  Program program_;
  FunctionOptions how_;  // with the plan of executor compiled, until Bind
  Runtime runtime_;
  std::unique_ptr<Function> function_;
};

// A Forward that is bound to a State. The objects that it refers to must outlive it.
struct BoundForward {
  State& state;
  const StepOptions& options;
  Forward& forward;
};

}  // namespace weft
