// Function: a Program bound to a State. One of three executors runs it; all give the same results.
//
//   std::unique_ptr<Function> step = MakeFunction(program, state, runtime);
//   step->Run();
//   double loss = step->results()[0].storage.Item();
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/core/compile/executable.h"
#include "weft/parallel/program/executor_kind.h"
#include "weft/parallel/program/program.h"

namespace weft {

struct FunctionOptions {
  ExecutorKind executor = ExecutorKind::kCompiled;
  // kCompiled: the plan of the program, if it was made already.
  std::optional<Plan> plan{};
  // kCompiled: memory shared with functions that never run at the same time. Null: the function allocates its own.
  BufferPtr arena{};
  // kInterpret: called before each run; returns whether a NaN is an error. Empty: a NaN is an error.
  std::function<bool()> traps_nan{};
  bool prints = false;  // kInterpret: one line per node, to stderr
};

class Function {
 public:
  // A result of the last run: this rank's chunk, padded to the capacity of its placement.
  struct Result {
    std::string name;
    Tensor storage;  // kCompiled: valid until the next run of anything that shares the arena
    Shape shape;     // global
    Sharding sharding;
  };

  virtual ~Function() = default;
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;

  // All ranks must call it. `arguments` are this rank's padded chunks, on the State's device.
  virtual void Run(std::span<const Tensor> arguments = {}) = 0;
  std::span<const Result> results() const { return results_; }
  // Returns the executable of kCompiled, and null for other executors.
  virtual Executable* executable() { return nullptr; }

 protected:
  Function() = default;
  std::vector<Result> results_;
};

// Program and State must outlive the function. The State must have every entry that the program names.
std::unique_ptr<Function> MakeFunction(const Program& program, State& state, const Runtime& runtime,
                                       FunctionOptions options = {});

}  // namespace weft
