// Plans: rows can express a named plan, any rows give the losses of one rank, and rows of absent axes change nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "error_of.h"
#include "share.h"
#include "support/training.h"
#include "weft/core/compile/comm_plan.h"
#include "weft/parallel/nn/plans/mesh_axes.h"
#include "weft/parallel/step/init.h"
#include "weft/parallel/step/training_step.h"

namespace weft {
namespace {

using namespace testing_;
using Row = ShardingPlan::Row;

PlanOptions OptionsFor(const TransformerConfig& c, bool sequence_parallel = false) {
  return {c.heads, c.kv_heads, sequence_parallel};
}

TransformerConfig SmallGpt() {
  return FindFamily("gpt2")->configure(
      {.layers = 2, .heads = 4, .kv_heads = 4, .dim = 32, .ffn = 64, .vocab = 64, .context = 8, .dropout = 0.1});
}

Job DoubleJob(const TransformerConfig& model, int steps) {
  return {.model = model, .precision = {DType::kF64, DType::kF64, DType::kF64}, .steps = steps};
}

// Trains with `plan`.
RunResult TrainWith(const ShardingPlan& plan, Job job, const Layout& layout) {
  job.plan = plan;
  return Train(job, layout);
}

uint64_t HashOf(const ShardingPlan& plan, Job job, const Layout& layout) {
  job.plan = plan;
  return TrainingStep(job.model, OptionsOf(job, layout)).CommHash();
}

// Returns "expected one of" and the names of a table.
std::string OneOf(const auto& rows) {
  std::string names;
  for (const auto* row : rows) names += (names.empty() ? "" : ", ") + std::string(row->name);
  return ": expected one of " + names;
}

TEST(NamedPlans, AreFoundByNameOrListed) {
  for (const char* name : {"megatron", "bert", "marian", "vocabulary", "none"}) {
    ASSERT_NE(FindPlan(name), nullptr) << name;
    EXPECT_STREQ(FindPlan(name)->name, name);
    EXPECT_EQ(&PlanNamed(name), FindPlan(name));
  }
  EXPECT_EQ(FindPlan("megatorn"), nullptr);
  std::string error = test::ErrorOf([] { PlanNamed("megatorn"); });
  EXPECT_TRUE(error.starts_with("PlanNamed at plans_test.cc:")) << error;
  EXPECT_TRUE(error.ends_with(OneOf(NamedPlans()) + ", got \"megatorn\"; did you mean \"megatron\"?")) << error;
  for (const ModelFamily* family : ModelFamilies()) EXPECT_NE(FindPlan(family->plan), nullptr) << family->name;
}

TEST(Families, AreFoundByNameOrListed) {
  EXPECT_EQ(&Family("llama"), FindFamily("llama"));
  EXPECT_EQ(FindFamily("gpt3"), nullptr);
  std::string error = test::ErrorOf([] { Family("gpt3"); });
  EXPECT_TRUE(error.starts_with("Family at plans_test.cc:")) << error;
  EXPECT_TRUE(error.ends_with(OneOf(ModelFamilies()) + ", got \"gpt3\"; did you mean \"gpt2\"?")) << error;
}

// ---- Rows. ----

const MeshShape kTwo{{"dp", "tp"}, {2, 2}};

TEST(PlanRows, TheLastThatNamesAnAxisCounts) {
  ShardingPlan plan({{"*", "weight", {{"tp", Shard(1)}}},
                     {"blocks.*.up", "weight", {{"tp", Shard(0)}, {"dp", Shard(1)}}},
                     {"*.up", "weight", {{"dp", Replicate()}}},
                     {"*", "bias", {{"tp", Shard(0)}}}});
  EXPECT_EQ(plan.ParameterPlacement("head.weight", 2, kTwo), (Sharding{Replicate(), Shard(1)}));
  EXPECT_EQ(plan.ParameterPlacement("blocks.0.mlp.up.weight", 2, kTwo), (Sharding{Replicate(), Shard(0)}));
  EXPECT_EQ(plan.ParameterPlacement("positions", 2, kTwo), (Sharding{Replicate(), Replicate()}));
  EXPECT_EQ(plan.Target("blocks.0.mlp.up", "input", 3, kTwo), (Sharding{Keep(), Keep()}));
}

TEST(PlanRows, ADimThatATensorLacksIsRefused) {
  ShardingPlan plan({{"*.up", "weight", {{"tp", Shard(2)}}, "a.yaml:4:1: "}});
  EXPECT_EQ(test::ErrorOf([&] { plan.ParameterPlacement("mlp.up.weight", 2, kTwo); }),
            "a.yaml:4:1: shard(2) of the weight of mlp.up: expected a dim below 2, as many as that tensor has");
  EXPECT_EQ(plan.ParameterPlacement("mlp.up.weight", 3, kTwo), (Sharding{Replicate(), Shard(2)}));
  ShardingPlan last({{"*.up", "weight", {{"tp", Shard(-1)}}}});
  EXPECT_EQ(test::ErrorOf([&] { last.ParameterPlacement("mlp.up.weight", 2, kTwo); }),
            "shard(-1) of the weight of mlp.up: expected a dim counted from 0");
}

// A typo must not wait for the mesh on which it would hurt.
TEST(PlanRows, ADimThatATensorLacksIsRefusedOnOneRankToo) {
  ShardingPlan plan({{"*.up", "weight", {{"tp", Shard(2)}}}, {"a.up", "weight", {{"tp", Shard(0)}}}});
  const MeshShape one{{"tp"}, {1}};
  EXPECT_EQ(test::ErrorOf([&] { plan.ParameterPlacement("mlp.up.weight", 2, one); }),
            "shard(2) of the weight of mlp.up: expected a dim below 2, as many as that tensor has");
  EXPECT_EQ(plan.ParameterPlacement("a.up.weight", 2, one), (Sharding{Replicate()})) << "a later row names the axis";
}

std::string InitError(ShardingPlan plan) {
  std::string error;
  OnMesh({}, [&](Context&, DeviceMesh& mesh) {
    std::unique_ptr<Model> model = MakeModel(SmallGpt());
    error = test::ErrorOf([&] { Init(*model, AdamW(1e-3), mesh, {.plan = plan}); });
  });
  return error;
}

TEST(PlanRows, InitRefusesRowsThatMatchNothing) {
  auto expect = [](const Row& row, const std::string& text) {
    std::string error = InitError(ShardingPlan({row}));
    EXPECT_TRUE(error.starts_with("Init at plans_test.cc:")) << error;
    EXPECT_NE(error.find(text), error.npos) << error;
  };
  expect(
      {"*.atn", "weight", {{"tp", Shard(0)}}},
      "the row {\"*.atn\", \"weight\"} of the plan has no effect: \"*.atn\" matches no module of the model, which has "
      "embed, ");
  expect({"*.atn", "weight", {{"tp", Shard(0)}}}, "; did you mean \"*.attn\"?");
  expect({"*.mlp.up", "wieght", {{"tp", Shard(0)}}},
         "expected a point that is one of weight, bias, input, output, product, positions, got \"wieght\"; did you "
         "mean \"weight\"?");
  expect({"*.mlp", "weight", {{"tp", Shard(0)}}}, "no module that \"*.mlp\" matches has a weight");
  EXPECT_EQ(InitError(ShardingPlan({{"*.atn", "weight", {{"tp", Shard(0)}}, "", /*optional=*/true}})), "");
  EXPECT_EQ(InitError(ShardingPlan({{"*.attn", "input", {{"tp", Keep()}}}})), "");
}

TEST(PlanRows, OfNamedPlansMayMatchNothing) {
  const MeshShape two{{"dp", "tp"}, {1, 2}};
  for (const NamedPlan* plan : NamedPlans())
    for (bool sp : {false, true})
      EXPECT_EQ(InitError(plan->make({.heads = 4, .kv_heads = 4, .sequence_parallel = sp}, two)), "") << plan->name;
  EXPECT_EQ(InitError(TransformerPlan({.heads = 4, .kv_heads = 4, .sequence_parallel = true}, two)), "");
}

// Rows for an axis of one rank, or for an axis that the mesh lacks, change no collective, even if they come last.
TEST(PlanRows, OfAnAbsentAxisDoNothing) {
  for (auto [dp, tp] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}})
    for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kFull}) {
      Layout layout{.dp = dp, .tp = tp, .fsdp = fsdp};
      Job job{.model = SmallGpt()};
      ShardingPlan plan = OptionsOf(job, layout).model.plan;
      uint64_t want = HashOf(plan, job, layout);
      for (const MeshAxis& axis : kMeshAxes) {
        std::string name(axis.name());
        if ((name == "dp" && dp > 1) || (name == "tp" && tp > 1)) continue;
        for (const char* point : {"weight", "bias", "input", "output", "product"})
          for (Placement p : {Shard(0), Replicate()}) plan.Append({{"*", point, {{name, p}}}});
      }
      EXPECT_EQ(HashOf(plan, job, layout), want) << Describe(layout);
    }
}

