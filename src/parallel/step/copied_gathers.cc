#include "weft/parallel/step/copied_gathers.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/core/base/hash.h"
#include "weft/dist/group/nccl/nccl_windows.h"
#include "weft/parallel/nn/plans/mesh_axes.h"

namespace weft {
namespace {

// Below this, kernels move a bucket faster than copy engines do (pytorch pull request 182850).
constexpr size_t kLeastCopied = size_t(16) << 20;

bool Gathers(const Step& step, int axis) {
  return step.node->op == Op::kAllGather && step.node->attrs.Int("axis") == axis;
}

size_t OutputBytes(const Step& step) {
  return size_t(step.out[0].view.CapacityElements()) * SizeOf(step.out[0].view.dtype);
}

// Returns the bytes of the largest bucket of gathers. Neighbours are one bucket (core/passes/schedule.h).
size_t LargestBucket(const Plan& plan, int axis) {
  size_t most = 0, bucket = 0;
  for (const Step& step : plan.steps) {
    bucket = Gathers(step, axis) ? bucket + OutputBytes(step) : 0;
    most = std::max(most, bucket);
  }
  return most;
}

std::vector<const Plan*> All(const StepPlans& plans) {
  std::vector<const Plan*> all{&plans.step, &plans.eval};
  if (plans.accumulate) all.push_back(&*plans.accumulate);
  return all;
}

// A hash of where gathers read and write.
uint64_t LayoutOf(const StepPlans& plans) {
  StableHash hash;
  for (const Plan* plan : All(plans)) {
    hash.Mix(plan->arena_bytes);
    for (size_t i = 0; i < plan->steps.size(); i++) {
      const Step& step = plan->steps[i];
      if (step.node->op != Op::kAllGather) continue;
      hash.Mix(i);
      hash.Mix(step.workspace_offset);
      for (const auto* views : {&step.in, &step.out}) {
        const Place& place = (*views)[0].place;
        hash.Mix(uint64_t(place.kind));
        hash.Mix(place.offset);
      }
    }
  }
  return hash.value();
}

absl::StatusOr<BufferPtr> ForCopies(const StepOptions& options, const StepPlans& plans, const Runtime& runtime,
                                    const std::vector<int>& axes) {
  auto& mesh = static_cast<DeviceMesh&>(*runtime.mesh);  // every CollectiveContext is one
  return AllocateWindows(mesh, {.axes = axes,
                                .bytes = plans.Largest().arena_bytes,
                                .least = options.gather == GatherMode::kCopy ? 0 : kLeastCopied,
                                .layout = LayoutOf(plans)});
}

}  // namespace

std::vector<int> CopiedAxes(const StepOptions& options, const StepPlans* plans, DeviceKind device) {
  std::vector<int> axes;
  if (!plans || device == DeviceKind::kCpu || options.gather == GatherMode::kKernels ||
      options.model.fsdp != Fsdp::kFull)
    return axes;
  size_t least = options.gather == GatherMode::kCopy ? 1 : kLeastCopied;
  for (int axis = 0; axis < options.model.mesh.num_axes(); axis++) {
    if (!HasRole(options.model.mesh, axis, &MeshAxis::shards_parameters)) continue;
    size_t most = 0;
    for (const Plan* plan : All(*plans)) most = std::max(most, LargestBucket(*plan, axis));
    if (most >= least) axes.push_back(axis);
  }
  return axes;
}

absl::Status CheckGather(const StepOptions& options, const StepPlans* plans, DeviceKind device) {
  if (options.gather != GatherMode::kCopy || !CopiedAxes(options, plans, device).empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("expected weights that fsdp full gathers over several GPUs, as copy asks for, got {}; give auto or "
                  "kernels",
                  device == DeviceKind::kCpu ? "device cpu" : "a step without such gathers"));
}

StepArena AllocateArena(const TrainingStep& step, const StepPlans& plans, const Runtime& runtime) {
  MemoryUse use("activations");
  const StepOptions& options = step.options();
  std::vector<int> axes = CopiedAxes(options, &plans, runtime.device);
  StepArena arena;
  if (absl::Status s = CheckGather(options, &plans, runtime.device); !s.ok())
    Fail("parallel.gather: " + std::string(s.message()));
  if (!axes.empty() && runtime.mesh) {
    absl::StatusOr<BufferPtr> memory = ForCopies(options, plans, runtime, axes);
    if (memory.ok()) return {*memory, ""};
    std::string why(memory.status().message());
    if (options.gather == GatherMode::kCopy)
      Fail(
          fmt::format("parallel.gather: expected gathers by copy engines, as copy asks for, got: {}; give auto or "
                      "kernels",
                      why));
    arena.note = fmt::format("weights are gathered by NCCL's kernels and not by copy engines: {}", why);
  }
  arena.memory = runtime.memory().Allocate(plans.Largest().arena_bytes);
  return arena;
}

}  // namespace weft
