#include "weft/parallel/step/copied_gathers.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/core/base/hash.h"
#include "weft/dist/group/nccl/nccl_windows.h"

namespace weft {
namespace {

// Whether the step gathers weights or activations. Only the arena is mapped into other ranks, and with fsdp gradients
// weights are gathered into entries. Token ids are too few to count.
bool Gathers(const Step& step, int axis) {
  return step.node->op == Op::kAllGather && step.node->attrs.Int("axis") == axis &&
         step.out[0].place.kind == Place::kArena && IsFloating(step.node->outputs[0].dtype);
}

bool Gathers(const Plan& plan, int axis) {
  return std::any_of(plan.steps.begin(), plan.steps.end(), [axis](const Step& step) { return Gathers(step, axis); });
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

absl::StatusOr<BufferPtr> ForCopies(const StepPlans& plans, const Runtime& runtime, const std::vector<int>& axes) {
  auto& mesh = static_cast<DeviceMesh&>(*runtime.mesh);  // every CollectiveContext is one
  return AllocateWindows(mesh, {.axes = axes, .bytes = plans.Largest().arena_bytes, .layout = LayoutOf(plans)});
}

}  // namespace

std::vector<int> CopiedAxes(const StepOptions& options, const StepPlans* plans, DeviceKind device) {
  std::vector<int> axes;
  if (!plans || device == DeviceKind::kCpu || options.gather != GatherMode::kCopy) return axes;
  for (int axis = 0; axis < options.model.mesh.num_axes(); axis++) {
    if (options.model.mesh.sizes[size_t(axis)] == 1) continue;
    std::vector<const Plan*> all = All(*plans);
    if (std::any_of(all.begin(), all.end(), [axis](const Plan* plan) { return Gathers(*plan, axis); }))
      axes.push_back(axis);
  }
  return axes;
}

absl::Status CheckGather(const StepOptions& options, const StepPlans* plans, DeviceKind device) {
  if (options.gather != GatherMode::kCopy || !CopiedAxes(options, plans, device).empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("expected gathers over several GPUs, as copy asks for, of weights by fsdp full or of activations by "
                  "sequence_parallel, got {}; give kernels",
                  device == DeviceKind::kCpu ? "device cpu" : "a step without such gathers"));
}

BufferPtr AllocateArena(const TrainingStep& step, const StepPlans& plans, const Runtime& runtime) {
  MemoryUse use("activations");
  const StepOptions& options = step.options();
  if (absl::Status s = CheckGather(options, &plans, runtime.device); !s.ok())
    Fail("parallel.gather: " + std::string(s.message()));
  std::vector<int> axes = CopiedAxes(options, &plans, runtime.device);
  if (axes.empty() || !runtime.mesh) return runtime.memory().Allocate(plans.Largest().arena_bytes);
  absl::StatusOr<BufferPtr> memory = ForCopies(plans, runtime, axes);
  if (memory.ok()) return *memory;
  Fail(fmt::format("parallel.gather: expected gathers by copy engines, as copy asks for, got: {}; give kernels",
                   std::string(memory.status().message())));
}

}  // namespace weft
