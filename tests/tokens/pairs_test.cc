// Pairs of a source and a target: what a row of them is, what is a target in it, and that a model learns from them the
// same on every mesh.
#include "weft/train/data/pairs.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/checkpoint_testing.h"
#include "weft/train/data/data.h"

namespace weft {
namespace {

using namespace testing_;

constexpr int64_t kSource = 5, kContext = 9;  // a source of 4 tokens and its end, a target of 3 and its end

std::string Record(const std::string& source, const std::string& target) {
  return nlohmann::json({{"source", source}, {"target", target}}).dump() + "\n";
}
// Words over a, b and c of at most 3 letters, and each reversed.
std::string Reversals() {
  std::string lines;
  for (int i = 0; i < 39; i++) {
    std::string word;
    for (int n = i; n > 0; n = (n - 1) / 3) word += char('a' + (n - 1) % 3);
    lines += Record(word, {word.rbegin(), word.rend()});
  }
  return lines;
}

class Pairs : public CheckpointTest {
 protected:
  Words With(const std::string& lines) const {
    return {"model.family=marian",
            "data.train=" + folder_.Write("pairs.jsonl", lines),
            fmt::format("model.context={}", kContext),
            fmt::format("model.source_context={}", kSource),
            "model.vocab=258",
            "model.heads=2",
            "model.dim=16"};
  }
  std::string Refusal(const std::string& lines, const Words& more = {}) const {
    absl::StatusOr<Config> config = Load(With(lines) + more);
    EXPECT_TRUE(config.ok()) << config.status();
    return std::string(Dataset::Load(*config).status().message());
  }
};

// Every row is a whole pair, with the texts, their ends and the padding where the layout has them.
TEST_F(Pairs, AreRowsOfTheLayout) {
  for (const char* shuffle : {"true", "false"}) {
    absl::StatusOr<Config> config =
        Load(With(Reversals()) + Words{std::string("data.shuffle=") + shuffle, "data.val=0.2"});
    ASSERT_TRUE(config.ok()) << config.status();
    absl::StatusOr<Dataset> data = Dataset::Load(*config);
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ(data->tokenizer_vocab(), 258);
    EXPECT_EQ(data->eval_windows(), 8);  // the last pairs of 39
    constexpr int64_t kRows = 5;
    std::vector<int32_t> tokens(kRows * kContext), targets(kRows * kContext);
    auto expect_rows = [&](int64_t count) {
      int64_t expected = 0;
      for (int64_t r = 0; r < kRows; r++) {
        const int32_t *row = &tokens[size_t(r * kContext)], *target = &targets[size_t(r * kContext)];
        std::vector<int32_t> source;
        for (int64_t t = 0; t < kSource && row[t] < 256; t++) source.push_back(row[t]);
        std::vector<int32_t> want(kSource, 258 - 1), want_targets(kContext, kIgnoredTarget);
        std::copy(source.begin(), source.end(), want.begin());
        want[source.size()] = 256;
        std::vector<int32_t> reversed(source.rbegin(), source.rend());
        want.push_back(257);
        want.insert(want.end(), reversed.begin(), reversed.end());
        reversed.push_back(256);
        std::copy(reversed.begin(), reversed.end(), want_targets.begin() + kSource);
        if (int64_t(want.size()) < kContext) want.push_back(256);
        want.resize(kContext, 257);
        EXPECT_EQ(std::vector<int32_t>(row, row + kContext), want);
        EXPECT_EQ(std::vector<int32_t>(target, target + kContext), want_targets);
        expected += int64_t(reversed.size());
      }
      EXPECT_EQ(count, expected);
    };
    for (int64_t step = 0; step < 20; step++) expect_rows(data->FillTrain(step, 0, {tokens, targets}));
    expect_rows(data->FillEval(0, 8, {tokens, targets}));
  }
}

// Random tokens leave the last two kinds of the vocabulary for the end and the padding, so a run needs no more kinds.
TEST_F(Pairs, MayBeSynthetic) {
  absl::StatusOr<Config> config = Load(With("") + Words{"data.synthetic=true"});
  ASSERT_TRUE(config.ok()) << config.status();
  absl::StatusOr<Dataset> data = Dataset::Load(*config);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->tokenizer_vocab(), 258);
  std::vector<int32_t> tokens(kContext), targets(kContext);
  data->FillTrain(0, 0, {tokens, targets});
  for (int32_t token : tokens) EXPECT_LT(token, 256);
}

TEST_F(Pairs, AreRefusedIfTheyDoNotFit) {
  auto expect = [&](const std::string& text, const std::string& answer) {
    EXPECT_NE(answer.find(text), answer.npos) << "expected " << text << "\ngot      " << answer;
  };
  std::string good = Reversals();
  EXPECT_EQ(Refusal(good), "");
  expect("data.train: pair 40: expected a source of at most 4 tokens, got 5; raise model.source_context",
         Refusal(good + Record("abcab", "a")));
  expect("data.train: pair 40: expected a target of at most 3 tokens, got 4; raise model.context",
         Refusal(good + Record("a", "abca")));
  expect("pairs.jsonl:40: expected a record with the field \"target\", got one with the keys \"source\"",
         Refusal(good + "{\"source\": \"a\"}\n"));
  expect("expected JSONL with a source and a target in each record, got a text without",
         Refusal(good, {"data.train=" + folder_.Write("b.txt", std::string(700, 'a'))}));
  EXPECT_EQ(Refusal("{\"en\": \"a\", \"de\": \"b\"}\n", {"data.field=en -> de"}), "");
}

// A model learns to reverse words, and each loss is that of one rank.
TEST_F(Pairs, AreLearntTheSameOnEveryMesh) {
  const Words job = With(Reversals()) + Words{"train.steps=60",        "train.global_batch=16", "optimizer.lr=1e-2",
                                              "precision.compute=f64", "model.dropout=0",       "data.val=0.2"};
  std::map<int, std::pair<double, double>> one = Losses(job + Mesh(1, 1));
  ASSERT_FALSE(one.empty());
  EXPECT_LT(one.rbegin()->second.first, one.begin()->second.first / 3);
  for (auto [dp, tp] : {std::pair{2, 1}, {1, 2}, {2, 2}})
    for (const char* layout : {"parallel.fsdp=none", "parallel.fsdp=full", "parallel.sequence_parallel=true"}) {
      if (tp == 1 && std::string(layout).find("sequence") != std::string::npos) continue;
      for (const auto& [step, loss] : Losses(job + Mesh(dp, tp) + Words{layout}))
        EXPECT_NEAR(loss.first, one.at(step).first, 1e-9) << dp << " x " << tp << " " << layout << ", step " << step;
    }
}

}  // namespace
}  // namespace weft