// ---- Megatron's plan, written as rows. ----

std::vector<Row> MegatronRows(bool sequence_parallel) {
  Placement residual = sequence_parallel ? Shard(1) : Replicate();
  std::vector<Row> rows{{"head", "weight", {{"tp", Shard(0)}}},         {"embed", "weight", {{"tp", Shard(0)}}},
                        {"embed", "output", {{"tp", residual}}},        {"*.attn.[qkv]", "weight", {{"tp", Shard(1)}}},
                        {"*.attn.[qkv]", "bias", {{"tp", Shard(0)}}},   {"*.attn.proj", "weight", {{"tp", Shard(0)}}},
                        {"*.attn.proj", "product", {{"tp", residual}}}, {"*.mlp.up", "weight", {{"tp", Shard(1)}}},
                        {"*.mlp.up", "bias", {{"tp", Shard(0)}}},       {"*.mlp.down", "weight", {{"tp", Shard(0)}}},
                        {"*.mlp.down", "product", {{"tp", residual}}}};
  if (sequence_parallel)
    for (const char* gathered : {"*.attn", "*.mlp", "head"}) rows.push_back({gathered, "input", {{"tp", Replicate()}}});
  return rows;
}

TEST(Megatron, AsRowsIsMegatron) {
  for (bool sp : {false, true})
    for (int dp : {1, 2})
      for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull}) {
        Layout layout{.dp = dp, .tp = 2, .sequence_parallel = sp, .fsdp = fsdp};
        Job job = DoubleJob(TinyGpt2(), 3);
        ShardingPlan plan = PlanNamed("none").make(OptionsFor(job.model, sp), MeshOf(layout));
        plan.Append(MegatronRows(sp));
        EXPECT_EQ(HashOf(plan, job, layout), TrainingStep(job.model, OptionsOf(job, layout)).CommHash());
        RunResult want = Train(job, layout), got = TrainWith(plan, job, layout);
        EXPECT_EQ(got.losses, want.losses) << Describe(layout);
        EXPECT_EQ(got.norms, want.norms) << Describe(layout);
      }
}

