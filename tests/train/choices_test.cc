// Log-likelihoods of endings are those of the logits, on every mesh, and files of items are read as HellaSwag has them.
#include "weft/train/infer/choices.h"

#include <fmt/format.h>
#include <random>

#include "share.h"
#include "support/infer_testing.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/mesh.h"
#include "weft/train/infer/choice_scores.h"
#include "weft/train/infer/loaded_model.h"
#include "weft/train/infer/next_token.h"
#include "weft/train/infer/source.h"

namespace weft {
namespace {

using namespace testing_;
using Tokens = std::vector<int32_t>;

constexpr int64_t kContext = 8;  // of the model

// Items of bytes. Contexts and endings together are shorter and longer than the model's context.
std::vector<ChoiceItem> RandomItems(int count) {
  std::mt19937 random(1);
  auto text_of = [&](size_t least, size_t most) {
    std::string text;
    for (size_t n = least + random() % (most - least + 1); n > 0; n--) text += char('a' + random() % 26);
    return text;
  };
  std::vector<ChoiceItem> items;
  for (int i = 0; i < count; i++) {
    ChoiceItem item{.line = i + 1, .context = text_of(1, 9) + (i % 5 == 0 ? " " : "")};
    for (size_t n = 2 + random() % 3; n > 0; n--) item.endings.push_back(text_of(1, 6));
    item.label = int64_t(random() % item.endings.size());
    items.push_back(std::move(item));
  }
  return items;
}

class Choices : public InferTest {
 protected:
  void SetUp() override {
    CheckpointTest::SetUp();
    absl::Status status = Train(Words{"optimizer.lr=3e-2", "train.steps=20"} + SaveTo("c"));
    ASSERT_TRUE(status.ok()) << status;
  }

  std::vector<double> Sums(const std::vector<EndingTokens>& endings, const Words& words, int ranks) const {
    std::vector<std::vector<double>> sums(static_cast<size_t>(ranks));
    absl::Status status = OnSource(
        Path("c"), words, ranks,
        [&](const Opened& o) {
          StepOptions options = ChoiceOptions(o.source.config, o.mesh.shape(), endings);
          LoadedModel model(o.source.config, options, ChoiceProgram(options), o.context, o.mesh, DeviceKind::kCpu);
          if (absl::Status s = model.Load(o.source); !s.ok()) return s;
          sums[size_t(o.context.rank())] = LogLikelihoods(model, endings);
          return absl::OkStatus();
        },
        MeshFill::kData);
    EXPECT_TRUE(status.ok()) << status;
    for (const auto& mine : sums) EXPECT_EQ(mine, sums[0]);
    return sums[0];
  }

