// The cost of a step besides its kernels: nodes, and allocations while it runs. These tests count;
// tests/bench/graph_bench measures times.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "parallel/step_allocations.h"
#include "train/temp_folder.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/dist/group/mesh.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/parallel/program/state.h"
#include "weft/parallel/step/runner.h"
#include "weft/parallel/step/training_step.h"
#include "weft/train/config/model_of.h"
#include "weft/train/data/slots.h"

namespace weft {
namespace {

using namespace testing_;

TEST(StepCost, CompiledAllocatesNothingAfterStepTwo) {
  for (bool gpt2 : {true, false}) {
    Job job{gpt2 ? TinyGpt2() : TinyLlama()};
    Layout layout{.micro_batch = 2};
    Context context(0, 1);
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    StepOptions o = OptionsOf(job, layout);
    Runtime runtime{&context, nullptr, o.model.mesh, {0, 0}};
    TrainingStep training(job.model, o);
    State state(o.model.mesh, {0, 0});
    training.AddEntries(state);
    training.InitParameters(state, runtime);
    for (ExecutorKind kind : {ExecutorKind::kCompiled, ExecutorKind::kInterpret, ExecutorKind::kEager}) {
      auto runner = MakeRunner(kind, state, training, runtime);
      FillSlots(state, o, job.global_batch, job.model.vocab, 1, 0);
      state.SetScalar(entry::kUpdates, 1);
      const std::function<void(int)> nothing = [](int) {};
      size_t heap = 0, buffers = 0;
      for (int step = 1; step <= 4; step++) {
        size_t heap_before = size_t(test::HeapAllocations()), buffers_before = CpuBuffersAllocated();
        runner->Step(nothing);
        heap = size_t(test::HeapAllocations()) - heap_before;
        buffers = CpuBuffersAllocated() - buffers_before;
      }
      const char* name = kind == ExecutorKind::kCompiled ? "compiled"
                         : kind == ExecutorKind::kEager  ? "eager"
                                                         : "interpret";
      fmt::print("shown: {} {:9}: {} global nodes, {} local nodes, {} heap allocations and {} buffers a step\n",
                 gpt2 ? "gpt2" : "llama", name, training.global_nodes(), training.step().graph.nodes.size(), heap,
                 buffers);
      if (kind != ExecutorKind::kCompiled) continue;
      EXPECT_EQ(heap, 0u);
      EXPECT_EQ(buffers, 0u);
    }
  }
}

// Text and synthetic tokens, for training and evaluation, are written directly into the slots.
TEST(StepCost, FillingTheSlotsAllocatesNothing) {
  TempFolder folder;
  std::string yaml = "model: {family: gpt2, layers: 1, heads: 1, dim: 4, context: 8}\ndata: {train: " +
                     folder.Write("a.txt", std::string(500, 'a')) +
                     ", val: 0.2}\ntrain: {steps: 1, global_batch: 12}\n";
  for (const char* word : {"data.shuffle=true", "data.shuffle=false", "data.synthetic=true"}) {
    absl::StatusOr<Config> config = ParseConfig(yaml, "a.yaml", {word, "train.micro_batch=5"});
    ASSERT_TRUE(config.ok() && Resolve(*config, 1).ok() && ResolveVocab(*config, 256).ok());
    absl::StatusOr<Dataset> data = Dataset::Load(*config);
    ASSERT_TRUE(data.ok());
    StepOptions o = StepOptionsOf(*config);
    State state(o.model.mesh, {0, 0});
    TrainingStep(ModelOf(*config), o).AddEntries(state);
    Slots slots(state, *data, o);
    long before = test::HeapAllocations();
    size_t buffers = CpuBuffersAllocated();
    for (int step = 1; step <= 3; step++) {
      slots.SetStep(step, 1e-3);
      for (int micro = 0; micro < o.micro_steps; micro++) slots.FillTrain(step, micro);
    }
    for (int64_t w = 0; w < data->eval_windows(); w += o.rows) slots.FillEval(w, data->eval_windows());
    EXPECT_EQ(test::HeapAllocations() - before, 0) << word;
    EXPECT_EQ(CpuBuffersAllocated() - buffers, 0u) << word;
  }
}

TEST(StepCost, CompiledAllocatesNothingAfterStepTwoOnAnyMesh) {
  std::vector<Layout> layouts = LayoutsOfFourRanks();
  layouts.push_back({.dp = 3});
  layouts.push_back({.tp = 3, .micro_batch = 2});
  layouts.push_back({.dp = 2, .fsdp = Fsdp::kFull});
  layouts.push_back({.tp = 2, .sequence_parallel = true});
  for (bool gpt2 : {true, false})
    for (const Layout& layout : layouts)
      RunRanks(layout.dp * layout.tp, [&](Context& context, GroupFactory& groups) {
        RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
        RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
        DeviceMesh mesh(context, groups, {{"dp", "tp"}, {layout.dp, layout.tp}});
        StepAllocations got = AllocationsAfterStepTwo({gpt2 ? TinyGpt2() : TinyLlama()}, layout, context, mesh);
        EXPECT_EQ(got.heap, 0) << Describe(layout) << " in " << got.steps << " steps of all ranks";
        EXPECT_EQ(got.buffers, 0u) << Describe(layout);
      });
}

// The sum of the gradients' squares takes as many kernels for any number of parameters, but for the squares themselves,
// which a device computes together.
TEST(StepCost, TheNormTakesAsManyKernelsForAnyDepth) {
  for (const Layout& layout : {Layout{}, {.dp = 2, .fsdp = Fsdp::kFull}, {.tp = 2, .sequence_parallel = true}}) {
    int64_t kernels[2] = {};
    for (int deep : {0, 1}) {
      Job job{TinyLlama()};
      job.model.layers = deep ? 7 : 2;
      OnMesh(layout, [&](Context& context, DeviceMesh& mesh) {
        TrainingStep training(job.model, OptionsOf(job, layout));
        StepPlans plans =
            training.Compile({.context = &context, .mesh = &mesh, .mesh_shape = mesh.shape(), .coords = mesh.coords()});
        if (mesh.rank() != 0) return;
        kernels[deep] = std::ranges::count_if(plans.step.steps, [](const Step& step) {
          return step.node->op != Op::kSumOfSquares && step.node->scope && *step.node->scope == "optimizer.clip";
        });
      });
    }
    EXPECT_GT(kernels[0], 0) << Describe(layout);
    EXPECT_EQ(kernels[0], kernels[1]) << Describe(layout);
  }
}

TEST(StepCost, TheCounterSeesAllocationsOfEveryKind) {
  struct alignas(64) Wide {
    char bytes[64];
  };
  long before = test::HeapAllocations();
  auto plain = std::make_unique<int>(1);
  auto array = std::make_unique<int[]>(10);
  auto wide = std::make_unique<Wide>();
  EXPECT_EQ(test::HeapAllocations(), before + 3);
}

}  // namespace
}  // namespace weft