int AllReduces(const ShardingPlan& plan, const std::string& within) {
  StepOptions o = OptionsOf({.model = SmallGpt()}, {.dp = 1, .tp = 2});
  o.model.plan = plan;
  TrainingStep step(SmallGpt(), o);
  int n = 0;
  for (const CommLine& l : CommPlan(step.step()))
    n += l.op == Op::kAllReduce && l.phase == Phase::kForward && l.scope.find(within) != std::string::npos;
  return n;
}

// Rows that replicate the MLP on every rank remove its all-reduces from the plan, and no others.
TEST(Megatron, ReplicateRowsTakeCollectivesAway) {
  ShardingPlan plan = MegatronPlan(OptionsFor(SmallGpt()), {{"dp", "tp"}, {1, 2}});
  EXPECT_EQ(AllReduces(plan, ".mlp"), 2);
  EXPECT_EQ(AllReduces(plan, ".attn"), 2);
  plan.Append({{"*.mlp.*", "weight", {{"tp", Replicate()}}}, {"*.mlp.*", "bias", {{"tp", Replicate()}}}});
  EXPECT_EQ(AllReduces(plan, ".mlp"), 0);
  EXPECT_EQ(AllReduces(plan, ".attn"), 2);
}

// ---- A family's own plan. ----

TEST(BertPlan, CutsTheDenseLayerAndKeepsTheLosses) {
  Job job = DoubleJob(TinyBert(), 5);
  RunResult want = Train(job, {});
  for (bool sp : {false, true})
    for (int dp : {1, 2})
      for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kFull}) {
        Layout layout{.dp = dp, .tp = 2, .sequence_parallel = sp, .fsdp = fsdp};
        ShardingPlan plan = PlanNamed(Family("bert").plan).make(OptionsFor(job.model, sp), MeshOf(layout));
        EXPECT_EQ(plan.ParameterPlacement("dense.weight", 2, MeshOf(layout))[1], Shard(1, 0));
        StepOptions checked = OptionsOf(job, layout);
        checked.model.plan = plan;
        checked.check = true;
        EXPECT_EQ(test::ErrorOf([&] { TrainingStep(job.model, checked).Eval(); }), "") << Describe(layout);
        RunResult got = TrainWith(plan, job, layout);
        for (size_t i = 0; i < want.losses.size(); i++)
          ASSERT_NEAR(got.losses[i], want.losses[i], 1e-9 * want.losses[i]) << Describe(layout) << " step " << i + 1;
      }
}

