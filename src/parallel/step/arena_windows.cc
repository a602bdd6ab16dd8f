#include "weft/parallel/step/arena_windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/core/base/hash.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/ir/wire.h"

namespace weft {
namespace {

// Whether the step gathers weights or activations. Only the arena is mapped into other ranks, and with fsdp gradients
// weights are gathered into entries. Token ids are too few to count.
bool Gathers(const Step& step, int axis) {
  return step.node->op == Op::kAllGather && step.node->attrs.Int("axis") == axis &&
         step.out[0].place.kind == Place::kArena && IsFloating(step.node->outputs[0].dtype);
}

std::vector<const Plan*> All(const StepPlans& plans) {
  std::vector<const Plan*> all{&plans.step, &plans.eval};
  if (plans.accumulate) all.push_back(&*plans.accumulate);
  return all;
}

// Whether the step exchanges the terms of a sum, from its workspace or its input, which is in the arena, into its
// workspace.
bool Exchanges(const Step& step, int axis) { return WireOf(step.node->attrs) && step.node->attrs.Int("axis") == axis; }

bool Moves(const Step& step, int axis) { return Gathers(step, axis) || Exchanges(step, axis); }

// Whether a symmetric kernel makes the step's collective over this axis. Scalars are not worth a window.
bool IsSymmetric(const Step& step, int axis) {
  const Node& node = *step.node;
  bool gathers = node.op == Op::kAllGather, sums = ReducesOverRanks(node.op);
  if (!(gathers || sums) || node.attrs.Int("axis") != axis || WireOf(node.attrs)) return false;
  if (step.in[0].place.kind != Place::kArena || step.out[0].place.kind != Place::kArena) return false;
  DType dtype = node.outputs[0].dtype;
  return NumElements(node.outputs[0].shape) > 1 && (gathers || (IsFloating(dtype) && dtype != DType::kF64 &&
                                                                ReduceOp(node.attrs.Int("reduce")) == ReduceOp::kSum));
}

// Returns the axes of several ranks over which a program has such a step.
std::vector<int> AxesOf(const MeshShape& mesh, const StepPlans& plans, bool (*has)(const Step&, int axis)) {
  std::vector<int> axes;
  for (int axis = 0; axis < mesh.num_axes(); axis++) {
    if (mesh.sizes[size_t(axis)] == 1) continue;
    std::vector<const Plan*> all = All(plans);
    if (std::ranges::any_of(all, [&](const Plan* plan) {
          return std::ranges::any_of(plan->steps, [&](const Step& step) { return has(step, axis); });
        }))
      axes.push_back(axis);
  }
  return axes;
}

absl::StatusOr<BufferPtr> InWindows(const StepPlans& plans, const Runtime& runtime,
                                    const std::vector<WindowUse>& uses) {
  auto& mesh = static_cast<DeviceMesh&>(*runtime.mesh);  // every CollectiveContext is one
  StableHash layout;
  for (const Plan* plan : All(plans)) layout.Mix(WindowLayoutOf(*plan));
  return AllocateWindows(mesh, {.uses = uses, .bytes = plans.Largest().arena_bytes, .layout = layout.value()});
}

// Whether programs on several GPUs have such a step.
bool Has(const StepOptions& options, const StepPlans* plans, DeviceKind device, bool (*has)(const Step&, int axis)) {
  return plans && device != DeviceKind::kCpu && !AxesOf(options.model.mesh, *plans, has).empty();
}

}  // namespace

std::vector<WindowUse> WindowsOf(const StepOptions& options, const StepPlans* plans, DeviceKind device) {
  using Engine = WindowEngine;
  std::vector<WindowUse> uses;
  if (!plans || device == DeviceKind::kCpu) return uses;
  const MeshShape& mesh = options.model.mesh;
  if (options.gather == GatherMode::kCopy)
    for (int axis : AxesOf(mesh, *plans, Moves)) uses.push_back({axis, Engine::kCopies});
  if (options.symmetric_memory)
    for (int axis : AxesOf(mesh, *plans, IsSymmetric)) uses.push_back({axis, Engine::kKernels});
  return uses;
}

absl::Status CheckGather(const StepOptions& options, const StepPlans* plans, DeviceKind device) {
  if (options.gather != GatherMode::kCopy || Has(options, plans, device, Moves)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("expected gathers over several GPUs, as copy asks for, of weights by fsdp full or of activations by "
                  "sequence_parallel, or reduce-scatters in bf16, got {}; give kernels",
                  device == DeviceKind::kCpu ? "device cpu" : "a step without them"));
}

absl::Status CheckSymmetric(const StepOptions& options, const StepPlans* plans, DeviceKind device) {
  if (!options.symmetric_memory || Has(options, plans, device, IsSymmetric)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("expected all-gathers or sums of activations or gradients over several GPUs, got {}; give false",
                  device == DeviceKind::kCpu ? "device cpu" : "a step without them"));
}

uint64_t WindowLayoutOf(const Plan& plan) {
  StableHash hash;
  hash.Mix(plan.arena_bytes);
  for (size_t i = 0; i < plan.steps.size(); i++) {
    const Step& step = plan.steps[i];
    if (!IsCollective(step.node->op)) continue;
    hash.Mix(i);
    hash.Mix(step.workspace_offset);
    for (const auto* views : {&step.in, &step.out}) {
      const Place& place = (*views)[0].place;
      hash.Mix(uint64_t(place.kind));
      hash.Mix(place.offset);
    }
  }
  return hash.value();
}

BufferPtr AllocateArena(const TrainingStep& step, const StepPlans& plans, const Runtime& runtime) {
  MemoryUse use("activations");
  const StepOptions& options = step.options();
  if (absl::Status s = CheckGather(options, &plans, runtime.device); !s.ok())
    Fail("parallel.gather: " + std::string(s.message()));
  if (absl::Status s = CheckSymmetric(options, &plans, runtime.device); !s.ok())
    Fail("parallel.symmetric_memory: " + std::string(s.message()));
  std::vector<WindowUse> uses = WindowsOf(options, &plans, runtime.device);
  if (uses.empty() || !runtime.mesh) return runtime.memory().Allocate(plans.Largest().arena_bytes);
  absl::StatusOr<BufferPtr> memory = InWindows(plans, runtime, uses);
  if (memory.ok()) return *memory;
  Fail(WindowFault(uses, memory.status()));
}

}  // namespace weft
