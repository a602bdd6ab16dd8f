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

// Whether the step exchanges the terms of a sum, which it does in its workspace.
bool Exchanges(const Step& step, int axis) { return WireOf(step.node->attrs) && step.node->attrs.Int("axis") == axis; }

bool Moves(const Step& step, int axis) { return Gathers(step, axis) || Exchanges(step, axis); }

// Whether a symmetric kernel may make the step's collective over this axis.
bool IsSymmetric(const Step& step, int axis) {
  const Node& node = *step.node;
  return (node.op == Op::kAllGather || node.op == Op::kAllReduce || node.op == Op::kReduceScatter) &&
         node.attrs.Int("axis") == axis && step.in[0].place.kind == Place::kArena &&
         step.out[0].place.kind == Place::kArena;
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

// A hash of where collectives read and write. If `copies_only`, of those that copy engines make.
uint64_t LayoutOf(const StepPlans& plans, bool copies_only) {
  StableHash hash;
  for (const Plan* plan : All(plans)) {
    hash.Mix(plan->arena_bytes);
    for (size_t i = 0; i < plan->steps.size(); i++) {
      const Step& step = plan->steps[i];
      if (!IsCollective(step.node->op)) continue;
      if (copies_only && step.node->op != Op::kAllGather && !WireOf(step.node->attrs)) continue;
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

absl::StatusOr<BufferPtr> InWindows(const StepPlans& plans, const Runtime& runtime, const std::vector<WindowUse>& uses,
                                    bool copies_only) {
  auto& mesh = static_cast<DeviceMesh&>(*runtime.mesh);  // every CollectiveContext is one
  return AllocateWindows(mesh,
                         {.uses = uses, .bytes = plans.Largest().arena_bytes, .layout = LayoutOf(plans, copies_only)});
}

bool HasMoves(const StepOptions& options, const StepPlans* plans, DeviceKind device) {
  return plans && device != DeviceKind::kCpu && !AxesOf(options.model.mesh, *plans, Moves).empty();
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
  if (options.gather != GatherMode::kCopy || HasMoves(options, plans, device)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("expected gathers over several GPUs, as copy asks for, of weights by fsdp full or of activations by "
                  "sequence_parallel, or exchanges by precision.wire bf16, got {}; give kernels",
                  device == DeviceKind::kCpu ? "device cpu" : "a step without them"));
}

BufferPtr AllocateArena(const TrainingStep& step, const StepPlans& plans, const Runtime& runtime) {
  MemoryUse use("activations");
  const StepOptions& options = step.options();
  if (absl::Status s = CheckGather(options, &plans, runtime.device); !s.ok())
    Fail("parallel.gather: " + std::string(s.message()));
  std::vector<WindowUse> uses = WindowsOf(options, &plans, runtime.device);
  if (uses.empty() || !runtime.mesh) return runtime.memory().Allocate(plans.Largest().arena_bytes);
  absl::StatusOr<BufferPtr> memory = InWindows(plans, runtime, uses, !options.symmetric_memory);
  if (memory.ok()) return *memory;
  std::string fault(memory.status().message());
  if (options.gather != GatherMode::kCopy)
    Fail(fmt::format("parallel.symmetric_memory: expected NCCL's windows, got: {}; give false", fault));
  Fail(fmt::format("parallel.gather: expected gathers by copy engines, as copy asks for, got: {}; give kernels{}",
                   fault, options.symmetric_memory ? ", and parallel.symmetric_memory=false" : ""));
}

}  // namespace weft