TEST(MarianPlan, CutsAttentionToTheEncoderAndKeepsTheLosses) {
  Job job = DoubleJob(TinyMarian(), 5);
  RunResult want = Train(job, {});
  for (bool sp : {false, true})
    for (int dp : {1, 2}) {
      Layout layout{.dp = dp, .tp = 2, .sequence_parallel = sp, .fsdp = dp == 2 ? Fsdp::kFull : Fsdp::kNone};
      ShardingPlan plan = PlanNamed(Family("marian").plan).make(OptionsFor(job.model, sp), MeshOf(layout));
      for (const char* part : {"decoder.0.cross.q.weight", "decoder.0.attn.q.weight", "encoder.1.attn.q.weight"})
        EXPECT_EQ(plan.ParameterPlacement(part, 3, MeshOf(layout))[1], Shard(1, 0)) << part;
      RunResult got = TrainWith(plan, job, layout);
      for (size_t i = 0; i < want.losses.size(); i++)
        ASSERT_NEAR(got.losses[i], want.losses[i], 1e-9 * want.losses[i]) << Describe(layout) << " step " << i + 1;
    }
}

// ---- The vocabulary over dp. ----

// Whether the embedding's table, or its gradient, crosses the ranks that shard it.
bool MovesTable(const Job& job, const Layout& layout) {
  TrainingStep step(job.model, OptionsOf(job, layout));
  std::vector<CommLine> lines = CommPlan(step.step());
  return std::any_of(lines.begin(), lines.end(), [](const CommLine& line) {
    return line.scope.find("embed") != line.scope.npos && line.axis_name == "dp" && line.shape.size() == 2 &&
           IsFloating(line.dtype);
  });
}

TEST(VocabularyPlan, MovesNoTableAndKeepsTheLosses) {
  for (const char* family : {"gpt2", "llama", "neox"}) {
    Job job = DoubleJob(Tiny(family), 4);
    RunResult want = Train(job, {});
    bool tied = job.model.tie_embeddings;  // then the head moves the table
    for (auto [replicate, dp, tp] : {std::tuple{1, 2, 1}, {1, 4, 1}, {1, 2, 2}, {2, 2, 1}})
      for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull})
        for (bool sp : {false, true}) {
          if (sp && tp == 1) continue;
          Layout layout{.dp = dp, .tp = tp, .sequence_parallel = sp, .fsdp = fsdp, .replicate = replicate};
          SCOPED_TRACE(fmt::format("{} {}", family, Describe(layout)));
          job.named_plan = "megatron";
          EXPECT_TRUE(tied || MovesTable(job, layout));
          job.named_plan = "vocabulary";
          EXPECT_TRUE(tied || !MovesTable(job, layout));
          RunResult got = Train(job, layout);
          for (size_t i = 0; i < want.losses.size(); i++) {
            ASSERT_NEAR(got.losses[i], want.losses[i], 1e-9 * want.losses[i]) << "step " << i + 1;
            ASSERT_NEAR(got.norms[i], want.norms[i], 1e-9 * want.norms[i]) << "step " << i + 1;
          }
        }
  }
}

// ---- Any rows. ----

