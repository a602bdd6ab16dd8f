// Tokenizers: decoding gives the text back, tokens do not depend on how the text is cut into blocks, and files that are
// no tokenizers are errors.
#include "weft/train/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include "tokens/sentencepiece_testing.h"
#include "tokens/text_testing.h"
#include "tokens/tokenizer_json_testing.h"
#include "train/temp_folder.h"
#include "weft/train/tokenizer/bpe_tokenizer.h"
#include "weft/train/tokenizer/huggingface_tokenizer.h"
#include "weft/train/tokenizer/sentencepiece_library.h"
#include "weft/train/tokenizer/stream_encoder.h"

namespace weft {
namespace {

using namespace testing_;
using Tokens = std::vector<int32_t>;

// Returns tokenizers of all kinds: bytes, the characters of the text, pieces learned from another text, and byte pairs
// with both patterns.
std::vector<std::pair<std::string, Tokenizer>> TokenizersFor(const std::string& text, const TempFolder& folder) {
  std::vector<std::pair<std::string, Tokenizer>> all = {{"bytes", Tokenizer::Bytes()},
                                                        {"chars", Tokenizer::Chars({text})}};
  JsonParts parts{.merges = LearnMerges(Prose(1, 300), 100)};
  int next = 256 + int(parts.merges.size());
  parts.added = AddedJson(next, "<s>", "s") + "," + AddedJson(next + 1, "<0x0A>", "n");
  all.emplace_back("huggingface", *HuggingFaceTokenizer({TokenizerJson(parts)}));
  parts.pre_tokenizer = SplitJson(kLlama3Pattern);
  all.emplace_back("huggingface", *HuggingFaceTokenizer({TokenizerJson(parts), "{}"}));
  if (!HasSentencePiece()) return all;
  std::string model = folder.Write("a.model", *Learn(Prose(1, 3000), 360));
  all.emplace_back("sentencepiece", *Tokenizer::Open("sentencepiece:" + model));
  return all;
}

TEST(Tokenizer, GivesEveryTextBack) {
  TempFolder folder;
  for (uint64_t seed = 0; seed < 30; seed++) {
    std::string text = RandomText(seed, 1 + Draw(99, seed) % 600);
    ASSERT_EQ(InvalidUtf8(text), text.npos);
    for (const auto& [name, tokenizer] : TokenizersFor(text, folder)) {
      Tokens tokens = *tokenizer.Encode(text);
      ASSERT_EQ(tokenizer.Decode(tokens), text) << name << ", seed " << seed;
      bool line_begins = true;
      size_t bytes = 0;
      for (int32_t token : tokens) {
        ASSERT_TRUE(token >= 0 && token < tokenizer.vocab());
        bytes += tokenizer.TextOf(token, line_begins).size();
      }
      ASSERT_EQ(bytes, text.size());
    }
  }
}

// Blocks of any size, with lines that are longer than any block.
TEST(Tokenizer, TokensOfBlocksAreThoseOfTheWhole) {
  TempFolder folder;
  std::string text = RandomText(5, 3000) + std::string(40'000, 'b') + "€€" + Prose(7, 200) + "no newline at the end";
  auto all = TokenizersFor(text, folder);
  // A tokenizer that removes white space next to its tokens and inserts some, so its text does not decode exactly.
  JsonParts greedy{
      .added = AddedJson(256, "a ", "l") + "," + AddedJson(257, "<unk>", "lrn") + "," + AddedJson(98, "b", "l"),
      .pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true})"};
  all.emplace_back("greedy", *HuggingFaceTokenizer({TokenizerJson(greedy)}));
  for (const auto& [name, tokenizer] : all) {
    Tokens whole = *tokenizer.Encode(text);
    if (name != "greedy") {
      EXPECT_EQ(tokenizer.Decode(whole), text);
    }
    for (uint64_t seed = 0; seed < 12; seed++) {
      Tokens streamed;
      StreamEncoder encoder(tokenizer, [&](std::span<const int32_t> tokens) {
        streamed.insert(streamed.end(), tokens.begin(), tokens.end());
        return absl::OkStatus();
      });
      uint32_t longest = seed < 4 ? 9 : seed < 8 ? 3000 : 30'000;
      for (size_t at = 0, i = 0; at < text.size(); i++) {
        int64_t points = 1 + Draw(seed, i) % longest;
        size_t size = SkipCodePoints(std::string_view(text).substr(at), points);
        ASSERT_TRUE(encoder.Add(std::string_view(text).substr(at, size)).ok());
        at += size;
      }
      ASSERT_TRUE(encoder.Finish().ok());
      ASSERT_EQ(streamed, whole) << name << ", seed " << seed;
    }
  }
}

// The stored files of a tokenizer recreate it, with a path or without.
TEST(Tokenizer, ReadsItsFileBack) {
  TempFolder folder;
  std::string text = RandomText(3, 500);
  int count = 0;
  for (const auto& [name, tokenizer] : TokenizersFor(text, folder)) {
    std::string own = std::to_string(count++) + "/";
    EXPECT_EQ(tokenizer.names().word, name);
    for (auto [file, bytes] : tokenizer.NamedFiles()) folder.Write(own + file, *bytes);
    std::string path = folder.Path(own + tokenizer.names().file);
    for (bool named : {false, name != "bytes"}) {
      absl::StatusOr<Tokenizer> same =
          named ? Tokenizer::Open(name + ":" + path) : Tokenizer::FromFiles(tokenizer.kind(), tokenizer.files());
      ASSERT_TRUE(same.ok()) << std::string(same.status().message());
      EXPECT_EQ(*same->Encode(text), *tokenizer.Encode(text)) << name;
      EXPECT_EQ(same->vocab(), tokenizer.vocab());
      EXPECT_EQ(same->files().table, tokenizer.files().table);
      EXPECT_EQ(same->files().settings, tokenizer.files().settings);
      EXPECT_EQ(same->kind(), tokenizer.kind());
    }
  }
  EXPECT_FALSE(Tokenizer::FromFiles(TokenizerKind::kBytes, {Tokenizer::Bytes().files().table.substr(1)}).ok());
}

// Models that were trained with a dummy prefix put a space before a line. Decoding removes it, because it is not in the
// text.
TEST(Tokenizer, TakesThePrefixOfLinesOff) {
  Tokenizer tokenizer({.texts = {" a", "\n", " ", "b", ""}, .lines_are_prefixed = true});
  EXPECT_EQ(tokenizer.Decode(Tokens{0, 0, 1, 0}), "a a\na");
  EXPECT_EQ(tokenizer.Decode(Tokens{4, 2, 0, 1, 2, 2, 3}), " a\n b");
}

TEST(Tokenizer, RefusesFilesThatAreNone) {
  TempFolder folder;
  struct {
    std::string name, text;
  } cases[] = {
      {"chars:" + folder.Path("no.chars"), "no.chars: cannot be opened (No such file or directory)"},
      {"chars:" + folder.Write("e.chars", ""), "each above the one before, got an empty file"},
      {"chars:" + folder.Write("d.chars", "abb"),
       "d.chars: expected the characters of a tokenizer, each above the one "
       "before, got \"b\" at offset 2; give the tokenizer.chars"},
      {"chars:" + folder.Write("o.chars", "b\n"), "got \"\\n\" at offset 1"},
      {"chars:" + folder.Write("u.chars", "a\xFF"), "got what is not UTF-8"},
      {"chars:", "expected a path after chars:, got nothing"},
      {"sentencepiece:" + folder.Path("no.model"), "no.model: cannot be opened"},
  };
  for (const auto& bad : cases) {
    std::string error(Tokenizer::Open(bad.name).status().message());
    EXPECT_NE(error.find(bad.text), error.npos) << "expected " << bad.text << "\ngot      " << error;
  }
}

TEST(SentencePiece, RefusesFilesThatAreNoModel) {
  if (!HasSentencePiece()) GTEST_SKIP() << "built without sentencepiece";
  TempFolder folder;
  std::string model = *Learn(Prose(1, 3000), 360);
  for (const std::string& bytes : {std::string(), std::string("no model"), std::string(100, '\xFF'),
                                   model.substr(0, 50), model.substr(0, model.size() / 2)}) {
    std::string error(Tokenizer::Open("sentencepiece:" + folder.Write("b.model", bytes)).status().message());
    EXPECT_NE(error.find("b.model: expected a sentencepiece model, got another file ("), error.npos) << error;
  }
}

TEST(SentencePiece, LearnsAsManyPiecesAsItIsAsked) {
  if (!HasSentencePiece()) GTEST_SKIP() << "built without sentencepiece";
  TempFolder folder;
  std::string text = Prose(1, 3000);
  size_t last = SIZE_MAX;
  for (int64_t vocab : {280, 320, 360}) {
    Tokenizer tokenizer = *Tokenizer::Open("sentencepiece:" + folder.Write("a.model", *Learn(text, vocab)));
    EXPECT_EQ(tokenizer.vocab(), vocab);
    size_t tokens = tokenizer.Encode(text)->size();
    EXPECT_LT(tokens, last) << "more pieces are longer ones";
    last = tokens;
  }
  EXPECT_EQ(*Learn(text, 360), *Learn(text, 360));
}

// A model like Llama 2's puts a space before a text. Lines are encoded one by one, but the tokens are those that the
// model gives for the whole text.
TEST(SentencePiece, PutsASpaceBeforeTheFirstLineOnly) {
  if (!HasSentencePiece()) GTEST_SKIP() << "built without sentencepiece";
  constexpr std::string_view kPrefix("\x1A\x02\x18\x01",
                                     4);  // normalizer_spec { add_dummy_prefix: true }, overriding the model's own
  std::string table = *Learn(Prose(1, 3000), 360) + std::string(kPrefix), fault;
  Tokenizer tokenizer = *Tokenizer::FromFiles(TokenizerKind::kSentencePiece, {table});
  std::unique_ptr<SentencePieceModel> model = SentencePieceModel::Open(table, fault);
  for (uint64_t seed = 0; seed < 20; seed++) {
    std::string text = Prose(seed, 40) + (seed % 2 ? "\n\n  two\n" : "") + Prose(seed + 100, 20);
    Tokens whole;
    model->Encode(text, whole);
    Tokens tokens = *tokenizer.Encode(text);
    EXPECT_EQ(tokens, whole) << "seed " << seed;
    EXPECT_EQ(tokenizer.Decode(tokens), text);
  }
  std::string line(20'000, 'b');
  EXPECT_EQ(tokenizer.Decode(*tokenizer.Encode(line)), line) << "in parts";
}

TEST(SentencePiece, BeginsTextsAsTheSettingsBesideItSay) {
  if (!HasSentencePiece()) GTEST_SKIP() << "built without sentencepiece";
  TempFolder folder;
  std::string model = folder.Write("tokenizer.model", *Learn(Prose(1, 3000), 360));
  struct {
    const char *settings, *fault;
    Tokens begin;
  } cases[] = {
      {R"({})", "", {}},
      {R"({"add_bos_token": true})", "", {1}},
      {R"({"add_bos_token": false, "tokenizer_class": "LlamaTokenizer"})", "", {}},
      {R"({"add_bos_token": null, "tokenizer_class": "LlamaTokenizerFast"})", "", {1}},
      {R"({"tokenizer_class": "LlamaTokenizer"})", "", {1}},
      {R"({"tokenizer_class": "T5Tokenizer"})", "", {}},
      {R"({"add_eos_token": true})", "tokenizer_config.json: add_eos_token: expected false, got true", {}},
      {R"({"add_bos_token": 1})", "tokenizer_config.json: add_bos_token: expected true or false, got 1", {}},
      {R"([])", "tokenizer_config.json: expected a JSON object, got []", {}},
  };
  EXPECT_TRUE(Tokenizer::Open("sentencepiece:" + model)->begin().empty()) << "without settings";
  for (const auto& c : cases) {
    folder.Write("tokenizer_config.json", c.settings);
    for (const std::string& name : {"sentencepiece:" + model, "huggingface:" + folder.Path()}) {
      absl::StatusOr<Tokenizer> tokenizer = Tokenizer::Open(name);
      std::string error(tokenizer.status().message());
      EXPECT_EQ(tokenizer.ok(), *c.fault == '\0') << error;
      EXPECT_NE(error.find(c.fault), error.npos) << error;
      if (!tokenizer.ok()) continue;
      EXPECT_EQ(tokenizer->begin(), c.begin) << c.settings;
      EXPECT_EQ(tokenizer->files().settings, c.settings);
      bool begins = true;
      for (int32_t token : c.begin) EXPECT_EQ(tokenizer->TextOf(token, begins), "");
    }
  }
}

TEST(SentencePiece, RefusesAVocabThatTheTextCannotGive) {
  if (!HasSentencePiece()) GTEST_SKIP() << "built without sentencepiece";
  auto says = [](const absl::StatusOr<std::string>& model, const std::string& text) {
    std::string error(model.status().message());
    EXPECT_NE(error.find(text), error.npos) << "expected " << text << "\ngot      " << error;
  };
  says(Learn(Prose(1, 3000), 100), "expected a vocab of at least the 275 pieces");  // 15 letters, the space, 259 others
  says(Learn("to be or not to be\n", 5000), "expected a vocab of at most the ");
  says(Learn("\n\n\n", 300), "no pieces could be learned from this text");
}

}  // namespace
}  // namespace weft
