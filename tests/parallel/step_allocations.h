// Counts what the compiled executor allocates from step 3 on, on all ranks of a mesh.
#pragma once
#include "heap_counter.h"
#include "support/rank_run.h"
#include "weft/dist/group/mesh.h"

namespace weft::testing_ {

struct StepAllocations {
  long heap = 0;
  size_t buffers = 0;
  int steps = 0;
};

// Counts the allocations of this process. If ranks are threads, these are the allocations of all ranks.
inline StepAllocations AllocationsAfterStepTwo(const Job& job, const Layout& layout, Context& context,
                                               DeviceMesh& mesh) {
  StepOptions o = OptionsOf(job, layout);
  Runtime runtime = RuntimeOf(context, mesh);
  TrainingStep step(job.model, o);
  State state(o.model.mesh, mesh.coords());
  step.AddEntries(state);
  step.InitParameters(state, runtime);
  auto runner = MakeRunner(ExecutorKind::kCompiled, state, step, runtime);
  FillSlots(state, o, job.global_batch, job.model.vocab, 1, 0);
  state.SetScalar(entry::kUpdates, 1);
  const std::function<void(int)> nothing = [](int) {};
  auto steps = [&](int count) {
    for (int i = 0; i < count; i++) runner->Step(nothing);
    mesh.World().Barrier();  // no rank is in a step while the counters are read
  };
  auto read = [&] {
    StepAllocations now{test::HeapAllocations(), CpuBuffersAllocated(), 0};
    mesh.World().Barrier();
    return now;
  };
  steps(2);
  StepAllocations before = read();
  constexpr int kSteps = 4;
  steps(kSteps);
  StepAllocations after = read();
  return {after.heap - before.heap, after.buffers - before.buffers, kSteps};
}

// Meshes and placements that together use every collective row of a training step.
inline std::vector<Layout> LayoutsOfFourRanks() {
  return {{.dp = 2, .tp = 2},
          {.dp = 2, .tp = 2, .micro_batch = 1},
          {.dp = 2, .tp = 2, .sequence_parallel = true},
          {.dp = 2, .tp = 2, .fsdp = Fsdp::kGradients, .micro_batch = 1},
          {.dp = 2, .tp = 2, .sequence_parallel = true, .fsdp = Fsdp::kFull, .micro_batch = 1}};
}

}  // namespace weft::testing_
