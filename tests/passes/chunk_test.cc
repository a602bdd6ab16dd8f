// Chunk: rows between collectives in chunks give what whole rows give, with the same bytes in more calls.
#include "weft/core/passes/chunk/chunk.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/reference/loops.h"
#include "parallel/testing.h"
#include "share.h"
#include "support/training.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/ir/verify.h"
#include "weft/core/ops/equation.h"
#include "weft/core/ops/ops.h"
#include "weft/core/passes/combine/combine.h"
#include "weft/core/passes/of_parameters.h"
#include "weft/core/passes/parts.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/collective_fault.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/mesh.h"
#include "weft/kernels/cuda/plan/planned_rows.h"
#include "weft/parallel/step/training_step.h"

namespace weft {
namespace {

using testing_::Job;
using testing_::Layout;
using testing_::RunResult;

std::vector<double> Elements(const TensorView& v) {
  std::vector<double> values(size_t(v.CapacityElements()));
  DispatchFloating(v.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (size_t i = 0; i < values.size(); i++) values[i] = double(float(v.as<T>()[i]));
    if constexpr (std::is_same_v<T, double>) std::copy_n(v.as<T>(), values.size(), values.begin());
  });
  return values;
}

// A product that adds the terms of each element in one order, whatever the extents are. OpenBLAS does not: the last
// bits of a row depend on the number of rows.
void ProductInOrder(const KernelCall& call) {
  Equation e(call.attrs->Text("eq"));
  std::vector<test::ProductLabel> labels;
  auto stride = [](const TensorView& v, const std::string& names, char label) {
    size_t at = names.find(label);
    return at == std::string::npos ? 0 : v.dim(int(at)).stride;
  };
  std::string all = e.out;  // the summed labels are the last ones
  for (char label : e.a + e.b)
    if (all.find(label) == std::string::npos) all += label;
  for (char label : all) {
    size_t at = e.a.find(label);
    const DimView& dim = at == std::string::npos ? call.in[1].dim(int(e.b.find(label))) : call.in[0].dim(int(at));
    labels.push_back({dim.extent, stride(call.in[0], e.a, label), stride(call.in[1], e.b, label),
                      stride(call.out[0], e.out, label)});
  }
  const TensorView& out = call.out[0];
  std::vector<double> sums(size_t(out.CapacityElements())), magnitudes(sums.size());
  test::AddProducts(labels, Elements(call.in[0]).data(), Elements(call.in[1]).data(), sums.data(), magnitudes.data());
  DispatchFloating(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, double>)
      std::copy(sums.begin(), sums.end(), out.as<T>());
    else
      for (size_t i = 0; i < sums.size(); i++) out.as<T>()[i] = T(float(sums[i]));
  });
}

// Collectives are late by random times.
RunResult TrainLate(const Job& job, const Layout& layout, bool in_order) {
  RunResult result;
  testing_::OnMesh(layout, [&](Context& context, DeviceMesh& mesh) {
    if (in_order) context.kernels(DeviceKind::kCpu).Add(Op::kEinsum, {.run = ProductInOrder});
    CollectiveFault fault("delay", /*nth=*/100);  // microseconds, at most
    mesh.set_call_filter([&](const ProcessGroup& group, Collective& call) { return fault.Change(group, call); });
    RunResult mine = RunOnRank(job, layout, context, mesh);
    if (context.rank() == 0) result = mine;
  });
  return result;
}

// Tensor parallel layouts, whose chunks are tokens of a sequence or sequences of a batch.
std::vector<Layout> Layouts() {
  std::vector<Layout> layouts;
  for (bool sequence : {true, false})
    for (Layout layout :
         {Layout{.tp = 2}, Layout{.tp = 3}, Layout{.dp = 2, .tp = 2, .fsdp = Fsdp::kFull},
          Layout{.dp = 2, .tp = 2, .micro_batch = 1}, Layout{.tp = 2, .recompute = {RecomputeMode::kSelective}},
          Layout{.tp = 2, .recompute = {RecomputeMode::kFull}}}) {
      layout.sequence_parallel = sequence;
      layouts.push_back(layout);
    }
  return layouts;
}

