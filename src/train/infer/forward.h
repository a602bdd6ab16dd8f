// Forward: programs over one State, of which one runs at a time. A program reads the State and changes nothing but its
// own caches. Any of the three executors can run it.
//
//   Forward forward({{RandomPhase::kEval, EvalSums, SlotEntries(options)}}, model, executor, options, runtime);
//   AddEntries(state, forward.Entries());                 // and the parameters of the model
//   forward.Bind(state);
//   std::vector<Tensor> sums = forward.Run();
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "weft/core/base/rng.h"
#include "weft/parallel/program/function.h"
#include "weft/parallel/step/memory_need.h"
#include "weft/parallel/step/training_step.h"

namespace weft {

struct ForwardProgram {
  RandomPhase phase;
  std::function<std::vector<NamedValue>(Model& model, const StepOptions& options)> trace;
  std::vector<EntryInfo> slots;  // entries that the host writes before a run; programs may share some
  int64_t tokens = 0;            // per row, of a program that is one of several sizes; 0: there is one size
  const char* part = "";         // of a program that does another part of the phase's work
};

class Forward {
 public:
  // Traces and, with executor compiled, plans. Allocates no tensors. Model and options must outlive this.
  Forward(std::vector<ForwardProgram> programs, Model& model, ExecutorKind executor, const StepOptions& options,
          const Runtime& runtime);

  // Returns the slots, and the caches that the programs use (KvCache).
  std::vector<EntryInfo> Entries() const;
  // Returns the need of these entries and of the arena that the programs share. Call it before Bind.
  MemoryNeed Need() const;
  // Returns a hash of the collectives, their order and their groups, which must be equal on all ranks. Call it before
  // Bind.
  uint64_t Hash() const;
  // Throws Error on all ranks unless all have the same hash. Collective. Call it before Bind.
  void CheckSameOnRanks(ProcessGroup& world) const;
  void Bind(State& state);  // `state` must outlive this, and have all entries that the programs name
  // Runs a program, and returns its outputs in the order of the trace, whole and on the host. They are valid until the
  // next run of the program. Outputs below `first` are not copied to the host. All ranks must call it.
  const std::vector<Tensor>& Run(size_t program = 0, size_t first = 0);

  const std::vector<ForwardProgram>& programs() const { return programs_; }
  const Program& traced(size_t program = 0) const { return *traced_[program]; }
  // The texts whose keys and values are in the caches, one per row, and their sources, with the token that begins the
  // target. NextToken keeps them.
  std::vector<std::vector<int32_t>>& cached() { return cached_; }
  std::vector<std::vector<int32_t>>& sources() { return sources_; }
  // Must be called when the parameters have changed.
  void ClearCaches() { cached_.clear(), sources_.clear(); }

 private:
  const Plan* LargestPlan() const;  // null unless the executor is compiled

  std::vector<ForwardProgram> programs_;
  Runtime runtime_;
  MeshShape mesh_;
  FunctionOptions how_;
  std::vector<std::unique_ptr<Program>> traced_;
  std::vector<Plan> plans_;  // of executor compiled, until Bind
  std::vector<std::unique_ptr<Function>> functions_;
  std::vector<std::vector<Tensor>> results_;  // per program, on the host
  std::vector<std::vector<int32_t>> cached_, sources_;
};

// A Forward that is bound to a State. The objects that it refers to must outlive it.
struct BoundForward {
  State& state;
  const StepOptions& options;
  Forward& forward;
};

}  // namespace weft
