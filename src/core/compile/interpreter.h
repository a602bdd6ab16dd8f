// Interpret: runs a local program node by node, with each value in its own buffer. It is slow and simple, and it can
// trap NaNs and print values.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "weft/core/compile/runtime.h"
#include "weft/core/ir/local_program.h"

namespace weft {

struct InterpretOptions {
  bool trap_nan = false;  // throws Error at the first op that returns a NaN
  bool poison = false;    // results and scratch start as NaN (integers as -1), so elements that a kernel skips show
  bool print = false;     // one line per node to stderr, with the range of its first output
};

// Runs the program once. Returns the outputs by name (chunk-shaped). Writes are stored into the bound tensors.
std::map<std::string, Tensor> Interpret(const LocalProgram& program, const Runtime& runtime, const Binder& bind,
                                        const InterpretOptions& options = {});

// The values of a program, numbered, and when each is last read. All ranks of a program may share it.
struct InterpretPlan {
  explicit InterpretPlan(const LocalProgram& program);  // the program must outlive the plan

  struct Step {
    const Node* node;
    int result;                              // number of its first result; the others follow
    absl::InlinedVector<int, 4> operands;    // numbers of its operands
    absl::InlinedVector<int, 4> released{};  // values that no later step reads
  };
  const LocalProgram& program;
  std::vector<Step> steps;  // one per node, in order
  std::vector<int> outputs, writes;
  int num_values = 0;
};

// Runs planned programs on one rank, for callers that run the steps of several ranks in turn.
class Interpreter {
 public:
  // The runtime must outlive it.
  Interpreter(const Runtime& runtime, Binder bind, const InterpretOptions& options);

  void Begin(const InterpretPlan& plan);  // drops the values of the program before it
  // The steps come in order. A step may run again before the next one does.
  void Run(const InterpretPlan::Step& step);
  void Release(const InterpretPlan::Step& step);  // the values that only this step and those before it read
  const Tensor& Output(size_t i) const { return values_[size_t(plan_->outputs[i])].tensor; }
  // Returns copies of the outputs and stores the writes, after the last step.
  std::map<std::string, Tensor> Finish();

 private:
  struct Value {
    Tensor tensor;
    TensorView view;
  };
  void RunKernel(const InterpretPlan::Step& step);
  void RunRow(Op op, KernelCall call) const;
  bool MayHoldNan(const ValueInfo& info, const Tensor& result) const;
  void Inspect(const InterpretPlan::Step& step) const;
  void Poison(void* data, size_t bytes) const;
  Value& At(int number) { return values_[size_t(number)]; }
  const Value& At(int number) const { return values_[size_t(number)]; }

  const Runtime& runtime_;
  Binder bind_;
  InterpretOptions options_;
  const InterpretPlan* plan_ = nullptr;
  std::vector<Value> values_;
};

}  // namespace weft