Job JobOf(const char* family, DType dtype, int64_t batch) {
  DType wide = dtype == DType::kBF16 ? DType::kF32 : dtype;
  Job job{.model = testing_::Tiny(family),
          .precision = {dtype, wide, wide},
          .global_batch = batch,
          .steps = 2,
          .named_plan = FindFamily(family)->plan};
  // All ranks have the same number of rows, and enough for four chunks. Half of marian's are the source.
  job.model.context = std::string_view(family) == "marian" ? 24 : 12;
  return job;
}

void ExpectSameBytesInMoreCalls(const RunResult& got, const RunResult& want, const std::string& what) {
  int64_t calls = 0, whole = 0;
  for (const auto& [key, count] : want.counts) {
    auto it = got.counts.find(key);
    ASSERT_NE(it, got.counts.end()) << what;
    EXPECT_EQ(it->second.bytes, count.bytes) << what << " " << key.second;
    EXPECT_GE(it->second.calls, count.calls) << what << " " << key.second;
    calls += it->second.calls;
    whole += count.calls;
  }
  EXPECT_GT(calls, whole + 10) << what;
}

class ChunkTraining : public testing::TestWithParam<const char*> {
 protected:
  // Calls fn(job, layout, number of the round, its description) for all layouts, with a sequence per rank and with
  // several.
  void ForEach(const std::vector<DType>& types, const std::function<void(const Job&, Layout, int, std::string)>& fn) {
    int round = 0;
    for (Layout layout : test::ShareOf(Layouts()))
      for (int64_t per_rank : {1, 3}) {
        DType dtype = types[size_t(round) % types.size()];
        layout.overlap = OverlapMode::kChunks;
        layout.chunks = 2 + round % 3;
        std::string what = fmt::format("{} {} {} sequences {} chunks", Describe(layout), Name(dtype),
                                       per_rank * layout.dp, layout.chunks);
        fn(JobOf(GetParam(), dtype, per_rank * layout.dp), layout, round++, what);
      }
  }
};

TEST_P(ChunkTraining, GivesTheBitsOfWholeRowsIfProductsDo) {
  ForEach({DType::kF64, DType::kF32, DType::kBF16}, [](const Job& job, Layout layout, int, const std::string& what) {
    RunResult got = TrainLate(job, layout, true);
    layout.overlap = OverlapMode::kNever;
    RunResult want = TrainLate(job, layout, true);
    EXPECT_EQ(got.losses, want.losses) << what;
    EXPECT_EQ(got.norms, want.norms) << what;
    EXPECT_EQ(got.eval_sum, want.eval_sum) << what;
    ExpectSameBytesInMoreCalls(got, want, what);
  });
}

// With the products of the libraries: f64 within two steps of rounding, bf16 within the rounding of one activation.
TEST_P(ChunkTraining, GivesTheNumbersOfWholeRows) {
  ForEach({DType::kF64, DType::kBF16}, [](const Job& job, Layout layout, int, const std::string& what) {
    RunResult got = TrainLate(job, layout, false);
    layout.overlap = OverlapMode::kNever;
    RunResult want = TrainLate(job, layout, false);
    EXPECT_LT(testing_::LossDistance(got, want), job.precision.compute == DType::kF64 ? 1e-13 : 0x1p-9) << what;
    ExpectSameBytesInMoreCalls(got, want, what);
  });
}
INSTANTIATE_TEST_SUITE_P(All, ChunkTraining, testing::Values("gpt2", "llama", "neox", "bert", "gemma2", "marian"));

// How often a program makes each collective of the forward and the backward pass, by the id of its node, and how many
// elements it moves in all.
struct Moved {
  int calls = 0;
  int64_t elements = 0;
};
std::map<std::pair<int64_t, Op>, Moved> MovedBy(const LocalProgram& program) {
  std::map<std::pair<int64_t, Op>, Moved> moved;
  for (const auto& node : program.graph.nodes) {
    if (!IsCollective(node->op) || node->phase == Phase::kOptimizer) continue;
    Moved& m = moved[{node->id, node->op}];
    m.calls++;
    m.elements += NumElements(node->outputs[0].shape);
  }
  return moved;
}

