// A trained model writes the same text on every mesh, by the logits that its trainer would have.
#include <fmt/format.h>
#include <filesystem>
#include <fstream>
#include <set>

#include "share.h"
#include "support/infer_testing.h"
#include "support/safetensors_testing.h"
#include "weft/core/host/utf8.h"
#include "weft/core/ops/leaf.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/mesh.h"
#include "weft/train/checkpoint/checkpoint.h"
#include "weft/train/infer/generate.h"
#include "weft/train/infer/loaded_model.h"
#include "weft/train/infer/source.h"

namespace weft {
namespace {

using namespace testing_;
using Tokens = std::vector<int32_t>;

const std::pair<int, int> kMeshes[] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {1, 3}};

class Generation : public InferTest {
 protected:
  // Weights that are far from their first values, so that the text depends on what came before.
  void TrainTo(const std::string& dir, const Words& words = {}) {
    absl::Status status = Train(Words{"optimizer.lr=3e-2", "train.steps=20"} + words + SaveTo(dir));
    ASSERT_TRUE(status.ok()) << status;
  }
  // The heads have 2 dims, and by default neox would rotate a quarter of them.
  static Words OfFamily(const std::string& family) {
    Words words{"model.family=" + family};
    if (family == "neox") words.push_back("model.rotary_share=1");
    return words;
  }
  Tokens Text(const std::string& dir, const Words& words, int ranks, const GenerateOptions& options) {
    absl::StatusOr<Tokens> tokens = Write(Path(dir), words, ranks, options);
    EXPECT_TRUE(tokens.ok()) << tokens.status();
    return tokens.ok() ? *tokens : Tokens();
  }
};

// f32, four times as long as the context; the families' heads, widths and words divide no mesh.
TEST_F(Generation, TheSameSeedGivesTheSameTextOnEveryMesh) {
  int cases = 0;
  for (const char* family : {"gpt2", "llama", "neox"}) {
    TrainTo(family, OfFamily(family));
    for (uint64_t seed : {1u, 2u, 3u, 4u}) {
      if (cases++ % test::Share() != 0) continue;
      GenerateOptions options{.prompt = "ab", .tokens = 32, .sampler = {.temperature = 0.9, .seed = seed}};
      if (seed == 2) options.sampler.top_k = 7;
      if (seed == 3) options.sampler.top_p = 0.8;
      if (seed == 4) options.sampler.temperature = 1.5;
      Tokens one = Text(family, Mesh(1, 1), 1, options);
      EXPECT_EQ(one.size(), 32u);
      for (auto [dp, tp] : kMeshes)
        EXPECT_EQ(Text(family, Mesh(dp, tp), dp * tp, options), one) << family << " " << dp << "x" << tp << " " << seed;
    }
  }
}

// Whatever is asked for with it: by itself, among others, and on other meshes.
TEST_F(Generation, ASampleDependsOnItsNumberAlone) {
  TrainTo("c");
  GenerateOptions options{.prompt = "ab", .tokens = 24};
  auto sample = [&](int64_t i, const Words& words, int ranks) {
    absl::StatusOr<Tokens> tokens = Write(Path("c"), words, ranks, options, i);
    EXPECT_TRUE(tokens.ok()) << tokens.status();
    return *tokens;
  };
  std::set<Tokens> texts;
  for (int64_t i = 0; i < 8; i++) texts.insert(sample(i, Mesh(1, 1), 1));
  EXPECT_EQ(texts.size(), 8u);
  EXPECT_EQ(sample(0, Mesh(1, 1), 1), Text("c", Mesh(1, 1), 1, options));
  for (int64_t i : {1, 5}) EXPECT_EQ(sample(i, Mesh(2, 2), 4), sample(i, Mesh(1, 1), 1));
}

// A text ends before a stop string, with the tokens of the text without one.
TEST_F(Generation, AStopStringEndsTheText) {
  TrainTo("c");
  absl::Status status = OnSource(Path("c"), {}, 1, [&](const Opened& o) {
    StepOptions one = NextTokenOptions(o.source.config, DeviceKind::kCpu);
    LoadedModel model(o.source.config, one, NextTokenPrograms(one), o.context, o.mesh, DeviceKind::kCpu);
    EXPECT_TRUE(model.Load(o.source).ok());
    auto write = [&](const GenerateOptions& options, std::string& shown) {
      return *Generate(model, o.tokenizer, *PromptTokens(options, o.tokenizer, 8), options,
                       [&](std::string_view text) { shown += text; });
    };
    GenerateOptions options{.prompt = "ab", .tokens = 60, .sampler = {.temperature = 0.5}};
    std::string whole;
    Tokens all = write(options, whole);
    for (size_t begin = 2; begin + 3 < whole.size(); begin += 7) {
      options.stops = {whole.substr(begin, 3), "not in the text"};
      size_t at = whole.find(options.stops[0], 2);
      std::string shown;
      Tokens tokens = write(options, shown);
      EXPECT_EQ(shown, whole.substr(0, at));
      EXPECT_EQ(tokens, Tokens(all.begin(), all.begin() + std::ptrdiff_t(at - 2 + 3))) << "up to its last token";
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

// Turns continue one text: of the same tokens as one turn where no line is added, and lines begin on a new line.
TEST_F(Generation, TurnsContinueOneText) {
  TrainTo("c");
  absl::Status status = OnSource(Path("c"), {}, 1, [&](const Opened& o) {
    StepOptions one = NextTokenOptions(o.source.config, DeviceKind::kCpu);
    LoadedModel model(o.source.config, one, NextTokenPrograms(one), o.context, o.mesh, DeviceKind::kCpu);
    EXPECT_TRUE(model.Load(o.source).ok());
    GenerateOptions options{.prompt = "ab", .tokens = 10, .sampler = {.seed = 3}}, longer = options;
    longer.tokens = 30;
    TextWriter turns(model, o.tokenizer, *PromptTokens(options, o.tokenizer, 8), options),
        whole(model, o.tokenizer, *PromptTokens(options, o.tokenizer, 8), longer);
    auto ignore = [](std::string_view) {};
    EXPECT_EQ(*turns.Write(ignore) + *turns.Write(ignore), 20);
    int left = 7;
    EXPECT_EQ(*turns.Write(ignore, [&] { return left-- > 0; }), 7) << "interrupted";
    EXPECT_EQ(*whole.Write(ignore), 30);
    EXPECT_EQ(turns.tokens(), Tokens(whole.tokens().begin(), whole.tokens().end() - 3));
    Tokens before = turns.tokens();
    EXPECT_TRUE(turns.AddLine("").ok());
    EXPECT_EQ(turns.tokens(), before);
    EXPECT_TRUE(turns.AddLine("cd").ok());
    before.insert(before.end(), {'\n', 'c', 'd'});
    EXPECT_EQ(turns.tokens(), before);
    TextWriter empty(model, o.tokenizer, *PromptTokens({}, o.tokenizer, 8), {});
    EXPECT_TRUE(empty.AddLine("cd").ok());
    EXPECT_EQ(empty.tokens(), (Tokens{'\n', 'c', 'd'})) << "the first line begins the text";
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(Generation, ShardingExecutorAndNarrowTypesChangeNoText) {
  TrainTo("c", {"precision.compute=bf16"});
  GenerateOptions options{.prompt = "abc", .tokens = 20};
  Tokens want = Text("c", Mesh(1, 1), 1, options);
  for (const char* word : {"parallel.fsdp=full", "parallel.fsdp=gradients", "parallel.sequence_parallel=true",
                           "executor=eager", "executor=interpret", "precision.compute=f64"})
    EXPECT_EQ(Text("c", Mesh(2, 2) + Words{word}, 4, options), want) << word;
  GenerateOptions other = options;
  other.sampler.seed = 2;
  EXPECT_NE(Text("c", Mesh(1, 1), 1, other), want);
}

// As far as the logits themselves decide: a near tie ends the comparison, and few may.
TEST_F(Generation, GreedyTextsOfMeshesAgreeUpToANearTie) {
  int texts = 0, ties = 0;
  for (const char* family : {"gpt2", "llama", "neox"}) {
    TrainTo(family, OfFamily(family));
    for (const char* prompt : {"ab", "c", "xyz"}) {
      GenerateOptions greedy{.prompt = prompt, .tokens = 32, .sampler = {.greedy = true}}, cold = greedy;
      cold.sampler = {.temperature = 0, .seed = 5};
      Tokens one = Text(family, Mesh(1, 1), 1, greedy);
      EXPECT_EQ(Text(family, Mesh(1, 1), 1, cold), one);
      size_t tie = FirstNearTie(Path(family), greedy, one);
      for (auto [dp, tp] : kMeshes) {
        Tokens other = Text(family, Mesh(dp, tp), dp * tp, greedy);
        ASSERT_EQ(other.size(), one.size());
        EXPECT_TRUE(std::equal(one.begin(), one.begin() + std::ptrdiff_t(tie), other.begin()))
            << family << " " << dp << "x" << tp << " before token " << tie;
        texts++;
        ties += tie < one.size();
      }
    }
  }
  fmt::print("shown: {} greedy texts of 32 tokens, of which {} end at a near tie\n", texts, ties);
  EXPECT_LT(ties, texts / 2);
}

// All logits of a context at once, as the loss reads them.
std::vector<NamedValue> AllLogits(Model& model, const StepOptions& o) {
  Var tokens = Leaf(entry::kTokens, DType::kI32, {1, o.tokens}, BatchPlacement(o.model.mesh));  // [1, T]
  return {{"logits", model(tokens)}};                                                           // [1, T, V]
}

// Greedy tokens are the largest of the logits that evaluation has at their places, for texts of all lengths, and past
// the context for its last tokens.
TEST_F(Generation, GreedyTakesTheLargestLogitOfTheTrainersProgram) {
  TrainTo("c");
  for (auto [dp, tp] : {std::pair{1, 1}, {1, 2}}) {
    absl::Status status = OnSource(Path("c"), Mesh(dp, tp), dp * tp, [&](const Opened& o) {
      StepOptions one = NextTokenOptions(o.source.config, DeviceKind::kCpu);
      LoadedModel trainers(o.source.config, one, {RandomPhase::kEval, AllLogits, SlotEntries(one)}, o.context, o.mesh,
                           DeviceKind::kCpu),
          ours(o.source.config, one, NextTokenPrograms(one), o.context, o.mesh, DeviceKind::kCpu);
      EXPECT_TRUE(trainers.Load(o.source).ok() && ours.Load(o.source).ok());
      NextToken next(ours);
      Sampler greedy({.greedy = true});
      Tokens text{'a', 'b'};
      const auto context = one.tokens, vocab = o.source.config.model.vocab;
      for (int i = 0; i < 3 * context; i++) {
        int64_t seen = std::min(int64_t(text.size()), context);
        Tokens window(text.end() - seen, text.end());
        window.resize(size_t(context), 'z');  // what comes later changes nothing
        std::copy(window.begin(), window.end(), trainers.state().At(entry::kTokens).local.as<int32_t>());
        Tensor all = trainers.Run()[0];
        const float* row = all.as<float>() + (seen - 1) * vocab;  // [V]
        std::span<const double> mine = next.Logits(text);
        EXPECT_EQ(int64_t(mine.size()), vocab);
        for (int64_t v = 0; v < vocab; v++) EXPECT_NEAR(mine[size_t(v)], row[v], 1e-5) << i << " " << v;
        int32_t token = *greedy.Pick(mine, i);
        EXPECT_GE(row[token], *std::max_element(row, row + vocab) - 2e-5f);
        EXPECT_EQ(mine[size_t(token)], *std::max_element(mine.begin(), mine.end()));
        text.push_back(token);
      }
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST_F(Generation, OnlyTokensOfTheTokenizerAreDrawn) {
  folder_.Write("a.txt", "one two three, four five six; seven eight nine ten eleven twelve");
  TrainTo("c", {"data.tokenizer=chars"});
  GenerateOptions hot{.tokens = 300, .sampler = {.temperature = 1000}};
  Tokens text = Text("c", Mesh(1, 1), 1, hot);
  int32_t most = *std::max_element(text.begin(), text.end());
  absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(Path("c/step-000020"));
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(most, int64_t(CountCodePoints(checkpoint->TextOf("tokenizer.chars"))) - 1);
}

// The table is in the checkpoint: neither text nor config need be there, nor the same.
TEST_F(Generation, ACheckpointKnowsItsTokenizer) {
  TrainTo("c", {"data.tokenizer=chars"});
  GenerateOptions options{.prompt = "ab", .tokens = 10};
  Tokens before = Text("c", {}, 1, options);
  std::filesystem::remove(Path("a.txt"));
  std::filesystem::remove(path_);
  EXPECT_EQ(Text("c", {}, 1, options), before);
  EXPECT_EQ(Text("c/step-000020", {}, 2, options), before);
  options.prompt = "aB";
  EXPECT_NE(Write(Path("c"), {}, 1, options).status().message().find("command line: prompt: the character \"B\" at"),
            std::string::npos);
}

TEST_F(Generation, AConfigTakesItsOwnCheckpoint) {
  TrainTo("c", {"checkpoint.every=10"});
  GenerateOptions options{.tokens = 12};
  Tokens early = Text("c/step-000010", {}, 1, options), late = Text("c/step-000020", {}, 1, options);
  EXPECT_NE(early, late);
  EXPECT_EQ(Text("c", {}, 1, options), late);
  for (auto [steps, want] :
       {std::pair{"train.steps=20", &late}, {"train.steps=19", &early}, {"train.steps=10", &early}})
    EXPECT_EQ(Text("x.yaml", SaveTo("c") + Words{steps}, 1, options), *want) << steps;
  std::ofstream(Path("c/step-000020/manifest.json")) << "{}";
  EXPECT_EQ(Text("c", {}, 2, options), early);
}

TEST_F(Generation, WhatIsNotThereIsNamed) {
  TrainTo("c");
  std::filesystem::create_directories(Path("empty"));
  folder_.Write("broken/step-000001/manifest.json", "{}");
  folder_.Write("torn/step-000001/rank-00000.safetensors", "x");
  auto copy = [&](const char* to) {
    std::filesystem::copy(Path("c"), Path(to), std::filesystem::copy_options::recursive);
  };
  copy("bit");
  std::string shard = Path("bit/step-000020/rank-00000.safetensors"), bytes = ReadFile(shard);
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(shard, std::ios::binary) << bytes;
  struct {
    std::string path;
    Words words;
    std::string text;
  } cases[] = {
      {"absent", {}, "absent: no such file or folder; expected a checkpoint, a folder of them, or a YAML config"},
      {"empty", {}, "empty: expected a checkpoint (a folder with manifest.json) or a folder of them"},
      {"broken", {}, "broken: expected a whole checkpoint, got only broken ones:"},
      {"torn", {}, "torn/step-000001/manifest.json"},
      {"bit", {}, "the checksum of bytes"},
      {"bit/step-000020", {}, "rank-00000.safetensors: tensor"},
      {"x.yaml", {}, "expected a trained model, got a config whose checkpoint.dir is not set"},
      {"x.yaml", SaveTo("empty"), "holds no checkpoint of a step up to train.steps = 6"},
      {"x.yaml", SaveTo("broken"), "got only broken ones"},
      {"x.yaml", SaveTo("c") + Words{"train.steps=20", "model.norm_eps=0.1"}, "model.norm_eps: expected 1e-05, as"},
      {"c", {"model.dim=12"}, "model.dim: expected 6, as"},
      {"c", {"model.heads=4"}, "model.dim: expected a multiple of model.heads = 4, got 6"},
      {"c", {"mesh.dp=3", "mesh.tp=3"}, "dp=3 x tp=3 is 9 ranks, but 2 started"},
      {"c", {"tokenz=3"}, "tokenz"},
      {"c", {"data.tokenizer=chars", "data.train=" + Path("nowhere")}, "data.train: " + Path("nowhere")},
  };
  for (const auto& c : cases) {
    absl::Status status = Write(Path(c.path), c.words, 2, {.tokens = 1}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status) || absl::IsNotFound(status)) << c.path << ": " << status;
    EXPECT_NE(status.message().find(c.text), std::string::npos) << c.path << ": " << status;
  }
  EXPECT_TRUE(Write(Path("c"), {}, 2, {.tokens = 1}).ok());
}

TEST_F(Generation, PublishedWeightsWriteAsTheCheckpointThatTheyAre) {
  TrainTo("c");
  absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(Path("c/step-000020"));
  ASSERT_TRUE(checkpoint.ok());
  Parameters parameters;
  for (const auto& [name, t] : checkpoint->manifest().tensors) {
    Tensor tensor = Tensor::Zeros(t.dtype, t.shape);
    Box whole{Shape(t.shape.size(), 0), t.shape};
    checkpoint->Read(name, {whole, t.dtype, tensor.as<std::byte>(), RowMajor(t.shape)});
    parameters[name] = tensor;
  }
  folder_.Write("m/model.safetensors", Pack(HfLlama(parameters, 2, 6, DType::kF32)));
  GenerateOptions options{.prompt = "a", .tokens = 20};
  Tokens want = Text("c", {}, 1, options);
  for (const char* fsdp : {"parallel.fsdp=none", "parallel.fsdp=gradients"})
    EXPECT_EQ(Text("x.yaml", Mesh(2, 2) + Words{fsdp, "model.init=" + Path("m")}, 4, options), want);
}

// Words with the space before them, 257 of them as the model has; the first of a line has none in the text.
Tokenizer PrefixedWords(Tokens begin = {}) {
  struct Spaces : TokenEncoder {
    absl::StatusOr<size_t> Encode(std::string_view text, bool, Tokens& tokens) override {
      tokens.assign(size_t(std::count(text.begin(), text.end(), ' ')), 1);
      return text.size();
    }
  };
  std::vector<std::string> texts = {"\n"};
  for (int i = 1; i <= 256; i++) texts.push_back(fmt::format(" {}", i));
  return Tokenizer({.texts = texts,
                    .begin = std::move(begin),
                    .start = [] { return std::make_unique<Spaces>(); },
                    .lines_are_prefixed = true});
}

// Token by token as all at once, though what a token says may depend on those before it.
TEST_F(Generation, ShowsTheTextOfAllTokens) {
  TrainTo("c");
  absl::Status status = OnSource(Path("c"), {}, 1, [&](const Opened& o) {
    StepOptions one = NextTokenOptions(o.source.config, DeviceKind::kCpu);
    LoadedModel model(o.source.config, one, NextTokenPrograms(one), o.context, o.mesh, DeviceKind::kCpu);
    EXPECT_TRUE(model.Load(o.source).ok());
    Tokenizer words = PrefixedWords();
    for (const char* prompt : {"", " 1 1"}) {
      GenerateOptions options{.prompt = prompt, .tokens = 200, .sampler = {.temperature = 1000}};
      Tokens all = options.prompt.empty() ? Tokens{0} : *PromptTokens(options, words, 8);
      std::string shown, before = words.Decode(all);
      Tokens made = *Generate(model, words, all, options, [&](std::string_view text) { shown += text; });
      all.insert(all.end(), made.begin(), made.end());
      EXPECT_EQ(shown.substr(options.prompt.size()), words.Decode(all).substr(before.size()));
    }
    EXPECT_FALSE(PromptTokens({.prompt = "x"}, words, 8).ok()) << "no token";
    EXPECT_EQ(*PromptTokens({}, words, 8), Tokens{0});
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(PromptTokens, BeginAsEveryTextOfTheTokenizer) {
  Tokenizer words = PrefixedWords({7, 9});
  EXPECT_EQ(*PromptTokens({}, words, 8), (Tokens{7, 9}));
  EXPECT_EQ(*PromptTokens({.prompt = " 1 1"}, words, 4), (Tokens{7, 9, 1, 1}));
  std::string error(PromptTokens({.prompt = " 1 1"}, words, 3).status().message());
  EXPECT_EQ(error, "command line: prompt: expected at most model.context = 3 tokens, got 4; give the last 1 of them");
}

// Shards of 257 kinds may be of any tokenizer: the command line names it. Those of 256 are bytes, as the config says.
TEST_F(Generation, AModelOfTokenShardsWantsATokenizer) {
  TrainTo("c", {"data.train=" + WriteShards(folder_, "shards", testing_::Letters(700))});
  GenerateOptions options{.prompt = "a", .tokens = 3};
  EXPECT_NE(Write(Path("c"), {}, 1, options).status().message().find("data.tokenizer: is not known of a model"),
            std::string::npos);
  EXPECT_EQ(Text("c", {"data.tokenizer=bytes"}, 1, options).size(), 3u);
  TrainTo("b", {"model.vocab=256", "data.train=" + Path("shards")});
  EXPECT_EQ(Text("b", {}, 1, options).size(), 3u);
}

}  // namespace
}  // namespace weft
