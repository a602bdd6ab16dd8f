// Mixtures of sources: sequences come in the requested shares, and are the same on every mesh and after every resume.
#include "weft/train/data/source/mixture_source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "fmt/format.h"
#include "tokens/data_testing.h"
#include "tokens/packed_testing.h"

namespace weft {
namespace {

using namespace testing_;
using Tokens = std::vector<int32_t>;

// Returns a source of `count` different windows of 8 tokens. `letter` identifies the source.
std::string Windows(char letter, int count) {
  std::string text;
  for (int i = 0; i < count; i++) text += fmt::format("{}{:07}", letter, i);
  return text + letter;
}

// The weight of each source, and its number of windows.
struct Shares {
  std::vector<double> weights;
  std::vector<int> windows;
};

Dataset Mixture(const TempFolder& folder, const Shares& shares, std::vector<std::string> overrides = {}) {
  std::string list;
  for (size_t s = 0; s < shares.weights.size(); s++)
    list +=
        fmt::format("{}{{path: {}, weight: {}}}", s ? ", " : "",
                    folder.Write(fmt::format("{}", s), Windows(char('A' + s), shares.windows[s])), shares.weights[s]);
  overrides.push_back("data.train=[" + list + "]");
  return MakeDataset("x", overrides);
}

std::string TextOf(std::span<const int32_t> tokens) { return {tokens.begin(), tokens.end()}; }

// Returns the first letter of every sequence in `steps` steps, which tells its source.
std::string Picks(const Dataset& data, int64_t steps) {
  std::string picks;
  DataPosition at;
  Batch batch(12, 8);
  for (int64_t step = 0; step < steps; step++) {
    at = data.PositionAfter(step, at);
    data.FillTrain(step, 0, batch.Span(), at);
    for (int64_t row = 0; row < 12; row++) picks += char(batch.tokens[size_t(row * 8)]);
  }
  return picks;
}

// Each share is within 5 standard deviations of its binomial, for even and for very uneven weights.
TEST(Mixture, SharesOfSequencesAreTheWeights) {
  TempFolder folder;
  for (const std::vector<double>& weights : std::vector<std::vector<double>>{
           {1}, {1, 1}, {3, 1}, {0.7, 0.2, 0.1}, {1, 1000}, {5, 0.01, 5}, std::vector<double>(20, 2.5)}) {
    for (int seed : {1, 2}) {
      Dataset data = Mixture(folder, {weights, std::vector<int>(weights.size(), 3)},
                             {"data.shuffle=false", fmt::format("train.seed={}", seed)});
      std::string picks = Picks(data, 1000);
      double total = std::accumulate(weights.begin(), weights.end(), 0.0), n = double(picks.size());
      for (size_t s = 0; s < weights.size(); s++) {
        double p = weights[s] / total, got = double(std::count(picks.begin(), picks.end(), char('A' + s)));
        EXPECT_LE(std::abs(got - n * p), 5 * std::sqrt(n * p * (1 - p)) + 1e-9) << s << " of " << weights.size();
      }
    }
  }
}

// Every source runs through its own windows in order and then starts again, whatever the other sources do in between.
TEST(Mixture, EachSourceRunsInItsOwnOrderAndStartsAgain) {
  TempFolder folder;
  Shares shares{{2, 1, 4}, {7, 3, 50}};
  Dataset data = Mixture(folder, shares, {"data.shuffle=false"});
  std::vector<int> seen(3);
  Batch batch(12, 8);
  DataPosition at;
  for (int64_t step = 0; step < 40; step++) {
    at = data.PositionAfter(step, at);
    EXPECT_EQ(data.FillTrain(step, 0, batch.Span(), at), 12 * 8);
    for (size_t row = 0; row < 12; row++) {
      std::string text = TextOf(std::span(batch.tokens).subspan(row * 8, 8));
      auto s = size_t(text[0] - 'A');
      ASSERT_EQ(text, fmt::format("{}{:07}", text[0], seen[s]++ % shares.windows[s])) << step << " " << row;
      ASSERT_EQ(TextOf(std::span(batch.targets).subspan(row * 8, 7)), text.substr(1));
    }
  }
  EXPECT_GT(seen[0], shares.windows[0] * 2);
}

// The law of meshes and resumes: the rows are those of the whole batch, however they are divided. A run that resumes
// from a position, even with another batch size, has the sequences of a run that was not stopped.
TEST(Mixture, IsTheSameOnEveryMeshAndAfterEveryResume) {
  TempFolder folder;
  Shares shares{{3, 1, 2}, {40, 9, 25}};
  for (const char* shuffle : {"data.shuffle=true", "data.shuffle=false"}) {
    Dataset data = Mixture(folder, shares, {shuffle});
    Tokens whole;
    for (int64_t step = 0; step < 9; step++) {
      Batch batch(12, 8);
      data.FillTrain(step, 0, batch.Span());  // without a position it counts from the start
      whole.insert(whole.end(), batch.tokens.begin(), batch.tokens.end());
    }
    for (int64_t ranks : {1, 2, 3, 4, 12})
      for (int64_t stop = 0; stop < 9; stop++) {
        DataPosition saved = data.PositionAfter(stop, {});
        EXPECT_EQ(std::accumulate(saved.of_source.begin(), saved.of_source.end(), int64_t{0}), saved.sequences);
        Dataset again = Mixture(folder, shares, {shuffle});
        Tokens rest;
        for (int64_t step = stop; step < 9; step++)
          for (int64_t rank = 0; rank < ranks; rank++) {
            Batch batch(12 / ranks, 8);
            again.FillTrain(step, rank * 12 / ranks, batch.Span(), saved);
            rest.insert(rest.end(), batch.tokens.begin(), batch.tokens.end());
          }
        ASSERT_EQ(rest, Tokens(whole.begin() + stop * 12 * 8, whole.end())) << shuffle << " " << ranks << " " << stop;
      }
    Dataset smaller = Mixture(folder, shares, {shuffle, "train.global_batch=4"});
    DataPosition at = data.PositionAfter(3, {});
    Tokens rest;
    for (int64_t step = 3; step < 9; step++) {
      Batch batch(4, 8);
      smaller.FillTrain(step, 0, batch.Span(), at);
      rest.insert(rest.end(), batch.tokens.begin(), batch.tokens.end());
    }
    EXPECT_EQ(rest, Tokens(whole.begin() + 3 * 12 * 8, whole.begin() + 5 * 12 * 8)) << shuffle;
  }
}

// Validation takes the tail of each source. JSONL sources may have different fields.
TEST(Mixture, SourcesHaveTailsAndFieldsOfTheirOwn) {
  TempFolder folder;
  std::string a = folder.Write("a.jsonl", JsonLines({std::string(100, 'a')}, "body")),
              b = folder.Write("b.jsonl.zst", Zstd(JsonLines({std::string(200, 'b')})));
  std::string train = fmt::format("data.train=[{{path: {}, field: body}}, {{path: [{}], weight: 3}}]", a, b);
  Dataset data = MakeDataset("x", {train, "data.val=0.1"});
  EXPECT_EQ(data.num_sources(), 2u);
  EXPECT_EQ(data.train().size(), 270);
  Tokens val(30);
  data.val().Read(0, val);
  EXPECT_EQ(TextOf(val), std::string(10, 'a') + std::string(20, 'b'));
  EXPECT_EQ(MakeDataset("x", {train}).train().size(), 300);
  std::string shards = fmt::format("data.train=[{{path: {}}}, {{path: {}}}]", WriteShards(folder, "s", Letters(90)),
                                   WriteShards(folder, "t", Letters(60)));
  EXPECT_EQ(MakeDataset("x", {shards, "model.vocab=256", "data.val=0.1"}).val().size(), 15);
}

TEST(Mixture, ErrorsNameTheSource) {
  TempFolder folder;
  std::string text = folder.Write("a", Letters(100)), few = folder.Write("few", "abc"),
              shards = WriteShards(folder, "s", Letters(100));
  struct {
    std::string list, text;
  } cases[] = {
      {fmt::format("{{path: {}}}, {{path: {}}}", text, few),
       "data.train: expected at least context + 1 = 9 tokens, got 3 in the source of " + few + "; give more text"},
      {fmt::format("{{path: {}}}, {{path: {}}}", text, shards),
       "000.bin: expected text, as the first source is, got token shards; give all sources in one form"},
      {fmt::format("{{path: {}}}, {{path: none}}", text), "data.train: none: no such file or folder"},
  };
  for (const auto& bad : cases) {
    std::string error = LoadError("x", {"data.train=[" + bad.list + "]"});
    EXPECT_NE(error.find(bad.text), error.npos) << "expected " << bad.text << "\ngot      " << error;
  }
}

}  // namespace
}  // namespace weft