// Expects that each collective is made once or once per chunk, and returns how many are made in chunks.
int ExpectInChunks(const LocalProgram& whole, const LocalProgram& cut, int chunks, const std::string& what) {
  int in_chunks = 0;
  auto now = MovedBy(cut);
  for (const auto& [key, was] : MovedBy(whole)) {
    Moved is = now[key];
    EXPECT_EQ(is.elements, was.elements) << what << " " << Name(key.second);
    EXPECT_TRUE(is.calls == was.calls || is.calls == chunks * was.calls) << what << " " << is.calls;
    in_chunks += is.calls > was.calls;
  }
  return in_chunks;
}

// In the forward pass a block has two collectives without sequence parallel and four with it, and in the backward pass
// as many. A product waits for all but the last one of the backward pass, if the first one gets no rows of a product.
TEST(Chunk, CutsTheCollectivesOfBlocks) {
  for (const char* family : {"gpt2", "llama", "neox", "bert", "gemma2"})
    for (bool sequence : {true, false})
      for (int tp : {2, 3})
        for (int chunks : {2, 3, 4}) {
          Layout layout{.tp = tp, .sequence_parallel = sequence};
          TrainingStep step(JobOf(family, DType::kF32, 1).model, OptionsOf(JobOf(family, DType::kF32, 1), layout));
          std::string what = fmt::format("{} {} {} chunks", family, Describe(layout), chunks);
          int cut = ExpectInChunks(step.step(), Chunk(step.step(), {.chunks = chunks}), chunks, what);
          int layers = int(JobOf(family, DType::kF32, 1).model.layers);
          EXPECT_GE(cut, layers * (sequence ? 8 : 4) - 2) << what;
        }
}

bool IsUnchanged(const LocalProgram& program, const ChunkOptions& options) {
  return Chunk(program, options).graph.nodes == program.graph.nodes;
}
// Returns how many more collectives the modules under `path` make in chunks.
int CutIn(std::string_view path, const LocalProgram& whole, const LocalProgram& cut) {
  int count = 0;
  for (const LocalProgram* program : {&whole, &cut})
    for (const auto& node : program->graph.nodes)
      if (IsCollective(node->op) && node->scope && node->scope->starts_with(path)) count += program == &cut ? 1 : -1;
  return count;
}

LocalProgram ProgramOf(Job job, const Layout& layout, int64_t context) {
  job.model.context = context;
  return TrainingStep(job.model, OptionsOf(job, layout)).step();
}

// Rows are not cut if no collective moves activations. Those that ranks shard are not cut if ranks hold different
// numbers of them, or too few.
TEST(Chunk, LeavesOtherProgramsAsTheyAre) {
  for (const char* family : {"gpt2", "llama"}) {
    for (const Layout& layout : {Layout{}, Layout{.dp = 4}, Layout{.dp = 2, .fsdp = Fsdp::kFull}})
      EXPECT_TRUE(IsUnchanged(ProgramOf(JobOf(family, DType::kF32, layout.dp), layout, 12), {.chunks = 2}))
          << family << " " << Describe(layout);
    for (auto [tp, context, chunks] : {std::array{2, 7, 2}, {3, 10, 2}, {3, 12, 5}, {2, 12, 7}}) {
      LocalProgram whole = ProgramOf(JobOf(family, DType::kF32, 1), {.tp = tp, .sequence_parallel = true}, context);
      auto now = MovedBy(Chunk(whole, {.chunks = chunks}));
      for (const auto& [key, was] : MovedBy(whole))
        if (key.second != Op::kAllReduce) {
          EXPECT_EQ(now[key].calls, was.calls) << family << " " << tp << " " << context;
        }
    }
  }
}

