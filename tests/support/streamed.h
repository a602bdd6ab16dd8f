// Ranks whose collectives overlap with kernels, for laws about compiled programs that do not run.
#pragma once
#include <algorithm>

#include "support/training.h"
#include "weft/core/compile/planned_calls.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/mesh.h"
#include "weft/dist/group/plan_group.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/kernels/cuda/plan/planned_rows.h"

namespace weft::testing_ {

// A device with the CPU's kernels whose collectives overlap with kernels. With `planned` it has the kernels of a GPU,
// which cannot run.
class Streamed {
 public:
  explicit Streamed(const Layout& layout, int rank = 0, bool planned = false)
      : context_(rank, MeshOf(layout).num_ranks()),
        mesh_(context_, groups_, MeshOf(layout), {DeviceKind::kCpu, DeviceKind::kCuda}) {
    context_.set_numerics(
        {.combine = layout.combine, .activation_grads = layout.activation_grads, .logit_bytes = layout.logit_bytes});
    for (DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kCuda}) {
      if (planned && kind == DeviceKind::kCuda)
        cuda::AddPlannedRows(context_.kernels(kind));
      else
        RegisterCpuKernels(context_.kernels(kind));
      RegisterCollectives(context_.kernels(kind), kind);
    }
  }
  Runtime runtime(DeviceKind kind, OverlapMode overlap = OverlapMode::kAuto) {
    mesh_.set_overlap(overlap);
    return RuntimeOf(context_, mesh_, kind);
  }

 private:
  Context context_;
  PlanGroupFactory groups_;
  DeviceMesh mesh_;
};

// Returns how many groups of several collectives a plan has.
inline int GroupsIn(const Plan& plan, const Runtime& runtime) {
  PretendedAddresses addresses(plan);
  PlannedCalls calls(plan, runtime, [&](const Place& place) { return addresses.At(place); });
  return int(std::count_if(calls.batches().begin(), calls.batches().end(),
                           [](const PlannedCalls::Batch& batch) { return batch.axis && batch.count > 1; }));
}

}  // namespace weft::testing_
