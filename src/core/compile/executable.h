// Executable: a plan bound to memory. Run() replays its steps; after binding nothing is allocated. On a device with
// streams collectives go on beside the steps that do not need what they bring.
#pragma once
#include <map>
#include <span>

#include "weft/core/compile/overlap.h"
#include "weft/core/compile/plan.h"
#include "weft/core/runtime/timeline.h"

namespace weft {

class Executable {
 public:
  // Binds leaves and written entries through `bind` once: their storage must outlive the executable and stay in place.
  // `arena` (at least plan.arena_bytes) may be shared by executables that never run at the same time; null: its own.
  Executable(Plan plan, const Runtime& runtime, const Binder& bind, BufferPtr arena = nullptr);

  // On a device that records, the third run on is one replay of a recording: the first two warm up libraries.
  void Run();
  // The same results, call by call and never from a recording. Marks num_points() points in `timeline`: where each
  // batch begins and where it ends and, if there are copies, the same for all of them together.
  void Run(Timeline& timeline);
  size_t num_points() const { return 2 * (batches_.size() + (copies_.empty() ? 0 : 1)); }
  // The storage of an output (chunk-shaped); valid until the next Run of anything that shares the arena.
  const Tensor& Output(const std::string& name) const;
  size_t arena_bytes() const { return plan_.arena_bytes; }
  size_t num_steps() const { return calls_.size(); }
  size_t num_batches() const { return batches_.size(); }
  const Plan& plan() const { return plan_; }

  // Calls that are issued together, in the order of the plan's steps; copies follow.
  struct Batch {
    const KernelRow* row;
    size_t first, count;
  };
  std::span<const Batch> batches() const { return batches_; }
  std::span<const KernelCall> calls() const { return calls_; }  // of the plan's steps, one each

 private:
  struct Operands {
    std::vector<TensorView> in, out;
  };
  struct BoundCopy {
    const void* from;
    void* to;
    size_t bytes;
  };
  void BindEntries(const Binder& bind);
  void BindCalls();
  void BindBatches();
  void BindOverlap();
  void BindOutputs();
  void* Address(const Place& place) const;
  void IssueBatch(const Batch& batch);
  void Issue(Timeline* timeline = nullptr);

  Plan plan_;
  Runtime runtime_;
  BufferPtr arena_;
  std::map<std::string, Tensor> entries_, outputs_;
  std::vector<Operands> operands_;  // what calls_ point to, in the same order
  std::vector<KernelCall> calls_;
  std::vector<Batch> batches_;
  std::unique_ptr<Overlap> overlap_;  // of the batches; null: they are issued to one stream
  std::vector<BoundCopy> copies_;
  int runs_ = 0;
  std::unique_ptr<DeviceRuntime::Recording> recording_;
};

}  // namespace weft
