// PlannedCalls: the kernel calls of a plan at given addresses, and how they are issued: which of them together, and
// which on lanes of their own.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "weft/core/compile/overlap/overlap.h"
#include "weft/core/compile/plan.h"

namespace weft {

class PlannedCalls {
 public:
  // Calls that are issued together. Batches are in the order of the plan's steps.
  struct Batch {
    const KernelRow* row;
    size_t first, count;
    std::optional<int64_t> axis;  // of the mesh, over which the calls move bytes; none: they are no collectives
  };

  // address(place) returns where the bytes of a place are, or null for Place::kNone. Operands of a call point to nodes
  // of the plan.
  PlannedCalls(const Plan& plan, const Runtime& runtime, absl::FunctionRef<void*(const Place&)> address);
  PlannedCalls(const PlannedCalls&) = delete;
  PlannedCalls& operator=(const PlannedCalls&) = delete;

  std::span<const KernelCall> calls() const { return calls_; }  // one per step of the plan
  std::span<const KernelCall> CallsOf(const Batch& batch) const { return calls().subspan(batch.first, batch.count); }
  std::span<const Batch> batches() const { return batches_; }
  bool has_collectives() const { return lanes_ > 0; }
  // Returns the lanes and waits of the batches, if collectives run while kernels do. Each mesh axis has a lane, in the
  // order in which the axes first occur.
  OverlapPlan Overlap() const;

 private:
  void MakeBatches(const Plan& plan, const Runtime& runtime);
  bool Joins(const Plan& plan, const KernelRow& row, size_t step) const;

  struct Operands {
    std::vector<TensorView> in, out;
  };
  std::vector<Operands> operands_;  // the views that calls_ point to, in the same order
  std::vector<KernelCall> calls_;
  std::vector<Batch> batches_;
  std::vector<int> lane_of_;  // per batch; OverlapPlan::kMain: none
  int lanes_ = 0;
};

// Returns addresses for a plan that is not bound to memory: places overlap as they would in a run.
class PretendedAddresses {
 public:
  explicit PretendedAddresses(const Plan& plan);
  void* At(const Place& place) const;

 private:
  std::map<std::string, uintptr_t> entries_;
};

}  // namespace weft
