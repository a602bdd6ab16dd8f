// Training on a device with streams, tested without a GPU. The device is a double that runs the CPU's kernels and
// overlaps collectives with them. On every layout it gives the CPU's bits, whatever the delays of its streams.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>

#include "double/group_double.h"
#include "double/kernels_double.h"
#include "double/nccl_double.h"
#include "share.h"
#include "support/rank_run.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/collective_fault.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/mesh.h"
#include "weft/dist/group/nccl/nccl_memory.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/parallel/step/memory_need.h"

namespace weft {
namespace {

using testing_::Job;
using testing_::Layout;
using testing_::RunResult;

using GroupMaker = decltype(test::Doubles::groups);

struct Ran {
  RunResult result;
  int64_t beside = 0;   // calls that rank 0 issued to the stream of collectives
  int64_t replays = 0;  // replays of rank 0's recordings
};

// With `delay_us`, collectives are late by random times (collective_fault.h).
Ran TrainOnDoubles(const Job& job, Layout layout, uint64_t seed, const GroupMaker& groups = {}, int delay_us = 0) {
  layout.device = DeviceKind::kCuda;
  Ran ran;
  test::Doubles doubles{.most_us = 20, .seed = seed, .groups = groups};
  test::OnDoubles(MeshOf(layout).num_ranks(), doubles, [&](test::DoubleRank& rank) {
    RegisterCpuKernels(rank.context.kernels(DeviceKind::kCpu));
    RegisterCollectives(rank.context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
    test::RegisterDoubleKernels(rank.context);
    rank.context.set_numerics({.combine = layout.combine});
    DeviceMesh mesh(rank.context, rank.groups, MeshOf(layout), rank.groups.kinds());
    mesh.set_overlap(layout.overlap, layout.chunks);
    CollectiveFault fault("delay", delay_us);
    if (delay_us) {
      mesh.set_call_filter([&](const ProcessGroup& group, Collective& call) { return fault.Change(group, call); });
      mesh.set_call_delay(fault.device_delay());
    }
    RunResult mine = RunOnRank(job, layout, rank.context, mesh);
    if (rank.context.rank() == 0) ran = {mine, rank.device.posted_beside(), rank.device.replays()};
  });
  return ran;
}

class DoubleTraining : public testing::TestWithParam<const char*> {};

TEST_P(DoubleTraining, GivesTheCpusBits) {
  uint64_t seed = 0;
  for (const Layout& layout : test::ShareOf(testing_::StreamLayouts())) {
    DType dtype = seed++ % 2 ? DType::kF64 : DType::kBF16, wide = dtype == DType::kBF16 ? DType::kF32 : dtype;
    Job job{.model = testing_::Tiny(GetParam()), .precision = {dtype, wide, wide}, .steps = 3};
    RunResult want = testing_::Train(job, layout);
    Ran got = TrainOnDoubles(job, layout, seed);
    std::string what = testing_::Describe(layout) + " " + Name(dtype);
    EXPECT_EQ(got.result.losses, want.losses) << what;
    EXPECT_EQ(got.result.norms, want.norms) << what;
    EXPECT_EQ(got.result.eval_sum, want.eval_sum) << what;
    EXPECT_EQ(got.result.counts, want.counts) << what;
    bool overlaps = layout.executor == ExecutorKind::kCompiled && MeshOf(layout).num_ranks() > 1;
    EXPECT_EQ(got.beside > 0, overlaps) << what;
  }
}
INSTANTIATE_TEST_SUITE_P(All, DoubleTraining, testing::ValuesIn(testing_::kFamilies));

void ExpectBitsThroughNccl(Precision precision, uint64_t seed) {
  for (const Layout& layout : test::ShareOf(testing_::StreamLayouts())) {
    Job job{.model = testing_::TinyLlama(), .precision = precision, .steps = 5};
    RunResult want = testing_::Train(job, layout);
    Ran got = TrainOnDoubles(job, layout, seed++, test::NcclGroups);
    EXPECT_EQ(got.result.losses, want.losses) << testing_::Describe(layout);
    EXPECT_EQ(got.result.norms, want.norms) << testing_::Describe(layout);
    EXPECT_EQ(got.result.counts, want.counts) << testing_::Describe(layout);
    EXPECT_EQ(got.replays > 0, layout.executor == ExecutorKind::kCompiled) << testing_::Describe(layout);
    EXPECT_EQ(test::FakeNcclFaults(), "") << testing_::Describe(layout);
  }
}

// Training through NCCL's groups gives the same bits, with separate communicators for each axis. Compiled steps are
// replayed.
TEST(DoubleTraining, GivesTheCpusBitsThroughNccl) {
  ExpectBitsThroughNccl({DType::kBF16, DType::kF32, DType::kF32}, 40);
}

// So does training through NCCL with gradients that are sent between ranks as bf16. Their exchanges run one bucket at a
// time during the backward pass.
TEST(DoubleTraining, GivesTheCpusBitsThroughNcclWithAWire) {
  ExpectBitsThroughNccl({DType::kBF16, DType::kF32, DType::kF32, DType::kBF16}, 60);
}

// All ways to overlap give the bits of the same way on the CPU, where host_overlap_test shows them to be right, even if
// collectives are late. With four dp ranks the last one has no row, so its memory is laid out in another way, and yet
// it joins the same calls.
TEST(DoubleTraining, AllWaysToOverlapGiveTheCpusBitsThroughNccl) {
  uint64_t seed = 200;
  std::vector<Layout> layouts = testing_::StreamLayouts();
  layouts.push_back({.dp = 4, .fsdp = Fsdp::kFull});
  for (OverlapMode overlap : {OverlapMode::kNever, OverlapMode::kFill, OverlapMode::kHalves, OverlapMode::kChunks})
    for (Layout layout : test::ShareOf(layouts)) {
      if (layout.executor != ExecutorKind::kCompiled || MeshOf(layout).num_ranks() == 1) continue;
      layout.overlap = overlap;
      layout.chunks = 2;
      Job job{.model = testing_::TinyLlama(), .precision = {DType::kF32, DType::kF32, DType::kF32}, .steps = 4};
      SCOPED_TRACE(testing_::Describe(layout));
      RunResult want = testing_::Train(job, layout);
      Ran got = TrainOnDoubles(job, layout, seed, test::NcclGroups, seed % 2 ? 100 : 0);
      seed++;
      EXPECT_EQ(got.result.losses, want.losses);
      EXPECT_EQ(got.result.norms, want.norms);
      EXPECT_EQ(got.result.counts, want.counts);
      EXPECT_EQ(got.beside > 0, overlap != OverlapMode::kNever);
      EXPECT_EQ(test::FakeNcclFaults(), "");
    }
}

// The calls and bytes of a run. Reduce-scatters and exchanges count as one op, as a wire makes exchanges of sums.
std::map<std::pair<int, std::string>, std::pair<int64_t, int64_t>> MovesOf(const RunResult& result) {
  std::map<std::pair<int, std::string>, std::pair<int64_t, int64_t>> moves;
  for (const auto& [what, count] : result.counts) {
    bool sums = what.second == Name(CollectiveOp::kReduceScatter);
    auto& [calls, bytes] = moves[{what.first, sums ? Name(CollectiveOp::kAllToAll) : what.second}];
    calls += count.calls;
    bytes += count.bytes;
  }
  return moves;
}

struct WindowRun {
  RunResult want;         // of the CPU
  test::FakeCopies made;  // by doubles, in windows
};
// Trains on doubles with the windows that the layout asks for. They have the CPU's bits, break none of NCCL's rules,
// and leave all windows and their memory as they were.
WindowRun TrainInWindows(const Job& job, const Layout& layout, uint64_t seed) {
  SCOPED_TRACE(testing_::Describe(layout));
  Layout plain = layout;
  plain.gather = GatherMode::kKernels;
  plain.symmetric_memory = false;
  RunResult want = testing_::Train(job, plain);
  test::FakeCopies before = test::CountFakeCopies();
  Ran got = TrainOnDoubles(job, layout, seed, test::NcclGroups, seed % 3 ? 0 : 100);
  EXPECT_EQ(got.result.losses, want.losses);
  EXPECT_EQ(got.result.norms, want.norms);
  EXPECT_EQ(got.result.eval_sum, want.eval_sum);
  EXPECT_EQ(MovesOf(got.result), MovesOf(want));
  EXPECT_EQ(test::FakeNcclFaults(), "");
  test::FakeCopies after = test::CountFakeCopies();
  EXPECT_EQ(after.blocks, before.blocks);
  return {std::move(want),
          {.gathers = after.gathers - before.gathers,
           .exchanges = after.exchanges - before.exchanges,
           .symmetric = after.symmetric - before.symmetric,
           .blocks = 0}};
}

// A job in windows. Workspaces of the CPU's kernels, and so the offsets of calls, depend on a rank's share, so the
// shares are even.
Job JobInWindows(DType compute, std::optional<DType> wire = {}) {
  Job job{.model = testing_::TinyLlama(), .precision = {compute, DType::kF32, DType::kF32, wire}, .global_batch = 12};
  job.model.context = 8, job.model.ffn = 36, job.model.vocab = 38;
  job.steps = 4;
  return job;
}

// Copy engines gather weights that fsdp full shards, with HSDP too, and activations, and exchange the terms of sums of
// activations in bf16.
TEST(DoubleTraining, GivesTheCpusBitsWithCopiedGathers) {
  std::vector<Layout> layouts;
  for (bool regather : {true, false})
    for (int64_t micro : {0, 1})
      layouts.push_back({.dp = 2, .tp = 2, .fsdp = Fsdp::kFull, .micro_batch = micro, .regather = regather});
  layouts.push_back({.dp = 3, .fsdp = Fsdp::kFull, .overlap = OverlapMode::kNever});
  layouts.push_back({.dp = 2, .fsdp = Fsdp::kFull, .micro_batch = 1, .replicate = 2});
  for (OverlapMode overlap : {OverlapMode::kAuto, OverlapMode::kHalves}) {
    layouts.push_back({.tp = 2, .sequence_parallel = true, .overlap = overlap});
    layouts.push_back({.dp = 2, .tp = 2, .sequence_parallel = true, .fsdp = Fsdp::kFull, .overlap = overlap});
  }
  uint64_t seed = 120;
  for (Layout& layout : layouts) {
    Job job = JobInWindows(seed % 2 ? DType::kF32 : DType::kBF16);
    if (!layout.sequence_parallel) job.model = testing_::TinyLlama();  // its shares are uneven
    layout.gather = GatherMode::kCopy;
    WindowRun run = TrainInWindows(job, layout, seed++);
    // All gathers of steps go by copy engines, and so do those of the evaluation and two trials.
    int64_t gathers = 0;
    for (const auto& [what, count] : run.want.counts) gathers += what.second == "all_gather" ? count.calls : 0;
    EXPECT_GT(run.made.gathers, gathers * MeshOf(layout).num_ranks()) << testing_::Describe(layout);
    bool exchanges = layout.sequence_parallel && job.precision.compute == DType::kBF16;
    EXPECT_EQ(run.made.exchanges > 0, exchanges) << testing_::Describe(layout);
  }
}

// Copy engines exchange the terms of sums that travel as bf16, whether they make the step's gathers or not.
TEST(DoubleTraining, GivesTheCpusBitsWithCopiedExchanges) {
  uint64_t seed = 420;
  for (Layout layout : {Layout{.dp = 3},
                        {.dp = 2, .tp = 2, .fsdp = Fsdp::kGradients},
                        {.dp = 4, .fsdp = Fsdp::kFull},
                        {.dp = 2, .fsdp = Fsdp::kFull, .micro_batch = 1, .replicate = 2}}) {
    Job job = JobInWindows(DType::kBF16, DType::kBF16);
    layout.gather = GatherMode::kCopy;
    WindowRun run = TrainInWindows(job, layout, seed++);
    EXPECT_GE(run.made.exchanges, job.steps * MeshOf(layout).num_ranks()) << testing_::Describe(layout);
  }
}

// Symmetric kernels make sums and gathers of activations and gradients, and with copied gathers only sums.
TEST(DoubleTraining, GivesTheCpusBitsInSymmetricMemory) {
  std::vector<Layout> layouts{{.dp = 3},
                              {.dp = 2, .fsdp = Fsdp::kFull, .micro_batch = 1, .replicate = 2},
                              {.dp = 2, .tp = 2, .fsdp = Fsdp::kGradients}};
  for (OverlapMode overlap : {OverlapMode::kNever, OverlapMode::kAuto, OverlapMode::kHalves, OverlapMode::kChunks})
    for (int dp : {1, 2}) {
      layouts.push_back({.dp = dp, .tp = 2, .sequence_parallel = true, .overlap = overlap});
      layouts.back().fsdp = dp > 1 ? Fsdp::kFull : Fsdp::kNone;
      layouts.back().chunks = overlap == OverlapMode::kChunks ? 2 : 0;
    }
  uint64_t seed = 320;
  for (Layout& layout : layouts)
    for (GatherMode gather : {GatherMode::kKernels, GatherMode::kCopy}) {
      if (gather == GatherMode::kCopy && layout.fsdp != Fsdp::kFull && !layout.sequence_parallel) continue;
      Job job = JobInWindows(seed % 2 ? DType::kF32 : DType::kBF16);
      layout.gather = gather;
      layout.symmetric_memory = true;
      WindowRun run = TrainInWindows(job, layout, seed++);
      EXPECT_GT(run.made.symmetric, job.steps * MeshOf(layout).num_ranks()) << testing_::Describe(layout);
      EXPECT_EQ(run.made.gathers > 0, gather == GatherMode::kCopy) << testing_::Describe(layout);
    }
}

// Returns the products of a step of rank 0.
int64_t ProductsOf(const Job& job, const Layout& layout) {
  int64_t products = 0;
  testing_::OnMesh(layout, [&](Context& context, DeviceMesh& mesh) {
    TrainingStep step(job.model, OptionsOf(job, layout));
    StepPlans plans = step.Compile(RuntimeOf(context, mesh, DeviceKind::kCpu));
    auto is_product = [](const Step& s) { return s.node->op == Op::kEinsum; };
    if (mesh.rank() == 0) products = std::ranges::count_if(plans.step.steps, is_product);
  });
  return products;
}

// Products are joined as on the CPU, where combine_test shows them to be right: those that share an operand, and those
// of the rows of both halves. The heads of 8 and the MLP of 48 let all parts be joined.
TEST(DoubleTraining, JoinedProductsGiveTheCpusBits) {
  Job job{.model = FindFamily("llama")->configure(
              {.layers = 2, .heads = 4, .kv_heads = 2, .dim = 32, .ffn = 48, .vocab = 38, .context = 12}),
          .precision = {DType::kBF16, DType::kF32, DType::kF32},
          .global_batch = 4,
          .steps = 4};
  const OverlapMode halves = OverlapMode::kHalves;
  uint64_t seed = 520;
  for (Layout layout : {Layout{.tp = 2, .sequence_parallel = true, .overlap = halves},
                        {.tp = 2, .sequence_parallel = true, .overlap = halves, .copies = true},
                        {.dp = 2, .fsdp = Fsdp::kFull, .overlap = halves},
                        {.dp = 2, .tp = 2, .sequence_parallel = true, .fsdp = Fsdp::kFull, .overlap = halves}}) {
    int64_t single = ProductsOf(job, layout);
    layout.combine = true;
    EXPECT_GT(single - ProductsOf(job, layout), 2 * 9 * job.model.layers) << "those of each half, and of both";
    for (bool symmetric : {false, true}) {
      layout.symmetric_memory = symmetric;
      WindowRun run = TrainInWindows(job, layout, seed++);
      EXPECT_EQ(run.made.symmetric > 0, symmetric) << testing_::Describe(layout);
    }
  }
}

// The need of a step counts the windows that a run allocates, and a communicator for each axis with copied gathers.
TEST(DoubleTraining, WindowsAreInTheMemoryNeed) {
  Job job = JobInWindows(DType::kBF16);
  for (auto [mode, symmetric] : {std::pair{GatherMode::kKernels, false},
                                 {GatherMode::kCopy, false},
                                 {GatherMode::kKernels, true},
                                 {GatherMode::kCopy, true}})
    test::OnDoubles(4, {.groups = test::NcclGroups}, [&, mode = mode, symmetric = symmetric](test::DoubleRank& rank) {
      RegisterCpuKernels(rank.context.kernels(DeviceKind::kCpu));
      RegisterCollectives(rank.context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
      test::RegisterDoubleKernels(rank.context);
      Layout layout{.dp = 2, .tp = 2, .fsdp = Fsdp::kFull, .device = DeviceKind::kCuda, .gather = mode};
      layout.symmetric_memory = symmetric;
      DeviceMesh mesh(rank.context, rank.groups, MeshOf(layout), rank.groups.kinds());
      testing_::RankRun run(job, layout, rank.context, mesh);
      StepPlans plans = run.training.Compile(run.runtime);
      int64_t copies = MemoryNeedOf(run.training, &plans, DeviceKind::kCuda).communicators - NcclBytes(MeshOf(layout));
      auto arena = int64_t(run.runner->arena_bytes()), windows = int64_t(rank.device.outside());
      EXPECT_EQ(arena, int64_t(plans.Largest().arena_bytes));
      EXPECT_EQ(windows > 0, symmetric || mode == GatherMode::kCopy);
      int64_t of_nccl = (mode == GatherMode::kCopy ? kNcclCopyBytes : 0) + (symmetric ? 2 * NcclSymmetricBytes(2) : 0);
      EXPECT_EQ(copies, windows > 0 ? of_nccl + windows - arena : 0);
    });
}

TEST(DoubleTraining, WhatCannotBeCopiedIsRefused) {
  Job job{.model = testing_::TinyLlama(), .precision = {DType::kF32, DType::kF32, DType::kF32}, .steps = 3};
  job.global_batch = 4;
  Layout layout{.dp = 2, .fsdp = Fsdp::kFull};
  auto copied = [&] {
    int64_t before = test::CountFakeCopies().gathers;
    TrainOnDoubles(job, layout, 140, test::NcclGroups);
    return test::CountFakeCopies().gathers - before;
  };
  auto refused = [&] {
    try {
      copied();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(copied(), 0);
  layout.gather = GatherMode::kCopy;
  EXPECT_GT(copied(), 0);
  {
    test::FailingNccl failing("memory");
    EXPECT_EQ(refused().find("expected windows of NCCL, as parallel.gather=copy needs, got: ncclMemAlloc of "), 0u);
  }
  job.global_batch = 3;
  job.precision.compute = DType::kBF16;
  EXPECT_NE(refused().find("got: expected collectives over dp at the same offsets on all ranks"), std::string::npos)
      << "workspaces of the CPU's kernels depend on the number of rows";
  layout.gather = GatherMode::kKernels;
  layout.symmetric_memory = true;
  EXPECT_EQ(
      refused().find(
          "expected windows of NCCL, as parallel.symmetric_memory=true needs, got: expected collectives over dp "),
      0u)
      << refused();
  layout.gather = GatherMode::kCopy;
  layout.symmetric_memory = false;
  layout.fsdp = Fsdp::kGradients;
  EXPECT_EQ(refused(),
            "parallel.gather: expected gathers over several GPUs, as copy asks for, of weights by fsdp full or of "
            "activations by sequence_parallel, or reduce-scatters in bf16, got a step without them; give kernels");
  EXPECT_EQ(test::FakeNcclFaults(), "");
}

// Late ranks and devices change no bit, and no order of calls makes ranks wait for each other.
TEST(DoubleTraining, DelaysChangeNoBit) {
  uint64_t seed = 80;
  for (const Layout& layout : test::ShareOf(testing_::StreamLayouts())) {
    if (MeshOf(layout).num_ranks() == 1) continue;
    Job job{.model = testing_::TinyLlama(), .precision = {DType::kF32, DType::kF32, DType::kF32}, .steps = 4};
    RunResult want = testing_::Train(job, layout);
    Ran got = TrainOnDoubles(job, layout, seed++, test::NcclGroups, 100);
    EXPECT_EQ(got.result.losses, want.losses) << testing_::Describe(layout);
    EXPECT_EQ(got.result.norms, want.norms) << testing_::Describe(layout);
  }
}

// A rank that fails in the middle of a step ends the others, which wait in streams. The reported error is the failing
// rank's.
TEST(DoubleTraining, ARankThatFailsEndsTheOthers) {
  Job job{.model = testing_::TinyLlama(), .precision = {DType::kF32, DType::kF32, DType::kF32}, .steps = 3};
  Layout layout{.dp = 2, .tp = 2, .fsdp = Fsdp::kFull, .device = DeviceKind::kCuda};
  auto begin = std::chrono::steady_clock::now();
  std::string text;
  try {
    test::OnDoubles(4, {}, [&](test::DoubleRank& rank) {
      RegisterCpuKernels(rank.context.kernels(DeviceKind::kCpu));
      test::RegisterDoubleKernels(rank.context);
      DeviceMesh mesh(rank.context, rank.groups, MeshOf(layout), rank.groups.kinds());
      std::atomic<int> made{0};
      if (rank.context.rank() == 2)
        mesh.set_call_filter([&](const ProcessGroup& group, Collective&) {
          if (group.device_kind() == DeviceKind::kCuda && ++made == 60) throw std::runtime_error("the cause");
          return true;
        });
      RunOnRank(job, layout, rank.context, mesh);
    });
  } catch (const std::exception& e) {
    text = e.what();
  }
  EXPECT_EQ(text, "the cause");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

// If ranks make different calls, the error names the module and the line of the call.
TEST(DoubleTraining, AnEnqueuedCallFailsWithItsModuleAndLine) {
  Job job{.model = testing_::TinyLlama(), .precision = {DType::kF32, DType::kF32, DType::kF32}, .steps = 3};
  Layout layout{.dp = 1, .tp = 2, .device = DeviceKind::kCuda};
  std::string text;
  try {
    test::OnDoubles(2, {}, [&](test::DoubleRank& rank) {
      RegisterCpuKernels(rank.context.kernels(DeviceKind::kCpu));
      test::RegisterDoubleKernels(rank.context);
      DeviceMesh mesh(rank.context, rank.groups, MeshOf(layout), rank.groups.kinds());
      std::atomic<int> made{0};
      if (rank.context.rank() == 1)
        mesh.set_call_filter([&](const ProcessGroup&, Collective& call) {
          if (call.site.starts_with("blocks.1.mlp") && ++made == 2) call.count--;
          return true;
        });
      RunOnRank(job, layout, rank.context, mesh);
    });
  } catch (const std::exception& e) {
    text = e.what();
  }
  EXPECT_NE(text.find("on group \"tp\" (rank "), text.npos) << text;
  EXPECT_NE(text.find(" at blocks.1.mlp"), text.npos) << text;
  EXPECT_NE(text.find(".cc:"), text.npos) << text;
}

}  // namespace
}  // namespace weft