// A point of a decoder's modules, and the number of dims of the tensor there.
struct Point {
  const char *module, *at;
  int rank;
};
constexpr Point kPoints[] = {
    {"embed", "weight", 2},         {"embed", "output", 3},       {"blocks.*.norm[12]", "weight", 1},
    {"blocks.*.norm1", "input", 3}, {"*.norm2", "output", 3},     {"*.attn", "input", 3},
    {"*.attn", "output", 3},        {"*.attn.q", "weight", 3},    {"*.attn.q", "product", 4},
    {"*.attn.q", "bias", 2},        {"*.attn.[kv]", "weight", 3}, {"*.attn.[kv]", "output", 4},
    {"*.attn.proj", "weight", 3},   {"*.attn.proj", "input", 4},  {"*.attn.proj", "product", 3},
    {"*.attn.proj", "bias", 1},     {"*.mlp", "input", 3},        {"*.mlp", "output", 3},
    {"*.mlp.up", "weight", 2},      {"*.mlp.up", "bias", 1},      {"*.mlp.up", "output", 3},
    {"*.mlp.down", "weight", 2},    {"*.mlp.down", "input", 3},   {"*.mlp.down", "product", 3},
    {"blocks.1", "output", 3},      {"norm", "output", 3},        {"head", "input", 3},
    {"head", "output", 3}};

// Returns Megatron's plan, or none, with random rows appended.
ShardingPlan AnyPlan(std::mt19937& draw, const TransformerConfig& model, const MeshShape& mesh) {
  auto below = [&](size_t n) { return size_t(draw() % n); };
  ShardingPlan plan = PlanNamed(below(3) ? "megatron" : "none").make(OptionsFor(model, below(2) == 0), mesh);
  for (size_t rows = 1 + below(6); rows > 0; rows--) {
    const Point& p = kPoints[below(std::size(kPoints))];
    auto any = [&] { return below(2) ? Shard(int(below(size_t(p.rank)))) : Replicate(); };
    Row row{p.module, p.at, {{"tp", any()}}};
    if (below(5) == 0) row.placements.emplace_back("dp", any());
    plan.Append({row});
  }
  return plan;
}

std::string Text(const ShardingPlan& plan) {
  std::string text;
  for (const Row& row : plan.rows()) {
    text += fmt::format("{} {}", row.module, row.point);
    for (const auto& [axis, p] : row.placements) text += fmt::format(" {}: {}", axis, ToString(p));
    text += "\n";
  }
  return text;
}

// A plan gives the losses of one rank, or is refused because it asks for two shards in one product.
TEST(AnyRows, GiveOneRanksLossesOrAreRefused) {
  int trained = 0, refused = 0;
  double apart = 0;
  for (const char* family : {"gpt2", "llama"}) {
    Job job = DoubleJob(Tiny(family), 3);
    RunResult want = Train(job, {});
    for (int seed = 0; seed < std::max(10, 120 / test::Share()); seed++)
      for (int dp : {1, 2}) {
        std::mt19937 draw(unsigned(seed * 2 + dp));
        Layout layout{.dp = dp, .tp = 2, .fsdp = dp == 2 ? Fsdp(draw() % 3) : Fsdp::kNone};
        ShardingPlan plan = AnyPlan(draw, job.model, MeshOf(layout));
        SCOPED_TRACE(fmt::format("{} {} seed {}\n{}", family, Describe(layout), seed, Text(plan)));
        std::string error = test::ErrorOf([&] { HashOf(plan, job, layout); });
        if (!error.empty()) {
          EXPECT_NE(error.find("reshard one of them"), error.npos) << error;
          refused++;
          continue;
        }
        RunResult got = TrainWith(plan, job, layout);
        for (size_t i = 0; i < want.losses.size(); i++) {
          apart = std::max(apart, std::abs(got.losses[i] / want.losses[i] - 1));
          ASSERT_NEAR(got.losses[i], want.losses[i], 1e-9 * want.losses[i]) << "step " << i + 1;
          ASSERT_NEAR(got.norms[i], want.norms[i], 1e-9 * want.norms[i]) << "step " << i + 1;
        }
        trained++;
      }
  }
  EXPECT_GT(trained, refused);
  fmt::print("shown: {} plans of random rows, losses differ from one rank's by at most {:.2g}; {} refused\n", trained,
             apart, refused);
}

}  // namespace
}  // namespace weft
