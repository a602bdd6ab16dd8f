// Two small models, and the reports of their steps with times predicted by fabricated rates.
#pragma once
#include <gtest/gtest.h>

#include "launcher/command.h"
#include "launcher/plan/fake_rates.h"
#include "launcher/plan/plan_report.h"

namespace weft::testing_ {

inline constexpr const char* kModels[] = {
    "{family: gpt2, layers: 2, heads: 4, dim: 32, ffn: 64, vocab: 64, context: 8}",
    "{family: llama, layers: 2, heads: 4, kv_heads: 2, dim: 32, ffn: 48, vocab: 64, context: 8}"};

inline absl::StatusOr<Config> Parsed(const char* model, const Words& words) {
  std::string yaml =
      fmt::format("model: {}\ndata: {{synthetic: true}}\ntrain: {{steps: 1, global_batch: 12, clip: 1.0}}\n", model);
  return ParseConfig(yaml, "case.yaml", words);
}
inline absl::StatusOr<Config> Resolved(const char* model, const Words& words) {
  absl::StatusOr<Config> config = Parsed(model, words);
  if (!config.ok()) return config;
  if (absl::Status s = Resolve(*config, int(config->mesh.ranks())); !s.ok()) return s;
  if (absl::Status s = ResolveVocab(*config, 64); !s.ok()) return s;
  return config;
}
inline RatesFile RatesOf(const FakeRates& fake) {
  LinesFile file(fake.Lines());
  return ReadRates(file.path()).value();
}
inline PlanReport Predicted(const Config& config, const RatesFile& rates) {
  PlannedStep planned(config);
  PlanReport report = MakePlanReport(config, planned);
  absl::Status status = AddTime(planned, rates, report);
  EXPECT_TRUE(status.ok()) << status.message();
  return report;
}

}  // namespace weft::testing_