// A broadcast is computed in chunks of tokens, and a product that contracts the tokens is computed in chunks of
// sequences. So it cuts the broadcast in another way.
TEST(Chunk, CutsMayMeet) {
  MeshShape mesh{{"tp"}, {2}};
  Sharding whole(1), first({Shard(0)}), second({Shard(1)});
  Graph graph = test::Trace([&] {
    Var x = Leaf("x", DType::kF32, {4, 8, 6}, second), w = Leaf("w", DType::kF32, {6, 5}, whole),
        up = Leaf("up", DType::kF32, {8, 4}, second), down = Leaf("down", DType::kF32, {4, 3}, first);
    Var all = Reshard(x, whole);                                                          // [4, 8, 6]
    Var sums = Broadcast(ReduceSum(all, 2), 2, 6);                                        // [4, 8, 6]
    Var rows = Einsum("btc,cd->btd", all * sums, w);                                      // [4, 8, 5]
    Var contracted = Einsum("btc,te->bce", sums, up);                                     // [4, 6, 4]
    Var reduced = Reshard(Einsum("bce,ef->bcf", contracted, down), whole);                // [4, 6, 3]
    Var last = Einsum("bcf,fg->bcg", reduced, Leaf("last", DType::kF32, {3, 2}, whole));  // [4, 6, 2]
    return test::Traced{{{"rows", rows}, {"last", last}}};
  });
  LocalProgram program = Partition(graph, {.mesh = mesh}), cut = Chunk(program, {.chunks = 2});
  VerifyLocal(cut.graph, mesh);
  for (Op op : {Op::kAllGather, Op::kAllReduce}) {
    auto made = [op](const LocalProgram& p) {
      return std::ranges::count_if(p.graph.nodes, [op](const auto& node) { return node->op == op; });
    };
    EXPECT_EQ(made(cut), 2 * made(program)) << Name(op);
    EXPECT_EQ(made(program), 1) << Name(op);
  }
}

// Sequences of a batch stay in chunks from the first block to the last one, attention included, so a forward pass has
// two chains of work. What the backward pass reads as a whole is written where it is joined. Of joined queries, keys
// and values, only the values are read as they are, and they are copied: the rest lives no longer than its chunk.
TEST(Chunk, SequencesNeedNoCopies) {
  KernelTable table;
  cuda::AddPlannedRows(table);
  RegisterCollectives(table, DeviceKind::kCuda);
  int64_t slices = 0;
  for (const char* family : {"gpt2", "llama", "neox", "gemma2"})
    for (const Layout& layout : {Layout{.tp = 2, .sequence_parallel = true},
                                 {.tp = 2},
                                 {.dp = 2, .tp = 2, .sequence_parallel = true},
                                 {.dp = 2, .tp = 2, .sequence_parallel = true, .fsdp = Fsdp::kFull}})
      for (bool combine : {false, true}) {
        int chunks = 2;
        Job job = JobOf(family, DType::kF32, int64_t(2) * chunks * layout.dp);
        job.model = FindFamily(family)->configure(
            {.layers = 2, .heads = 4, .kv_heads = 2, .dim = 32, .ffn = 48, .vocab = 37, .context = 12});
        job.model.dropout = 0;  // it reads positions
        LocalProgram whole = TrainingStep(job.model, OptionsOf(job, layout)).step();
        if (combine) whole = Combine(whole, table);
        slices += std::ranges::count_if(whole.graph.nodes, [](const auto& node) { return node->op == Op::kSlice; });
        LocalProgram cut = Chunk(whole, {.chunks = chunks});
        std::string what = fmt::format("{} {} {}", family, Describe(layout), combine);
        Parts parts = FindParts(cut.graph, table);
        std::vector<bool> of_parameters = OfParameters(cut.graph);
        int in_chunks = 0, forward = 0, copied = 0, unpacked = 0;
        for (const auto& node : cut.graph.nodes) {
          if (node->phase != Phase::kForward) continue;
          bool part = node->op == Op::kConcat || node->op == Op::kSlice;
          bool view = parts.slices.contains(node.get()) || parts.joins.contains(node.get());
          copied += part && !view && !of_parameters[size_t(&node - cut.graph.nodes.data())];
          unpacked += node->op == Op::kSplit;
          forward += node->op == Op::kSdpa;
          in_chunks += node->op == Op::kSdpa && node->outputs[0].global[0] == job.global_batch / chunks;
        }
        EXPECT_EQ(forward, chunks * job.model.layers) << what;
        EXPECT_EQ(in_chunks, forward) << what;
        EXPECT_LE(copied, combine ? job.model.layers : 0) << what;
        EXPECT_EQ(unpacked, 0) << what;
      }
  EXPECT_GT(slices, 40) << "of joined products";
}

