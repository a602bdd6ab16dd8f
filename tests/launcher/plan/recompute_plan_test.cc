// A budget of train.recompute is met: a rank needs at most that much, and little less.
#include <gtest/gtest.h>

#include "launcher/plan/plan_report.h"
#include "weft/core/base/error.h"
#include "weft/train/config/config.h"

namespace weft {
namespace {

double GibOf(const std::vector<std::string>& words, const std::string& recompute, const char* file, int ranks) {
  std::vector<std::string> all = words;
  all.push_back("train.recompute=" + recompute);
  Config config = LoadConfig(fmt::format("{}/configs/{}.yaml", WEFT_ROOT, file), all).value();
  EXPECT_TRUE(Resolve(config, ranks).ok() && ResolveVocab(config, config.model.vocab).ok());
  PlanReport report = MakePlanReport(config);
  std::string line = fmt::format("\n  recompute: {}: ", recompute);
  EXPECT_EQ(ToText(report, false).find(line) != std::string::npos, recompute != "none");
  return double(report.memory.Total() - report.memory.data) / double(1 << 30);
}

struct Param {
  const char* file;
  int ranks;
  std::vector<std::string> words;
};
class BudgetOf : public testing::TestWithParam<Param> {};

TEST_P(BudgetOf, IsMetWithin3Percent) {
  const Param& p = GetParam();
  auto gib = [&](const std::string& recompute) { return GibOf(p.words, recompute, p.file, p.ranks); };
  double none = gib("none"), full = gib("full");
  for (double part : {0.3, 0.7}) {
    double budget = full + part * (none - full), needed = gib(fmt::format("{{budget: {}}}", budget));
    EXPECT_LE(needed, budget);
    EXPECT_GE(needed, 0.97 * budget);
  }
}
const Param kParams[] = {
    {"gpt2_124m", 1, {"device=cuda", "train.micro_batch=16"}},
    {"llama_1b", 2, {"device=cuda", "mesh.tp=2"}},
    {"llama_8b", 4, {"device=cuda", "mesh.dp=4", "parallel.fsdp=full", "train.global_batch=8"}},
};
INSTANTIATE_TEST_SUITE_P(All, BudgetOf, testing::ValuesIn(kParams));

TEST(Budget, OfEnoughComputesNothingAgainAndTooLittleIsRefused) {
  auto gib = [&](const std::string& recompute) { return GibOf({}, recompute, "gpt2-tiny", 1); };
  double none = gib("none"), full = gib("full");
  EXPECT_LT(full, gib("selective"));
  EXPECT_EQ(gib("{budget: 1000}"), none);
  try {
    gib(fmt::format("{{budget: {}}}", full / 2));
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("train.recompute: expected a budget of at least "), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace weft
