// A run may keep its weights in the compute type as well as the master weights. The optimizer writes both, so every
// step has the bits of one that casts the master weights.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "share.h"
#include "support/training.h"
#include "weft/parallel/step/sharded_model.h"

namespace weft {
namespace {

using namespace testing_;

struct Param {
  std::string name;
  Job job;
  Layout layout;
};
std::string ParamName(const testing::TestParamInfo<Param>& p) {
  return fmt::format("{}_{}", p.param.name, Describe(p.param.layout));
}
void PrintTo(const Param& p, std::ostream* out) { *out << p.name << " " << Describe(p.layout); }

Job JobOf(const char* family, DType compute) {
  DType sums = compute == DType::kF16 ? DType::kF16 : DType::kF32;
  return {.model = Tiny(family), .precision = {compute, DType::kF32, sums}, .steps = 4};
}

// The layouts of a family, optimizers, and types in which gradients are summed and sent.
std::vector<Param> Runs() {
  std::vector<Param> all;
  for (const char* family : kFamilies)
    for (DType compute : {DType::kBF16, DType::kF16}) {
      if (compute == DType::kF16 && family != std::string_view("llama")) continue;  // skipped steps are of no family
      std::vector<Layout> layouts = StreamLayouts();
      for (ExecutorKind executor : {ExecutorKind::kCompiled, ExecutorKind::kEager, ExecutorKind::kInterpret})
        for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull})
          layouts.push_back({.dp = 2, .fsdp = fsdp, .executor = executor});
      layouts.push_back({.micro_batch = 2});
      for (const Layout& layout : layouts)
        all.push_back({fmt::format("{}_{}", family, Name(compute)), JobOf(family, compute), layout});
    }
  for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kFull}) {
    const Layout layout{.dp = 2, .tp = 2, .fsdp = fsdp, .micro_batch = 1};
    for (const char* optimizer : {"sgd", "lion", "muon"}) {
      Job job = JobOf("llama", DType::kBF16);
      job.optimizer = WithDefaults(optimizer);
      all.push_back({optimizer, job, layout});
    }
    Job narrow = JobOf("llama", DType::kBF16), wired = narrow;
    narrow.precision.reduce = DType::kBF16;
    wired.precision.wire = DType::kBF16;
    all.push_back({"reduce_bf16", narrow, layout});
    all.push_back({"wire_bf16", wired, layout});
  }
  return all;
}

class Copies : public testing::TestWithParam<Param> {};

TEST_P(Copies, HaveTheBitsOfCasts) {
  auto [name, job, layout] = GetParam();
  RunResult cast = Train(job, layout);
  layout.copies = true;
  RunResult kept = Train(job, layout);
  EXPECT_EQ(kept.losses, cast.losses);
  EXPECT_EQ(kept.norms, cast.norms);
  EXPECT_EQ(kept.scales, cast.scales);
  EXPECT_EQ(kept.eval_sum, cast.eval_sum);
  EXPECT_EQ(kept.counts, cast.counts) << "collectives";
}
INSTANTIATE_TEST_SUITE_P(All, Copies, testing::ValuesIn(test::ShareOf(Runs())), ParamName);

// Norms are used in the type in which they are stored, and so is everything in a run that computes in that type.
TEST(Copies, AreOfWeightsThatAreUsedInAnotherType) {
  for (const char* family : kFamilies)
    for (DType compute : {DType::kF32, DType::kBF16})
      for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kFull}) {
        StepOptions options = OptionsOf(JobOf(family, compute), {.dp = 2, .fsdp = fsdp, .copies = true});
        ShardedModel model(Tiny(family), options.model);
        std::vector<EntryInfo> entries = model.Entries();
        int copies = 0;
        for (size_t i = 0; i < entries.size(); i++) {
          if (entries[i].kind != EntryKind::kCopy) continue;
          copies++;
          EXPECT_EQ(entries[i].name, CopyName(entries[i - 1].name));
          EXPECT_EQ(entries[i].dtype, compute);
          EXPECT_NE(entries[i - 1].dtype, compute);
          EXPECT_EQ(entries[i].sharding, entries[i - 1].sharding);
        }
        EXPECT_EQ(copies > 0, compute == DType::kBF16) << family;
      }
}

}  // namespace
}  // namespace weft
