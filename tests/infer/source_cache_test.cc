// Texts of an encoder and a decoder, written token by token: the source is read once, and what is kept of it and of the
// target changes no logit. On all meshes, in batches of sources and targets of different lengths.
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <random>

#include "share.h"
#include "support/infer_testing.h"
#include "weft/core/compile/pipeline.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/mesh.h"
#include "weft/parallel/nn/kv_cache.h"
#include "weft/train/config/model_of.h"
#include "weft/train/infer/generate.h"
#include "weft/train/infer/loaded_model.h"
#include "weft/train/infer/source.h"

namespace weft {
namespace {

using namespace testing_;
using Tokens = std::vector<int32_t>;

constexpr int64_t kSource = 9, kContext = 21, kTarget = kContext - kSource;
constexpr int32_t kEnd = 256, kPad = 257;
const std::pair<int, int> kMeshes[] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}};

// Sums of other lengths are rounded differently. The bound is the one under which two logits count as a near tie.
double Bound(const std::string& type) { return type == "f64" ? 0x1p-40 : 0x1p-16; }

// The largest difference, as a share of the largest logit.
double Distance(std::span<const double> a, std::span<const double> b) {
  double most = a.size() == b.size() && !a.empty() ? 0 : INFINITY, largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); i++) {
    most = std::max(most, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(a[i]));
  }
  return most / largest;
}
int32_t Likeliest(std::span<const double> logits) {
  return int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::string RandomText(std::mt19937& rng, size_t length) {
  std::string text;
  while (text.size() < length) text += char('a' + rng() % 4);
  return text;
}
// The beginning of a row whose source has so many tokens.
Tokens Row(std::mt19937& rng, size_t length, int64_t source = kSource) {
  return *EncodeSource(Tokenizer::Bytes(), RandomText(rng, length), {source, source + kTarget, kEnd, kPad});
}

class SourceCache : public InferTest {
 protected:
  // Words, and each reversed. No size divides a mesh, and the decoder has other layers than the encoder.
  void TrainTo(const std::string& name, const Words& words = {}) {
    std::mt19937 rng(3);
    std::string lines;
    for (int i = 0; i < 60; i++) {
      std::string word = RandomText(rng, rng() % kSource);
      lines += nlohmann::json({{"source", word}, {"target", std::string(word.rbegin(), word.rend())}}).dump() + "\n";
    }
    absl::Status status =
        Train(Words{"model.family=marian", "data.train=" + folder_.Write("pairs.jsonl", lines),
                    fmt::format("model.context={}", kContext), fmt::format("model.source_context={}", kSource),
                    "model.vocab=258", "model.decoder_layers=3", "optimizer.lr=3e-2", "train.steps=20"} +
              words + SaveTo(name));
    ASSERT_TRUE(status.ok()) << status;
  }
};

// Greedy targets of sources of different lengths, the empty and the longest one too, until the rows are full. The
// sources are read once, and a token costs one token per row.
TEST_F(SourceCache, EqualsRecomputationTokenForToken) {
  TrainTo("marian");
  for (const char* type : {"f32", "f64"})
    for (auto mesh : kMeshes)
      for (int64_t rows : {1, 3}) {
        SCOPED_TRACE(fmt::format("{} {}x{}, {} rows", type, mesh.first, mesh.second, rows));
        On("marian", {fmt::format("precision.compute={}", type)}, mesh, [&](const Opened& o) {
          auto with = Made(o, true, rows), without = Made(o, false, rows);
          NextToken cached(*with), computed(*without);
          std::mt19937 rng(5);
          std::vector<Tokens> texts{Row(rng, 5), Row(rng, 0), Row(rng, kSource - 1)};
          texts.resize(size_t(rows));
          for (int64_t step = 0; step < kTarget; step++) {
            std::vector<NextToken::Tokens> now(texts.begin(), texts.end());
            auto want = computed.Logits(now), got = cached.Logits(now);
            for (size_t row = 0; row < now.size(); row++) {
              ASSERT_LE(Distance(want[row], got[row]), Bound(type)) << "row " << row << " step " << step;
              if (!IsNearTie(want[row])) {
                ASSERT_EQ(Likeliest(got[row]), Likeliest(want[row]));
              }
              texts[row].push_back(Likeliest(want[row]));
            }
          }
          EXPECT_EQ(cached.sources_read(), 1);
          EXPECT_EQ(cached.tokens_read(), rows * kTarget);
        });
      }
}

// Rows of which some rest and some begin with another source while the others continue.
TEST_F(SourceCache, RowsOfABatchAreIndependent) {
  TrainTo("marian");
  for (auto mesh : kMeshes) {
    SCOPED_TRACE(fmt::format("{}x{}", mesh.first, mesh.second));
    On("marian", {}, mesh, [&](const Opened& o) {
      auto together = Made(o, true, 3), alone = Made(o, false);
      NextToken batch(*together), one(*alone);
      std::mt19937 rng(7);
      std::vector<Tokens> texts(3);
      for (int step = 0; step < 50; step++) {
        std::vector<NextToken::Tokens> now(3);
        for (size_t row = 0; row < 3; row++) {
          if (texts[row].empty() || rng() % 8 == 0 || int64_t(texts[row].size()) > kContext)
            texts[row] = Row(rng, rng() % kSource);
          if (row == 0 || rng() % 4 > 0) now[row] = texts[row];
        }
        auto logits = batch.Logits(now);
        for (size_t row = 0; row < 3; row++) {
          EXPECT_EQ(logits[row].empty(), now[row].empty());
          if (now[row].empty()) continue;
          ASSERT_LE(Distance(one.Logits(now[row]), logits[row]), Bound("f32")) << "row " << row << " step " << step;
          texts[row].push_back(Likeliest(logits[row]));
        }
      }
    });
  }
}

// Any row may follow any other: the same source with another target, or another source with the same target.
TEST_F(SourceCache, AnyRowMayFollowAnyOther) {
  TrainTo("marian");
  On("marian", {"precision.compute=f64"}, {1, 1}, [&](const Opened& o) {
    auto with = Made(o, true), without = Made(o, false);
    std::mt19937 rng(11);
    Tokens text = Row(rng, 4);
    for (int i = 0; i < 100; i++) {
      Tokens target(text.begin() + kSource, text.begin() + kSource + 1 + int64_t(rng() % (text.size() - kSource)));
      if (rng() % 3 == 0) text = Row(rng, rng() % kSource);
      text.resize(kSource);
      text.insert(text.end(), target.begin(), target.end());
      for (size_t more = rng() % 5; more > 0 && int64_t(text.size()) < kContext; more--)
        text.push_back(int32_t('a' + rng() % 4));
      NextToken cached(*with), computed(*without);  // objects over one model share its cache
      ASSERT_LE(Distance(computed.Logits(text), cached.Logits(text)), Bound("f64")) << i;
    }
  });
}

// No token attends to padding, so it makes no difference how much of it follows a source. With and without the cache.
TEST_F(SourceCache, PaddingHasNoEffect) {
  TrainTo("marian");
  for (bool cache : {true, false}) {
    std::vector<std::vector<double>> all;
    for (int64_t source : {kSource, kSource + 7}) {
      Words longer{fmt::format("model.source_context={}", source), fmt::format("model.context={}", source + kTarget),
                   "precision.compute=f64"};
      On("marian", longer, {1, 1}, [&](const Opened& o) {
        auto model = Made(o, cache);
        NextToken next(*model);
        std::mt19937 rng(13);
        Tokens text = Row(rng, 3, source);
        for (int step = 0; step < 3; step++) {
          std::span<const double> logits = next.Logits(text);
          all.emplace_back(logits.begin(), logits.end());
          text.push_back('a' + step);
        }
      });
    }
    for (size_t i = 0; i < 3; i++) EXPECT_LE(Distance(all[i], all[i + 3]), Bound("f64")) << i;
  }
}

// The greedy text of a source, by logits that are computed again: up to the end of text, or until the row is full. The
// padding is never written.
Tokens GreedyTarget(LoadedModel& model, Tokens text) {
  NextToken next(model);
  Tokens made;
  while (int64_t(text.size()) <= kContext && (made.empty() || made.back() != kEnd)) {
    made.push_back(Likeliest(next.Logits(text).first(kPad)));
    text.push_back(made.back());
  }
  return made;
}

// A line is a source: its text is the one of a prompt, whatever was written before.
void ExpectLinesAreSources(const Opened& o, LoadedModel& model, const std::vector<GenerateOptions>& each,
                           const std::vector<Tokens>& want, const std::vector<TextWriter*>& all) {
  GenerateOptions talk = each[0];
  talk.prompt = "";
  TextWriter writer(model, o.tokenizer, *PromptTokens(talk, o.tokenizer, kContext), talk);
  EXPECT_EQ(*writer.Write([](std::string_view) {}), 0) << "there is no source yet";
  for (size_t i : {1, 0}) {
    EXPECT_TRUE(writer.AddLine(each[i].prompt).ok());
    EXPECT_EQ(*writer.Write([](std::string_view) {}), int64_t(want[i].size()));
    EXPECT_EQ(writer.tokens(), all[i]->tokens());
  }
  EXPECT_EQ(writer.AddLine(std::string(kSource, 'a')).message(),
            fmt::format("expected a source of at most {} tokens, got {}", kSource - 1, kSource));
  EXPECT_EQ(writer.tokens(), all[0]->tokens()) << "a line that is refused changes nothing";
}

TEST_F(SourceCache, TextsEndAtTheirEnd) {
  TrainTo("marian", {"train.steps=60", "optimizer.lr=1e-2"});
  for (auto mesh : kMeshes)
    On("marian", {"precision.compute=f64"}, mesh, [&](const Opened& o) {
      auto with = Made(o, true, 4), without = Made(o, false);
      std::mt19937 rng(17);
      std::vector<GenerateOptions> each;
      for (size_t length : {5, 1, 8, 3})
        each.push_back({.prompt = RandomText(rng, length), .sampler = {.greedy = true}});
      each[3].tokens = 2;
      std::vector<std::unique_ptr<TextWriter>> writers;
      std::vector<TextWriter*> all;
      std::vector<std::string> shown(4);
      std::vector<ShowText> shows;
      std::vector<Tokens> want;
      size_t ended = 0, total = 0;
      for (size_t i = 0; i < 4; i++) {
        each[i].pairs = PairsOf(o.source.config, o.tokenizer);
        Tokens prompt = *PromptTokens(each[i], o.tokenizer, kContext);
        want.push_back(GreedyTarget(*without, prompt));
        want[i].resize(std::min(want[i].size(), size_t(each[i].tokens)));
        ended += want[i].back() == kEnd;
        total += want[i].size();
        writers.push_back(std::make_unique<TextWriter>(*with, o.tokenizer, prompt, each[i]));
        all.push_back(writers.back().get());
        shows.push_back([&shown, i](std::string_view text) { shown[i] += text; });
        writers[i]->ShowPrompt(shows[i]);
      }
      EXPECT_GE(ended, 2u) << "expected a model that has learnt to end a text";
      EXPECT_EQ(*WriteTogether(*with, all, shows), int64_t(total));
      for (size_t i = 0; i < 4; i++) {
        Tokens made(all[i]->tokens().begin() + kSource + 1, all[i]->tokens().end());
        EXPECT_EQ(made, want[i]) << each[i].prompt;
        if (made.back() == kEnd) made.pop_back();
        EXPECT_EQ(shown[i], o.tokenizer.Decode(made));
      }
      ExpectLinesAreSources(o, *Made(o, true), each, want, all);
    });
}

std::map<std::string, int> Collectives(const Graph& graph) {
  std::map<std::string, int> count;
  for (const auto& node : graph.nodes)
    if (IsCollective(node->op)) count[Name(node->op)]++;
  return count;
}

// Checks the programs on one mesh. Heads divide by the mesh here, so that each rank has as many.
void CheckPlans(const Opened& o, int64_t rows) {
  StepOptions options = NextTokenOptions(o.source.config, DeviceKind::kCpu, rows);
  options.kernels = &o.context.kernels(DeviceKind::kCpu);
  ShardedModel model(ModelOf(o.source.config), options.model);
  Runtime runtime = RuntimeOf(o.context, o.mesh, DeviceKind::kCpu);
  std::vector<ForwardProgram> programs = NextTokenPrograms(options);
  ASSERT_EQ(programs.size(), 2u) << "one for a token, and one for sources";
  Forward forward(programs, model.model(), ExecutorKind::kInterpret, options, runtime);
  int64_t dp = options.model.mesh.sizes[0], tp = options.model.mesh.sizes[1];
  std::map<std::string, int> token = Collectives(forward.traced(0).local().graph),
                             source = Collectives(forward.traced(1).local().graph);
  EXPECT_EQ(token["all_reduce"], tp > 1 ? 3 * 3 + 1 : 0) << "three per decoder block, one of the embedding";
  EXPECT_EQ(token["all_gather"], (tp > 1) + (rows > 1 && dp > 1)) << "of the logits";
  EXPECT_EQ(source["all_reduce"], tp > 1 ? 2 * 2 + 1 : 0) << "two per encoder block, one of the embedding";
  EXPECT_EQ(source["all_gather"], 0);
  std::map<int64_t, int> entries;  // by tokens
  for (const EntryInfo& entry : forward.Entries()) {
    if (entry.kind != EntryKind::kCache || entry.shape.size() < 4) continue;
    entries[entry.shape[1]]++;
    EXPECT_EQ(entry.shape, (Shape{rows, entry.shape[1], 4, 2}));
    Shape chunk = ChunkShape(entry.shape, entry.sharding, options.model.mesh);
    EXPECT_EQ(chunk, (Shape{rows == 1 ? 1 : rows / dp, entry.shape[1], 4 / tp, 2})) << entry.name;
  }
  EXPECT_EQ(entries, (std::map<int64_t, int>{{kSource, 6}, {kTarget, 6}})) << "keys and values of three layers";
  for (size_t program : {0, 1})
    EXPECT_TRUE(Compile(forward.traced(program).local(), runtime, "").copies.empty()) << "program " << program;
}

// With tp each rank keeps its heads, of sources too, and all entries are written in place.
TEST_F(SourceCache, IsShardedAndUpdatedInPlace) {
  TrainTo("marian", {"model.heads=4", "model.dim=8"});
  for (auto mesh : kMeshes)
    for (int64_t rows : {1, 4}) {
      SCOPED_TRACE(fmt::format("{}x{}, {} rows", mesh.first, mesh.second, rows));
      On("marian", {}, mesh, [&](const Opened& o) { CheckPlans(o, rows); });
    }
}

}  // namespace
}  // namespace weft
