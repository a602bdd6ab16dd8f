// The cache of keys and values changes no logit: what NextToken reads of it equals what it would compute again, for all
// families, on all meshes, in batches of texts of different lengths, and past the context.
#include <fmt/format.h>
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

constexpr int64_t kContext = 21;
const std::pair<int, int> kMeshes[] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}};

// Sums of other lengths are rounded differently. The bound is the one under which two logits count as a near tie.
double Bound(const std::string& type) { return type == "f64" ? 0x1p-40 : 0x1p-16; }

double Largest(std::span<const double> logits) {
  double largest = 0;
  for (double logit : logits) largest = std::max(largest, std::abs(logit));
  return largest;
}
// The largest difference, as a share of the largest logit.
double Distance(std::span<const double> a, std::span<const double> b) {
  double most = a.size() == b.size() && !a.empty() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); i++) most = std::max(most, std::abs(a[i] - b[i]));
  return most / Largest(a);
}
int32_t Likeliest(std::span<const double> logits) {
  return int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

class Cache : public InferTest {
 protected:
  // Windows are shorter than the texts, heads share keys, and no size divides a mesh.
  static Words Family(const std::string& family) {
    Words words{"model.family=" + family, fmt::format("model.context={}", kContext)};
    if (family == "neox") return words + Words{"model.rotary_share=1"};
    if (family == "llama") return words + Words{"model.kv_heads=1"};
    if (family == "mistral") return words + Words{"model.kv_heads=1", "model.window=5"};
    if (family == "gemma2") return words + Words{"model.window=4"};
    return words;
  }
  void TrainTo(const std::string& family, const Words& words = {}) {
    absl::Status status = Train(Family(family) + Words{"optimizer.lr=3e-2", "train.steps=20"} + words + SaveTo(family));
    ASSERT_TRUE(status.ok()) << status;
  }
};

// Greedy texts from a prompt to far past the context. A token costs one token until the context is full.
TEST_F(Cache, EqualsRecomputationTokenForToken) {
  for (const char* family : {"gpt2", "llama", "neox", "mistral", "gemma2"}) {
    TrainTo(family);
    for (const char* type : {"f32", "f64"})
      for (auto mesh : kMeshes) {
        SCOPED_TRACE(fmt::format("{} {} {}x{}", family, type, mesh.first, mesh.second));
        On(family, {fmt::format("precision.compute={}", type)}, mesh, [&](const Opened& o) {
          auto with = Made(o, true), without = Made(o, false);
          NextToken cached(*with), computed(*without);
          Tokens text{'a', 'b', 'c'};
          for (int step = 0; step < 2 * kContext; step++) {
            int64_t before = cached.tokens_read();
            std::span<const double> want = computed.Logits(text), got = cached.Logits(text);
            ASSERT_LE(Distance(want, got), Bound(type)) << "after " << text.size() << " tokens";
            if (!IsNearTie(want)) {
              ASSERT_EQ(Likeliest(got), Likeliest(want));
            }
            bool grows = step > 0 && int64_t(text.size()) <= kContext;
            if (grows) {
              EXPECT_EQ(cached.tokens_read() - before, 1);
            }
            text.push_back(Likeliest(want));
          }
        });
      }
  }
}

// Rows of different lengths, of which some rest, some begin again and some pass the context.
TEST_F(Cache, RowsOfABatchAreIndependent) {
  for (const char* family : {"gpt2", "gemma2"}) {
    TrainTo(family);
    for (auto mesh : kMeshes)
      for (int64_t rows : {2, 3}) {
        SCOPED_TRACE(fmt::format("{} {}x{}, {} rows", family, mesh.first, mesh.second, rows));
        On(family, {}, mesh, [&](const Opened& o) {
          auto together = Made(o, true, rows), alone = Made(o, false);
          NextToken batch(*together), one(*alone);
          std::vector<Tokens> texts{{'a'}, {'x', 'y', 'z', 'x', 'y', 'z', 'x', 'y', 'z', 'x', 'y'}, {'q', 'r'}};
          texts.resize(size_t(rows));
          for (int step = 0; step < 40; step++) {
            if (step == 12) texts[0] = {'n', 'e', 'w'};
            std::vector<NextToken::Tokens> now(texts.begin(), texts.end());
            if (step % 7 > 3) now[1] = {};
            auto logits = batch.Logits(now);
            for (size_t row = 0; row < now.size(); row++) {
              EXPECT_EQ(logits[row].empty(), now[row].empty());
              if (now[row].empty()) continue;
              ASSERT_LE(Distance(one.Logits(now[row]), logits[row]), Bound("f32")) << "row " << row << " step " << step;
              texts[row].push_back(Likeliest(logits[row]));
            }
          }
        });
      }
  }
}

// The best token that programs find on the device is that of their logits, and texts are equal. Some know fewer tokens
// than the model has. One text ends early, and all pass the context.
TEST_F(Cache, TheBestTokenIsThatOfTheLargestLogit) {
  TrainTo("gpt2");
  for (auto mesh : kMeshes)
    for (bool cache : {true, false})
      for (int64_t best_of : {100, 10000}) {
        SCOPED_TRACE(fmt::format("{}x{}, cache {}, of {}", mesh.first, mesh.second, cache, best_of));
        On("gpt2", {}, mesh, [&](const Opened& o) {
          StepOptions options = NextTokenOptions(o.source.config, DeviceKind::kCpu, 2);
          LoadedModel model(o.source.config, options, NextTokenPrograms(options, cache, best_of), o.context, o.mesh,
                            DeviceKind::kCpu);
          absl::Status loaded = model.Load(o.source);
          ASSERT_TRUE(loaded.ok()) << loaded;
          NextToken next(model);
          std::vector<Tokens> texts{{'a'}, {'x', 'y', 'z', 'x', 'y'}};
          for (int step = 0; step < kContext + 4; step++) {
            std::vector<NextToken::Tokens> now(texts.begin(), texts.end());
            if (step == 7) now[1] = {};
            auto best = next.Best(now);
            ASSERT_TRUE(best);
            std::vector<int32_t> got(best->begin(), best->end());
            std::vector<std::span<const double>> logits = next.Logits(now);
            for (size_t row = 0; row < 2; row++) {
              if (now[row].empty()) {
                EXPECT_EQ(got[row], -1);
                continue;
              }
              ASSERT_EQ(got[row], Likeliest(logits[row].first(std::min(logits[row].size(), size_t(best_of))))) << step;
              texts[row].push_back(got[row]);
            }
          }
        });
      }
}

// A logit that is not finite is the business of the sampler, which names it.
TEST_F(Cache, NoTokenIsTheBestOfLogitsThatAreNotFinite) {
  TrainTo("gpt2");
  On("gpt2", {}, {1, 1}, [&](const Opened& o) {
    StepOptions options = NextTokenOptions(o.source.config, DeviceKind::kCpu);
    LoadedModel model(o.source.config, options, NextTokenPrograms(options, true, 100), o.context, o.mesh,
                      DeviceKind::kCpu);
    absl::Status loaded = model.Load(o.source);
    ASSERT_TRUE(loaded.ok()) << loaded;
    for (const auto& [name, entry] : model.state().entries())
      if (name == "embed.weight") entry.local.as<float>()[0] = NAN;
    Tokens text{'a'};
    NextToken::Tokens texts[] = {text};
    EXPECT_FALSE(NextToken(model).Best(texts));
    GenerateOptions greedy{.prompt = "a", .tokens = 3, .sampler = {.greedy = true}};
    TextWriter writer(model, o.tokenizer, text, greedy);
    absl::StatusOr<int64_t> written = writer.Write([](std::string_view) {});
    EXPECT_EQ(written.status().code(), absl::StatusCode::kAborted) << written.status();
  });
}

// Any text may follow any other: a longer one, a shorter one, one with the same beginning, or another.
TEST_F(Cache, AnyTextMayFollowAnyOther) {
  TrainTo("llama");
  On("llama", {"precision.compute=f64"}, {1, 1}, [&](const Opened& o) {
    auto with = Made(o, true), without = Made(o, false);
    std::mt19937 rng(7);
    Tokens text{'a'};
    for (int i = 0; i < 100; i++) {
      text.resize(1 + rng() % text.size());
      for (size_t more = rng() % 12; more > 0; more--) text.push_back(int32_t('a' + rng() % 3));
      NextToken cached(*with), computed(*without);  // objects over one model share its cache
      ASSERT_LE(Distance(computed.Logits(text), cached.Logits(text)), Bound("f64")) << i;
    }
  });
}

// The keys of the first token decide, if another value is written to their place.
TEST_F(Cache, IsWhatAttentionReads) {
  TrainTo("gpt2");
  On("gpt2", {}, {1, 1}, [&](const Opened& o) {
    auto model = Made(o, true);
    NextToken next(*model);
    Tokens text{'a', 'b', 'c'};
    std::span<const double> first = next.Logits(text);
    Tokens longer{'a', 'b', 'c', 'd'};
    std::vector<double> want(first.begin(), first.end());
    int entries = 0;
    for (const auto& [name, entry] : model->state().entries()) {
      if (!name.starts_with(kCacheEntry)) continue;
      entries++;
      EXPECT_EQ(entry.global, (Shape{1, kContext, 3, 2}));
      for (int64_t i = 0; i < 6; i++) entry.local.as<float>()[i] += 3;  // of the first token
    }
    EXPECT_EQ(entries, 4) << "keys and values of two layers";
    auto other = Made(o, false);
    NextToken computed(*other);
    EXPECT_GT(Distance(computed.Logits(longer), next.Logits(longer)), 1e-3);
  });
}

// Sampled texts of several prompts and samples, written together and each by itself.
TEST_F(Cache, TextsWrittenTogetherEqualTextsWrittenAlone) {
  TrainTo("gpt2");
  const std::string prompts[] = {"a", "abcabcabcabc", "xyz"};
  auto options = [&](const std::string& prompt) {
    return GenerateOptions{.prompt = prompt, .tokens = 30, .sampler = {.temperature = 0.9, .seed = 5}};
  };
  std::vector<Tokens> want;
  for (const std::string& prompt : prompts) want.push_back(*Write(Path("gpt2"), Mesh(1, 1), 1, options(prompt), 2));
  for (auto mesh : kMeshes)
    On("gpt2", {}, mesh, [&](const Opened& o) {
      auto model = Made(o, true, 3);
      std::vector<GenerateOptions> each;
      for (const std::string& prompt : prompts) each.push_back(options(prompt));
      each[1].tokens = 9;
      std::vector<std::unique_ptr<TextWriter>> writers;
      std::vector<TextWriter*> all;
      for (const GenerateOptions& one : each) {
        writers.push_back(
            std::make_unique<TextWriter>(*model, o.tokenizer, *PromptTokens(one, o.tokenizer, kContext), one, 2));
        all.push_back(writers.back().get());
      }
      std::vector<ShowText> shows(3, [](std::string_view) {});
      EXPECT_EQ(*WriteTogether(*model, all, shows), 30 + 9 + 30);
      for (size_t i = 0; i < 3; i++) {
        Tokens made(all[i]->tokens().begin() + std::ptrdiff_t(prompts[i].size()), all[i]->tokens().end());
        EXPECT_EQ(made, Tokens(want[i].begin(), want[i].begin() + each[i].tokens)) << prompts[i];
      }
    });
}

// The turns of a conversation, of which the last one passes the context.
TEST_F(Cache, TurnsEqualThoseWithoutACache) {
  TrainTo("llama");
  auto talk = [&](const Opened& o, bool cache) {
    auto model = Made(o, cache);
    GenerateOptions options{.prompt = "ab", .tokens = 4, .sampler = {.seed = 3}};
    TextWriter writer(*model, o.tokenizer, *PromptTokens(options, o.tokenizer, kContext), options);
    for (const char* line : {"cd", "", "e", "abcabc"}) {
      EXPECT_TRUE(writer.AddLine(line).ok());
      EXPECT_TRUE(writer.Write([](std::string_view) {}).ok());
    }
    return writer.tokens();
  };
  for (auto mesh : kMeshes) On("llama", {}, mesh, [&](const Opened& o) { EXPECT_EQ(talk(o, true), talk(o, false)); });
}

// The collectives of a program, by op.
std::map<std::string, int> Collectives(const Graph& graph) {
  std::map<std::string, int> count;
  for (const auto& node : graph.nodes)
    if (IsCollective(node->op)) count[Name(node->op)]++;
  return count;
}

// Checks one family on one mesh. Heads divide by the mesh here, so that each rank has as many.
void CheckPlan(const Opened& o, int64_t rows) {
  StepOptions options = NextTokenOptions(o.source.config, DeviceKind::kCpu, rows);
  options.kernels = &o.context.kernels(DeviceKind::kCpu);
  ShardedModel model(ModelOf(o.source.config), options.model);
  Runtime runtime = RuntimeOf(o.context, o.mesh, DeviceKind::kCpu);
  Forward with(NextTokenPrograms(options, true), model.model(), ExecutorKind::kInterpret, options, runtime),
      without(NextTokenPrograms(options, false), model.model(), ExecutorKind::kInterpret, options, runtime);
  const LocalProgram& local = with.traced(0).local();
  EXPECT_EQ(Collectives(local.graph), Collectives(without.traced(0).local().graph));
  int64_t dp = options.model.mesh.sizes[0], tp = options.model.mesh.sizes[1];
  if (tp > 1) {
    EXPECT_EQ(Collectives(local.graph)["all_reduce"], 2 * 2 + 1) << "two per block, one of the embedding";
  }
  EXPECT_EQ(Collectives(local.graph)["all_gather"], (tp > 1) + (rows > 1 && dp > 1)) << "of the logits";
  for (const EntryInfo& entry : with.Entries()) {
    if (entry.kind != EntryKind::kCache) continue;
    EXPECT_EQ(entry.shape, (Shape{rows, kContext, 4, 2}));
    Shape chunk = ChunkShape(entry.shape, entry.sharding, options.model.mesh);
    EXPECT_EQ(chunk, (Shape{rows == 1 ? 1 : rows / dp, kContext, 4 / tp, 2})) << entry.name;
  }
  Plan plan = Compile(local, runtime, "");
  EXPECT_TRUE(plan.copies.empty());
  int updates = 0;
  for (const Step& step : plan.steps) {
    if (step.node->op != Op::kDynamicUpdate) continue;
    updates++;
    EXPECT_EQ(step.out[0].place.kind, Place::kEntry);
    EXPECT_EQ(step.in[0].place.entry, step.out[0].place.entry);
  }
  EXPECT_EQ(updates, 4) << "keys and values of two layers";
}

// With tp each rank keeps its heads: the collectives are those without a cache, and caches are updated in place.
TEST_F(Cache, IsShardedAndUpdatedInPlace) {
  for (const char* family : {"gpt2", "llama"}) {
    TrainTo(family, {"model.heads=4", "model.dim=8", "model.kv_heads=4"});
    for (auto mesh : kMeshes)
      for (int64_t rows : {1, 4}) {
        SCOPED_TRACE(fmt::format("{} {}x{}, {} rows", family, mesh.first, mesh.second, rows));
        On(family, {}, mesh, [&](const Opened& o) { CheckPlan(o, rows); });
      }
  }
}

}  // namespace
}  // namespace weft
