// Executable: a plan bound to memory. Run() replays its steps; after binding nothing is allocated.
#pragma once
#include <map>

#include "core/compile/plan.h"

namespace weft {

class Executable {
 public:
  // Binds leaves and written entries through `bind` once: their storage must outlive the executable and stay in place.
  // `arena` (at least plan.arena_bytes) may be shared by executables that never run at the same time; null: its own.
  Executable(Plan plan, const Runtime& runtime, const Binder& bind, BufferPtr arena = nullptr);

  // On a device that records, the third run on is one replay of a recording: the first two warm up libraries.
  void Run();
  // The storage of an output (chunk-shaped); valid until the next Run of anything that shares the arena.
  const Tensor& Output(const std::string& name) const;
  size_t arena_bytes() const { return plan_.arena_bytes; }
  size_t num_steps() const { return calls_.size(); }
  const Plan& plan() const { return plan_; }

 private:
  struct Call {
    void (*run)(const KernelCall&);
    std::vector<TensorView> in, out;
    KernelCall call;
  };
  struct BoundCopy {
    const void* from;
    void* to;
    size_t bytes;
  };
  void BindEntries(const Binder& bind);
  void BindCalls();
  void BindOutputs();
  void* Address(const Place& place) const;
  void Issue();

  Plan plan_;
  Runtime runtime_;
  BufferPtr arena_;
  std::map<std::string, Tensor> entries_, outputs_;
  std::vector<Call> calls_;
  std::vector<BoundCopy> copies_;
  int runs_ = 0;
  std::unique_ptr<DeviceRuntime::Recording> recording_;
};

}  // namespace weft
