// Executable: a plan bound to memory. Run() replays its steps. Nothing is allocated after binding. If
// runtime.Overlaps(), collectives run at the same time as the steps that do not need their results.
#pragma once
#include <map>
#include <optional>
#include <span>

#include "weft/core/compile/overlap/overlap.h"
#include "weft/core/compile/plan.h"
#include "weft/core/compile/planned_calls.h"
#include "weft/core/runtime/timeline.h"

namespace weft {

class Executable {
 public:
  // Binds leaves and written entries through `bind` once. Their storage must outlive the executable and stay in place.
  // `arena` needs at least plan.arena_bytes. Executables that never run at the same time may share one. With null the
  // executable allocates its own.
  Executable(Plan plan, const Runtime& runtime, const Binder& bind, BufferPtr arena = nullptr);

  // Runs the program. On a device that records, the first two runs warm up libraries, and each later run is one replay
  // of a recording.
  void Run();
  // Gives the same results, call by call and never from a recording. Marks num_points() points in `timeline`: the begin
  // and the end of each batch, and of all copies together if there are any.
  void Run(Timeline& timeline);
  size_t num_points() const { return 2 * (batches().size() + (copies_.empty() ? 0 : 1)); }
  // Returns the storage of an output (chunk-shaped). It is valid until the next Run of an executable that shares the
  // arena. Throws Error if there is no such output.
  const Tensor& Output(const std::string& name) const;
  size_t arena_bytes() const { return plan_.arena_bytes; }
  size_t num_steps() const { return calls().size(); }
  const Plan& plan() const { return plan_; }

  // Calls that are issued together. Batches are in the order of the plan's steps, and the copies come after them.
  using Batch = PlannedCalls::Batch;
  std::span<const Batch> batches() const { return planned_->batches(); }
  std::span<const KernelCall> calls() const { return planned_->calls(); }  // one per step of the plan

 private:
  struct BoundCopy {
    const void* from;
    void* to;
    size_t bytes;
  };
  void BindEntries(const Binder& bind);
  void BindCalls();
  void BindOverlap();
  void BindOutputs();
  void* Address(const Place& place) const;
  void IssueBatch(const Batch& batch);
  void IssueBatches(Timeline* timeline);
  void TimeThreads(Timeline& timeline);
  void Issue(Timeline* timeline = nullptr);

  Plan plan_;
  Runtime runtime_;
  BufferPtr arena_;
  std::map<std::string, Tensor> entries_, outputs_;
  std::unique_ptr<PlannedCalls> planned_;
  std::unique_ptr<Overlap> overlap_;  // of the batches; null: all are issued to one stream
  std::vector<BoundCopy> copies_;
  int runs_ = 0;
  std::unique_ptr<DeviceRuntime::Recording> recording_;
};

}  // namespace weft