// A step in chunks of sequences takes the memory of one that only fills.
TEST(Chunk, SequencesTakeNoMoreMemory) {
  for (Layout layout : {Layout{.tp = 2, .sequence_parallel = true},
                        {.tp = 2},
                        {.dp = 2, .tp = 2},
                        {.tp = 2, .sequence_parallel = true, .combine = true}}) {
    Job job = JobOf("llama", DType::kF32, 4 * layout.dp);
    job.model = FindFamily("llama")->configure(
        {.layers = 6, .heads = 4, .kv_heads = 2, .dim = 256, .ffn = 512, .vocab = 37, .context = 256});
    size_t arena[2] = {};
    int64_t attentions[2] = {};
    for (bool chunks : {false, true}) {
      layout.overlap = chunks ? OverlapMode::kChunks : OverlapMode::kFill;
      testing_::OnMesh(layout, [&](Context& context, DeviceMesh& mesh) {
        StepPlans plans =
            TrainingStep(job.model, OptionsOf(job, layout)).Compile(RuntimeOf(context, mesh, DeviceKind::kCpu));
        if (context.rank() != 0) return;
        arena[chunks] = plans.step.arena_bytes;
        attentions[chunks] =
            std::ranges::count_if(plans.step.steps, [](const Step& s) { return s.node->op == Op::kSdpa; });
      });
    }
    EXPECT_EQ(attentions[true], 2 * attentions[false]) << Describe(layout);
    EXPECT_LE(arena[true], arena[false] + arena[false] / 20) << Describe(layout);
  }
}

// Without a number of chunks the cost decides.
LocalProgram LargeProgram(int64_t vocab, int64_t batch = 1) {
  Job job = JobOf("llama", DType::kF32, batch);
  job.model = FindFamily("llama")->configure(
      {.layers = 2, .heads = 4, .kv_heads = 4, .dim = 512, .ffn = 2048, .vocab = vocab, .context = 512});
  return TrainingStep(job.model, OptionsOf(job, {.tp = 2, .sequence_parallel = true})).step();
}

TEST(ChunkCost, IsLessThanWhatIsHidden) {
  LocalProgram program = LargeProgram(64);
  int before = 0;
  for (double link_time : {0.1, 1.0, 4.0, 16.0, 64.0, 256.0}) {
    int now = CutIn("", program, Chunk(program, {.link_time = link_time}));
    EXPECT_GE(now, before) << link_time;
    before = now;
  }
  EXPECT_GT(before, 10);
  EXPECT_TRUE(IsUnchanged(program, {.link_time = 1}));
  EXPECT_TRUE(IsUnchanged(program, {.link_time = 1e3, .least_outputs = 1 << 20}));
}

// Sequences are cut as a whole, where most of the time of products is in large chunks.
TEST(ChunkCost, LeavesSmallSequencesWhole) {
  LocalProgram program = LargeProgram(64, 4);  // a rank's products have 4 x 512 x 256 to 4 x 512 x 1024 elements
  EXPECT_TRUE(IsUnchanged(program, {.link_time = 1e3, .least_outputs = (1 << 20) + 1}));
  for (int64_t least : {1 << 16, 1 << 18}) {
    LocalProgram cut = Chunk(program, {.link_time = 1e3, .least_outputs = least});
    EXPECT_GT(CutIn("blocks", program, cut), 6) << least;
    for (const auto& node : cut.graph.nodes)
      if (node->op == Op::kSdpa) {
        EXPECT_EQ(node->outputs[0].global[0], 2) << least;
      }
  }
}

// To join the scores of many words takes longer than to gather the rows that they are computed from.
TEST(ChunkCost, LeavesAWideHeadWhole) {
  for (int64_t vocab : {64, 65536}) {
    LocalProgram program = LargeProgram(vocab), cut = Chunk(program, {.least_outputs = 0});
    EXPECT_GT(CutIn("blocks", program, cut), 6) << vocab;
    EXPECT_EQ(CutIn("head", program, cut) > 0, vocab == 64) << vocab;
  }
}

}  // namespace
}  // namespace weft