  // One token at a time, in f64, from the logits that weft generate has.
  std::vector<double> Direct(const std::vector<EndingTokens>& endings) const {
    std::vector<double> sums;
    absl::Status status = OnSource(Path("c"), {"precision.compute=f64"}, 1, [&](const Opened& o) {
      StepOptions options = NextTokenOptions(o.source.config, DeviceKind::kCpu);
      LoadedModel model(o.source.config, options, NextTokenPrograms(options), o.context, o.mesh, DeviceKind::kCpu);
      if (absl::Status s = model.Load(o.source); !s.ok()) return s;
      NextToken next(model);
      for (const EndingTokens& e : endings) {
        double sum = 0;
        for (size_t t = e.tokens.size() - size_t(e.count); t < e.tokens.size(); t++) {
          std::span<const double> logits = next.Logits(std::span(e.tokens).first(t));
          double all = 0;
          for (double logit : logits) all += std::exp(logit);
          sum += logits[size_t(e.tokens[t])] - std::log(all);
        }
        sums.push_back(sum);
      }
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
    return sums;
  }
};

TEST_F(Choices, AreThoseOfTheLogitsOnEveryMesh) {
  std::vector<ChoiceItem> items = RandomItems(25);
  std::vector<EndingTokens> endings = *EncodeChoices(items, Tokenizer::Bytes(), kContext, "a.jsonl");
  std::vector<double> want = Direct(endings);
  ASSERT_EQ(want.size(), endings.size());
  struct Case {
    Words words;
    int ranks;
    double slack;  // for endings of at most 7 tokens; f32 has 24 bits of logits of up to 20
  } cases[] = {
      {{"precision.compute=f64"}, 1, 1e-12},
      {Mesh(2, 2) + Words{"precision.compute=f64"}, 4, 1e-12},
      {Mesh(1, 1), 1, 3e-5},
      {Mesh(2, 2), 4, 3e-5},
      {Mesh(3, 1), 3, 3e-5},
      {Mesh(1, 3), 3, 3e-5},
      {Mesh(2, 2) + Words{"parallel.fsdp=full", "parallel.sequence_parallel=true"}, 4, 3e-5},
      {Mesh(2, 1) + Words{"executor=eager"}, 2, 3e-5},
      {Mesh(2, 1) + Words{"executor=interpret", "train.micro_batch=2"}, 2, 3e-5},
  };
  for (const Case& c : cases) {
    std::vector<double> got = Sums(endings, c.words, c.ranks);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); i++)
      EXPECT_NEAR(got[i], want[i], c.slack) << fmt::to_string(c.ranks) << " " << i;
    std::vector<Choice> ours = ChoicesOf(items, got), theirs = ChoicesOf(items, want);
    for (size_t i = 0; i < items.size(); i++) EXPECT_EQ(ours[i].by_sum, theirs[i].by_sum);
  }
}

TEST(ChoiceRecords, CountTheRightChoices) {
  std::vector<ChoiceItem> items = {{.line = 1, .endings = {"abcd", "e", "fg"}, .label = 1},
                                   {.line = 3, .endings = {"a", "\xc3\xa9\xc3\xa9"}, .label = 1},
                                   {.line = 4, .endings = {"a", "b"}, .label = 0}};
  std::vector<double> sums = {-4, -3, -5, -1, -2, -7, -7};
  std::vector<Choice> choices = ChoicesOf(items, sums);
  EXPECT_EQ(choices[0].by_sum, 1);
  EXPECT_EQ(choices[0].by_byte, 0) << "-1 per byte against -3 and -2.5";
  EXPECT_EQ(choices[1].by_sum, 0);
  EXPECT_EQ(choices[1].by_byte, 1) << "of four bytes";
  EXPECT_EQ(choices[2].by_sum, 0) << "the first of equal ones";
  ChoiceRecord record = RecordOf(items, choices);
  EXPECT_DOUBLE_EQ(record.acc, 2.0 / 3);
  EXPECT_DOUBLE_EQ(record.acc_norm, 2.0 / 3);
  EXPECT_EQ(record.endings, 7);
  EXPECT_EQ(JsonLine(items[1], choices[1]),
            R"({"line":3,"label":1,"choice":0,"choice_norm":1,"log_likelihoods":[-1,-2]})");
}

// Characters; and "b c" and "b " become one token, as byte pairs do.
Tokenizer Merging(Tokens begin = {}, std::optional<int32_t> end = {}) {
  struct Merges : TokenEncoder {
    absl::StatusOr<size_t> Encode(std::string_view text, bool, Tokens& tokens) override {
      for (size_t at = 0; at < text.size();) {
        size_t size = text.substr(at).starts_with("b c") ? 3 : text.substr(at).starts_with("b ") ? 2 : 1;
        tokens.push_back(size > 1 ? int32_t(254 + size) : text[at]);
        at += size;
      }
      return text.size();
    }
  };
  return Tokenizer(
      {.texts = std::vector<std::string>(258, "x"), .begin = std::move(begin), .end_of_text = end, .start = [] {
         return std::make_unique<Merges>();
       }});
}

EndingTokens One(const std::string& context, const std::string& ending, const Tokenizer& tokenizer,
                 int64_t most = kContext) {
  auto encoded = EncodeChoices({{.line = 7, .context = context, .endings = {ending}}}, tokenizer, most, "a.jsonl");
  EXPECT_TRUE(encoded.ok()) << encoded.status();
  return encoded.ok() ? encoded->at(0) : EndingTokens();
}

TEST(EncodeChoices, TakesTheTokensAfterThoseOfTheContext) {
  Tokenizer bytes = Tokenizer::Bytes();
  auto expect = [](const EndingTokens& got, const Tokens& tokens, int64_t count) {
    EXPECT_EQ(got.tokens, tokens);
    EXPECT_EQ(got.count, count);
  };
  expect(One("ab", "cd", bytes), {'a', 'b', ' ', 'c', 'd'}, 3);
  expect(One("ab \n", "c", bytes), {'a', 'b', ' ', '\n', ' ', 'c'}, 4);
  expect(One("abcdefgh", "ij", bytes), {'c', 'd', 'e', 'f', 'g', 'h', ' ', 'i', 'j'}, 3);
  expect(One("ab", "cdefghi", bytes), {'b', ' ', 'c', 'd', 'e', 'f', 'g', 'h', 'i'}, 8);
  expect(One("aa", "c", Merging()), {'a', 'a', ' ', 'c'}, 2);
  expect(One("ab", "dd", Merging()), {'a', 256, 'd', 'd'}, 2);
  expect(One("ab", "dd", Merging({9, 8})), {9, 8, 'a', 256, 'd', 'd'}, 2);
  expect(One("", "d", Merging({9})), {9, ' ', 'd'}, 2);
  expect(One("", "d", Merging({}, 5)), {5, ' ', 'd'}, 2);
}

TEST(EncodeChoices, WhatCannotBeIsRefused) {
  auto fault = [](const std::string& context, const std::string& ending, const Tokenizer& tokenizer) {
    std::vector<ChoiceItem> items = {{.line = 7, .context = context, .endings = {ending}}};
    absl::Status status = EncodeChoices(items, tokenizer, kContext, "a.jsonl").status();
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  EXPECT_EQ(fault("", "a", Tokenizer::Bytes()),
            "a.jsonl:7: ctx: expected a text, got none, and the tokenizer has no token that can come before an ending");
  EXPECT_EQ(fault("a", "bcdefghi", Tokenizer::Bytes()),
            "a.jsonl:7: \"bcdefghi\": expected an ending of at most model.context = 8 tokens, got 9");
  EXPECT_EQ(fault("ab", "c", Merging()),
            "a.jsonl:7: \"c\": expected an ending with a token of its own, got one that its context takes in");
  EXPECT_EQ(fault("aB", "a", Tokenizer::Chars({"ab "})).find("a.jsonl:7: ctx: the character \"B\" at offset 1"), 0u);
  EXPECT_EQ(fault("ab", "aC", Tokenizer::Chars({"ab "})).find("a.jsonl:7: \"aC\": the character \"C\""), 0u);
}

TEST(ReadChoices, TakesHellaSwagsLines) {
  TempFolder folder;
  std::string path = folder.Write("a.jsonl",
                                  "\xEF\xBB\xBF{\"ind\": 24, \"activity_label\": \"Roof\", \"ctx_a\": \"A man\", "
                                  "\"ctx_b\": \"he\", \"ctx\": \"A man "
                                  "he\", \"split\": \"val\", \"endings\": [\"is \\u00e9\", \"b\", \"c\", \"d\"], "
                                  "\"source_id\": \"x\", \"label\": 3}\n"
                                  "\n"
                                  "{\"ctx\": \"\", \"endings\": [\"a\", \"b\"], \"label\": \"1\"}\r\n");
  absl::StatusOr<std::vector<ChoiceItem>> items = ReadChoices(path);
  ASSERT_TRUE(items.ok()) << items.status();
  ASSERT_EQ(items->size(), 2u);
  EXPECT_EQ(items->at(0).context, "A man he");
  EXPECT_EQ(items->at(0).endings, (Words{"is \xc3\xa9", "b", "c", "d"}));
  EXPECT_EQ(items->at(0).label, 3);
  EXPECT_EQ(items->at(1).line, 3);
  EXPECT_EQ(items->at(1).label, 1);
}

TEST(ReadChoices, BadLinesAreNamed) {
  TempFolder folder;
  const std::pair<const char*, const char*> cases[] = {
      {"{", "2: expected a JSON object, got something else"},
      {"[1]", "2: expected a JSON object, got [1]"},
      {R"({"endings": ["a", "b"], "label": 0})",
       R"(2: expected {"ctx": "...", "endings": ["...", ...], "label": 0}, got no "ctx")"},
      {R"({"ctx": "a", "label": 0})", "got no \"endings\""},
      {R"({"ctx": "a", "endings": ["a", "b"]})", "got no \"label\""},
      {R"({"ctx": 1, "endings": ["a", "b"], "label": 0})", "2: ctx: expected a text, got 1"},
      {R"({"ctx": "a", "endings": "ab", "label": 0})",
       R"(2: endings: expected a list of 2 to 1000 texts that are not empty, got "ab")"},
      {R"({"ctx": "a", "endings": ["a"], "label": 0})", "2: endings: expected a list of 2 to 1000 texts"},
      {R"({"ctx": "a", "endings": ["a", ""], "label": 0})", "2: endings: expected a list of 2 to 1000 texts"},
      {R"({"ctx": "a", "endings": ["a", 1], "label": 0})", "2: endings: expected a list of 2 to 1000 texts"},
      {R"({"ctx": "a", "endings": ["a", "b"], "label": 2})",
       "2: label: expected the index of one of 2 endings, 0 to 1, got 2"},
      {R"({"ctx": "a", "endings": ["a", "b"], "label": -1})", "got -1"},
      {R"({"ctx": "a", "endings": ["a", "b"], "label": ""})", "got \"\""},
      {R"({"ctx": "a", "endings": ["a", "b"], "label": "1x"})", "got \"1x\""},
      {R"({"ctx": "a", "endings": ["a", "b"], "label": 0.5})", "got 0.5"},
      {R"({"ctx": "a", "endings": ["a", "b"], "label": 18446744073709551615})", "got 18446744073709551615"},
  };
  for (auto [line, text] : cases) {
    std::string path = folder.Write("a.jsonl", std::string("\n") + line + "\n");
    absl::Status status = ReadChoices(path).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << line;
    EXPECT_EQ(status.message().find(path), 0u) << status;
    EXPECT_NE(status.message().find(text), std::string::npos) << status;
  }
  EXPECT_NE(ReadChoices(folder.Write("a.jsonl", "\n \n")).status().message().find("got blank lines only"),
            std::string::npos);
  EXPECT_FALSE(ReadChoices(folder.Path("none")).ok());
}

}  // namespace
}  // namespace weft
