// BatchProgram: each batch of a step, taken out of its plan, is the same work by itself.
#include "launcher/bench/rates/batch_program.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "double/group_double.h"
#include "double/kernels_double.h"
#include "double/nccl_double.h"
#include "launcher/bench/rates/step_parts.h"
#include "launcher/plan/planned_step.h"
#include "support/training.h"
#include "weft/core/predict/step_time.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/mesh.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/parallel/step/arena_windows.h"
#include "weft/parallel/step/training_step.h"

namespace weft {
namespace {

using testing_::Job;
using testing_::Layout;

TransformerConfig Model(std::string_view family) {
  return FindFamily(family)->configure(
      {.layers = 2, .heads = 4, .kv_heads = 4, .dim = 32, .ffn = 64, .vocab = 64, .context = 8});
}

// Calls visit(plan, runtime) for the plans of each rank.
template <class Visit>
void ForEachPlan(const Visit& visit) {
  for (const char* family : {"gpt2", "llama"})
    for (Layout layout : {Layout{}, Layout{.micro_batch = 2}, Layout{.dp = 2, .fsdp = Fsdp::kFull, .micro_batch = 1},
                          Layout{.dp = 2, .fsdp = Fsdp::kGradients}, Layout{.tp = 2, .sequence_parallel = true},
                          Layout{.dp = 2, .tp = 2, .fsdp = Fsdp::kFull, .regather = false},
                          Layout{.tp = 3, .recompute = {.mode = RecomputeMode::kFull}}, Layout{.combine = true},
                          Layout{.dp = 2, .fsdp = Fsdp::kFull, .combine = true}})
      for (OverlapMode mode : {OverlapMode::kNever, OverlapMode::kAlways, OverlapMode::kHalves, OverlapMode::kChunks}) {
        layout.overlap = mode;
        layout.chunks = 2;
        testing_::OnMesh(layout, [&](Context& context, DeviceMesh& mesh) {
          Job job{.model = Model(family), .precision = {DType::kBF16, DType::kF32, DType::kF32}, .global_batch = 8};
          TrainingStep step(job.model, OptionsOf(job, layout));
          Runtime runtime = RuntimeOf(context, mesh);
          StepPlans plans = step.Compile(runtime);
          visit(plans.step, runtime);
          if (plans.accumulate) visit(*plans.accumulate, runtime);
        });
      }
}

// A plan that is not bound to memory has the batches and the waits of one that is.
TEST(PretendedAddresses, GiveTheBatchesOfARun) {
  ForEachPlan([](const Plan& plan, const Runtime& runtime) {
    auto bind = [&](const std::string&, const ValueInfo& info) { return Tensor::Zeros(info.dtype, info.shape); };
    Executable bound(plan, runtime, bind);
    PretendedAddresses addresses(plan);
    PlannedCalls pretended(plan, runtime, [&](const Place& place) { return addresses.At(place); });
    ASSERT_EQ(pretended.batches().size(), bound.batches().size());
    for (size_t i = 0; i < pretended.batches().size(); i++) {
      const PlannedCalls::Batch &a = pretended.batches()[i], &b = bound.batches()[i];
      EXPECT_TRUE(a.first == b.first && a.count == b.count && a.row == b.row && a.axis == b.axis) << i;
    }
  });
}

// One copy is the batch itself: the same ops, attributes, types, shapes, strides, bytes and FLOPs. Several are as many
// such batches. Nothing is copied that the plan writes in place.
TEST(BatchProgram, IsTheWorkOfItsBatch) {
  int batches = 0;
  ForEachPlan([&](const Plan& plan, const Runtime& runtime) {
    StepParts parts;
    AddParts(plan, runtime, 1, parts);
    Runtime serial = runtime;
    serial.overlap = OverlapMode::kNever;
    for (const auto& [name, part] : parts)
      for (int64_t copies : {1, 3}) {
        if (copies > 1 && !MayRepeat(plan, part.first, part.count)) continue;
        BatchProgram program(plan, {{part.first, part.count, copies}}, serial);
        EXPECT_TRUE(program.plan().copies.empty()) << name;
        PlanWork work = WorkOf(program.plan(), serial);
        ASSERT_EQ(int64_t(work.batches.size()), copies) << name;
        for (const BatchWork& one : work.batches) {
          EXPECT_EQ(one.name, name);
          EXPECT_EQ(one.flops, part.work.flops) << name;
          EXPECT_EQ(one.bytes, part.work.bytes) << name;
          EXPECT_EQ(one.kind, part.work.kind) << name;
        }
        if (runtime.mesh_shape.num_ranks() == 1 || runtime.coords == Coords(runtime.coords.size(), 0)) batches++;
      }
  });
  EXPECT_GT(batches, 1000);
}

// On a GPU several calls join, which they do on no CPU: updates, casts and buckets of collectives.
TEST(BatchProgram, KeepsCallsOfAGpuTogether) {
  size_t joined = 0;
  for (const char* family : {"gpt2", "llama"})
    for (const Words& words : {Words{}, Words{"train.micro_batch=2"}, Words{"mesh.dp=2", "parallel.fsdp=full"},
                               Words{"mesh.dp=2", "mesh.tp=2", "parallel.fsdp=gradients", "train.micro_batch=2"},
                               Words{"mesh.tp=2", "parallel.sequence_parallel=true", "parallel.overlap=halves"},
                               Words{"mesh.tp=2", "parallel.overlap=chunks", "parallel.chunks=2"}}) {
      std::string yaml = fmt::format(
          "model: {{family: {}, layers: 2, heads: 4, dim: 64, ffn: 128, vocab: 64, context: 16}}\n"
          "data: {{synthetic: true}}\nprecision: {{compute: bf16}}\ntrain: {{steps: 1, global_batch: 8}}\n"
          "device: cuda\n",
          family);
      Config config = ParseConfig(yaml, "case.yaml", words).value();
      ASSERT_TRUE(Resolve(config, int(config.mesh.ranks())).ok() && ResolveVocab(config, 64).ok());
      PlannedStep planned(config);
      Runtime serial = planned.runtime();
      serial.overlap = OverlapMode::kNever;
      StepParts parts;
      AddParts(planned.plans().step, planned.runtime(), 1, parts);
      if (planned.plans().accumulate) AddParts(*planned.plans().accumulate, planned.runtime(), 1, parts);
      for (const auto& [name, part] : parts) {
        joined += part.count > 1;
        bool repeats = MayRepeat(*part.plan, part.first, part.count);
        BatchProgram program(*part.plan, {{part.first, part.count, repeats ? 3 : 1}}, serial);
        EXPECT_TRUE(program.plan().copies.empty()) << name;
        PlanWork work = WorkOf(program.plan(), serial);
        ASSERT_EQ(work.batches.size(), repeats ? 3 : 1) << name;
        for (const BatchWork& one : work.batches) EXPECT_EQ(one.name, name);
      }
    }
  EXPECT_GT(joined, 30);
}

// The work of a plan is that of its parts, each as often as it occurs.
TEST(StepParts, AreAllOfAPlan) {
  ForEachPlan([](const Plan& plan, const Runtime& runtime) {
    StepParts parts;
    AddParts(plan, runtime, 5, parts);
    std::map<std::string, int64_t> times;
    for (const BatchWork& work : WorkOf(plan, runtime).batches) times[work.name] += 5;
    ASSERT_EQ(times.size(), parts.size());
    for (const auto& [name, part] : parts) EXPECT_EQ(part.times, times[name]) << name;
  });
}

// A collective's time in one kind of memory says nothing about another. Kernels take the same time in both.
TEST(StepParts, NameTheMemoryOfCollectives) {
  ForEachPlan([](const Plan& plan, const Runtime& runtime) {
    StepParts ordinary, symmetric;
    AddParts(plan, runtime, 1, ordinary);
    AddParts(plan, runtime, 1, symmetric, "symmetric");
    EXPECT_EQ(symmetric.size(), ordinary.size());
    for (const auto& [name, part] : ordinary) {
      bool moves = part.work.kind == WorkClass::kCollective;
      EXPECT_TRUE(symmetric.contains(moves ? name + " in memory symmetric" : name)) << name;
      EXPECT_EQ(symmetric.contains(name), !moves) << name;
    }
  });
}

// It runs, on operands that all its kernels accept.
TEST(Operands, LetEveryBatchRun) {
  for (const char* family : {"gpt2", "llama"}) {
    testing_::OnMesh(Layout{.micro_batch = 4}, [&](Context& context, DeviceMesh& mesh) {
      Job job{.model = Model(family), .precision = {DType::kF32, DType::kF32, DType::kF32}, .global_batch = 8};
      TrainingStep step(job.model, OptionsOf(job, Layout{.micro_batch = 4}));
      Runtime runtime = RuntimeOf(context, mesh);
      StepPlans plans = step.Compile(runtime);
      for (const Plan* plan : {&plans.step, &*plans.accumulate}) {
        StepParts parts;
        AddParts(*plan, runtime, 1, parts);
        for (const auto& [name, part] : parts) {
          BatchProgram program(*plan, {{part.first, part.count, 2 - !MayRepeat(*plan, part.first, part.count)}},
                               runtime);
          Operands operands(runtime, std::array{&std::as_const(program)});
          std::unique_ptr<Executable> run = operands.Bind(program);
          for (int i = 0; i < 3; i++) run->Run();
        }
      }
    });
  }
}

// All batches of a step run in turns in memory for one of them.
TEST(Operands, AreSharedByTheBatchesOfAStep) {
  Layout layout{.micro_batch = 4};
  testing_::OnMesh(layout, [&](Context& context, DeviceMesh& mesh) {
    Job job{.model = Model("llama"), .precision = {DType::kF32, DType::kF32, DType::kF32}, .global_batch = 8};
    TrainingStep step(job.model, OptionsOf(job, layout));
    Runtime runtime = RuntimeOf(context, mesh);
    StepPlans plans = step.Compile(runtime);
    StepParts parts;
    AddParts(plans.step, runtime, 1, parts);
    std::vector<std::unique_ptr<BatchProgram>> owned;
    std::vector<const BatchProgram*> programs;
    size_t sum = 0, most = 0, writes = 0;
    for (const auto& [name, part] : parts) {
      owned.push_back(std::make_unique<BatchProgram>(
          plans.step, std::vector<BatchProgram::Run>{{part.first, part.count}}, runtime));
      programs.push_back(owned.back().get());
      size_t bytes = Operands::BytesFor(std::span(&programs.back(), 1));
      sum += bytes;
      most = std::max(most, bytes);
      writes += programs.back()->operand_bytes().written > 0;
    }
    EXPECT_GT(writes, 3u);
    EXPECT_GE(Operands::BytesFor(programs), most);
    EXPECT_LT(Operands::BytesFor(programs), sum / 4);
    Operands operands(runtime, programs);
    std::vector<std::unique_ptr<Executable>> runs;
    for (const BatchProgram* program : programs) runs.push_back(operands.Bind(*program));
    for (int turn = 0; turn < 3; turn++)
      for (const auto& run : runs) run->Run();

    // For every limit the others fit, one more would not, and none that is left out needs less than one that is not.
    for (size_t limit = 0; limit <= Operands::BytesFor(programs); limit += std::max<size_t>(1, most / 16)) {
      std::vector<size_t> out = LeftOut(programs, limit);
      std::vector<const BatchProgram*> kept;
      for (size_t i = 0; i < programs.size(); i++)
        if (std::find(out.begin(), out.end(), i) == out.end()) kept.push_back(programs[i]);
      EXPECT_TRUE(kept.empty() || Operands::BytesFor(kept) <= limit);
      for (size_t i : out)
        for (const BatchProgram* one : kept)
          EXPECT_GE(Operands::BytesFor(std::span(&programs[i], 1)), Operands::BytesFor(std::span(&one, 1)));
      if (out.empty()) continue;
      kept.push_back(programs[out.back()]);
      EXPECT_GT(Operands::BytesFor(kept), limit);
    }
    EXPECT_TRUE(LeftOut(programs, Operands::BytesFor(programs)).empty());
  });
}

// So each collective of a step is made as the step makes it: by copy engines or by symmetric kernels.
TEST(Operands, InWindowsHaveTheCollectivesOfAStepInThem) {
  Layout layout{.dp = 2, .tp = 2, .sequence_parallel = true, .fsdp = Fsdp::kFull, .device = DeviceKind::kCuda};
  layout.symmetric_memory = true;
  for (GatherMode gather : {GatherMode::kKernels, GatherMode::kCopy}) {
    layout.gather = gather;
    test::FakeCopies before = test::CountFakeCopies();
    test::OnDoubles(4, {.groups = test::NcclGroups}, [&](test::DoubleRank& rank) {
      RegisterCpuKernels(rank.context.kernels(DeviceKind::kCpu));
      RegisterCollectives(rank.context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
      test::RegisterDoubleKernels(rank.context);
      DeviceMesh mesh(rank.context, rank.groups, MeshOf(layout), rank.groups.kinds());
      Job job{.model = Model("llama"), .precision = {DType::kBF16, DType::kF32, DType::kF32, DType::kBF16}};
      job.global_batch = 8;
      TrainingStep step(job.model, OptionsOf(job, layout));
      Runtime runtime = RuntimeOf(rank.context, mesh, DeviceKind::kCuda);
      StepPlans plans = step.Compile(runtime);
      std::vector<WindowUse> windows = WindowsOf(step.options(), &plans, DeviceKind::kCuda);
      EXPECT_EQ(windows.size(), gather == GatherMode::kCopy ? 4u : 2u);
      StepParts parts;
      AddParts(plans.step, runtime, 1, parts);
      for (const auto& [name, part] : parts) {
        if (part.work.kind != WorkClass::kCollective) continue;
        BatchProgram program(plans.step, {{part.first, part.count}}, runtime);
        Operands operands(runtime, std::array{&std::as_const(program)}, windows);
        std::unique_ptr<Executable> run = operands.Bind(program);
        for (int i = 0; i < 3; i++) run->Run();
        rank.device.Synchronize();
      }
    });
    test::FakeCopies after = test::CountFakeCopies();
    EXPECT_GT(after.symmetric - before.symmetric, 100);
    EXPECT_EQ(after.gathers - before.gathers > 100, gather == GatherMode::kCopy);
    EXPECT_EQ(after.exchanges - before.exchanges > 50, gather == GatherMode::kCopy);
    EXPECT_EQ(test::FakeNcclFaults(), "");
  }
}

}  // namespace
}  // namespace weft
