// Byte-level BPE from tokenizer.json and from tiktoken's lines. Words are those that hand-written rules cut, tokens are
// those of the naive merging algorithm, and unsupported features are refused by name.
#include "weft/train/tokenizer/bpe_tokenizer.h"

#include <gtest/gtest.h>

#include <chrono>

#include "absl/strings/escaping.h"
#include "tokens/text_testing.h"
#include "tokens/tokenizer_json_testing.h"
#include "train/temp_folder.h"
#include "weft/train/infer/text_stream.h"
#include "weft/train/tokenizer/huggingface_tokenizer.h"
#include "weft/train/tokenizer/stream_encoder.h"
#include "weft/train/tokenizer/tiktoken_tokenizer.h"

namespace weft {
namespace {

using namespace testing_;
using Tokens = std::vector<int32_t>;
using Texts = std::vector<std::string>;

Tokenizer Make(const JsonParts& parts) {
  absl::StatusOr<Tokenizer> tokenizer = HuggingFaceTokenizer({TokenizerJson(parts)});
  if (tokenizer.ok()) return *std::move(tokenizer);
  ADD_FAILURE() << tokenizer.status();
  return Tokenizer::Bytes();
}

std::string Fault(const JsonParts& parts) {
  return std::string(HuggingFaceTokenizer({TokenizerJson(parts)}).status().message());
}

// Returns the texts of the tokens.
Texts Pieces(const Tokenizer& tokenizer, const std::string& text) {
  Texts pieces;
  Tokens tokens = *tokenizer.Encode(text);
  for (int32_t token : tokens) {
    bool begins = false;
    pieces.emplace_back(tokenizer.TextOf(token, begins));
  }
  return pieces;
}

// Merges naively: it merges the first pair of the lowest rank, until no pair merges.
Texts MergedByTheBook(const std::string& word, const Merges& merges) {
  Texts tokens;
  for (char ch : word) tokens.emplace_back(1, ch);
  while (true) {
    size_t best = merges.size(), at = 0;
    for (size_t i = 0; i + 1 < tokens.size(); i++)
      for (size_t rank = 0; rank < best; rank++)
        if (merges[rank] == std::pair(tokens[i], tokens[i + 1])) best = rank, at = i;
    if (best == merges.size()) return tokens;
    tokens[at] += tokens[at + 1];
    tokens.erase(tokens.begin() + std::ptrdiff_t(at) + 1);
  }
}

// The kinds of character that the patterns distinguish, for the few characters in the texts below.
enum class Kind { kLetter, kNumber, kSpace, kLine, kOther };
struct Sign {
  const char* text;
  Kind kind;
};
constexpr Sign kSigns[] = {{"s", Kind::kLetter},
                           {"t", Kind::kLetter},
                           {"L", Kind::kLetter},
                           {"l", Kind::kLetter},
                           {"\xC3\xA9", Kind::kLetter},
                           {"\xE4\xB8\xAD", Kind::kLetter},
                           {"7", Kind::kNumber},
                           {"\xD9\xA3", Kind::kNumber},
                           {"\xC2\xBD", Kind::kNumber},
                           {" ", Kind::kSpace},
                           {" ", Kind::kSpace},
                           {" ", Kind::kSpace},
                           {"\xC2\xA0", Kind::kSpace},
                           {"\t", Kind::kSpace},
                           {"\n", Kind::kLine},
                           {"\r", Kind::kLine},
                           {"'", Kind::kOther},
                           {"'", Kind::kOther},
                           {"!", Kind::kOther},
                           {"\xE1\xA0\x8E", Kind::kOther} /* U+180E */,
                           {"\xCC\x81", Kind::kOther} /* a mark */,
                           {"\xF0\x9F\x99\x82", Kind::kOther}};

class Signs {
 public:
  Signs(uint64_t seed, size_t count) {
    for (size_t i = 0; i < count; i++) signs_.push_back(kSigns[Draw(seed, i) % std::size(kSigns)]);
  }
  std::string Text(size_t begin, size_t end) const {
    std::string text;
    for (size_t i = begin; i < end; i++) text += signs_[i].text;
    return text;
  }
  std::string Text() const { return Text(0, signs_.size()); }
  size_t size() const { return signs_.size(); }
  bool Is(size_t i, Kind kind) const { return i < size() && signs_[i].kind == kind; }
  bool IsSpace(size_t i) const { return Is(i, Kind::kSpace) || Is(i, Kind::kLine); }
  bool IsOther(size_t i) const { return Is(i, Kind::kOther); }
  bool Spells(size_t i, const std::string& text, bool caseless) const {
    for (size_t k = 0; k < text.size(); k++) {
      std::string sign = i + k < size() ? signs_[i + k].text : "";
      if (caseless && sign == "L") sign = "l";
      if (sign != std::string(1, text[k])) return false;
    }
    return true;
  }
  template <class Test>
  size_t RunEnd(size_t i, Test test, size_t most = SIZE_MAX) const {
    size_t begin = i;
    while (i < size() && i - begin < most && test(i)) i++;
    return i;
  }
  size_t Contraction(size_t i, bool caseless) const {
    for (const char* end : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
      if (Spells(i, end, caseless)) return i + std::string(end).size();
    return i;
  }
  // Returns the end of a run of white space. If other text follows a run of several characters, its last character is
  // left out.
  size_t SpaceEnd(size_t i) const {
    size_t end = RunEnd(i, [&](size_t k) { return IsSpace(k); });
    return end < size() && end - i > 1 ? end - 1 : end;
  }
  bool IsPlainSpace(size_t i) const { return i < size() && std::string(signs_[i].text) == " "; }

 private:
  std::vector<Sign> signs_;
};

size_t Gpt2WordEnd(const Signs& s, size_t i) {
  if (size_t end = s.Contraction(i, false); end > i) return end;
  size_t from = i + s.IsPlainSpace(i);
  for (Kind kind : {Kind::kLetter, Kind::kNumber, Kind::kOther})
    if (s.Is(from, kind)) return s.RunEnd(from, [&](size_t k) { return s.Is(k, kind); });
  return s.SpaceEnd(i);
}

size_t Llama3WordEnd(const Signs& s, size_t i) {
  if (size_t end = s.Contraction(i, true); end > i) return end;
  bool leads = s.Is(i, Kind::kSpace) || s.IsOther(i);
  if (s.Is(i + leads, Kind::kLetter)) return s.RunEnd(i + leads, [&](size_t k) { return s.Is(k, Kind::kLetter); });
  if (s.Is(i, Kind::kNumber))
    return s.RunEnd(
        i, [&](size_t k) { return s.Is(k, Kind::kNumber); }, 3);
  size_t from = i + s.IsPlainSpace(i);
  if (s.IsOther(from))
    return s.RunEnd(s.RunEnd(from, [&](size_t k) { return s.IsOther(k); }),
                    [&](size_t k) { return s.Is(k, Kind::kLine); });
  // White space up to its last line break.
  size_t run = s.RunEnd(i, [&](size_t k) { return s.IsSpace(k); });
  for (size_t end = run; end > i; end--)
    if (s.Is(end - 1, Kind::kLine)) return end;
  return s.SpaceEnd(i);
}

const Merges& SomeMerges() {
  static const Merges merges = [] {
    std::string text;
    for (uint64_t seed = 100; seed < 200; seed++) text += Signs(seed, 60).Text();
    return LearnMerges(text, 250);
  }();
  return merges;
}

TEST(BpeTokenizer, WordsAndTokensAreThoseOfHandWrittenRules) {
  struct {
    const char* pattern;
    size_t (*end)(const Signs&, size_t);
  } kinds[] = {{nullptr, Gpt2WordEnd}, {kLlama3Pattern, Llama3WordEnd}};
  for (const auto& [pattern, end] : kinds) {
    JsonParts parts{.merges = SomeMerges()};
    if (pattern) parts.pre_tokenizer = SplitJson(pattern);
    Tokenizer tokenizer = Make(parts);
    for (uint64_t seed = 0; seed < 2000; seed++) {
      Signs signs(seed, seed % 25);
      Texts expected;
      for (size_t i = 0; i < signs.size();) {
        size_t next = end(signs, i);
        for (const std::string& token : MergedByTheBook(signs.Text(i, next), parts.merges)) expected.push_back(token);
        i = next;
      }
      ASSERT_EQ(Pieces(tokenizer, signs.Text()), expected) << (pattern ? "Llama 3" : "GPT-2") << ", seed " << seed;
    }
  }
}

TEST(BpeTokenizer, MergesAnyWordByTheBook) {
  for (uint64_t seed = 0; seed < 40; seed++) {
    std::string letters = seed % 2 ? "ab" : "abc";
    auto word = [&](uint64_t salt, size_t size) {
      std::string text;
      for (size_t i = 0; i < size; i++) text += letters[Draw(seed * 1000 + salt, i) % letters.size()];
      return text;
    };
    JsonParts parts{.merges = LearnMerges(word(0, 400), 40), .pairs_as_lists = seed % 3 != 0};
    Tokenizer tokenizer = Make(parts);
    for (uint64_t salt = 1; salt < 30; salt++) {
      std::string text = word(salt, 1 + Draw(seed, salt) % 120);
      ASSERT_EQ(Pieces(tokenizer, text), MergedByTheBook(text, parts.merges)) << "seed " << seed << ", " << text;
    }
  }
}

// Each of a million letters merges with its neighbour. A merge that looked at all other letters would take days.
TEST(BpeTokenizer, TakesALongWordInNLogNSteps) {
  Merges merges;
  for (std::string run = "a"; run.size() < 4096; run += run) merges.emplace_back(run, run);
  Tokenizer tokenizer = Make({.merges = merges});
  auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(tokenizer.Encode(std::string(1 << 20, 'a'))->size(), size_t{1 << 20} / 4096);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(BpeTokenizer, WholeWordsOfTheVocabularyNeedNoMerges) {
  // The merge of "abc" is never reached from its bytes, because "bc" merges first.
  Merges merges = {{"b", "c"}, {"a", "b"}, {"ab", "c"}};
  EXPECT_EQ(Pieces(Make({.merges = merges}), "abc"), (Texts{"a", "bc"}));
  Tokenizer whole = Make({.merges = merges, .model_rest = R"("ignore_merges":true,)"});
  EXPECT_EQ(Pieces(whole, "abc abc"), (Texts{"abc", " ", "a", "bc"}));
}

TEST(BpeTokenizer, FindsAddedTokensFirst) {
  JsonParts parts{.added = AddedJson(256, "<eot>", "s") + "," + AddedJson(257, "<eo", "n") + "," +
                           AddedJson(258, "<l>", "ls") + "," + AddedJson(259, "<r>", "r") + "," +
                           AddedJson(260, "t><", "n") + "," + AddedJson(97, "a", "n")};
  Tokenizer tokenizer = Make(parts);
  EXPECT_EQ(tokenizer.vocab(), 261);
  auto ids = [&](const std::string& text) { return *tokenizer.Encode(text); };
  EXPECT_EQ(ids("<eot>"), (Tokens{256}));
  EXPECT_EQ(ids("<eo>"), (Tokens{257, '>'}));
  EXPECT_EQ(ids("x<eot><eot>"), (Tokens{'x', 256, 256}));
  EXPECT_EQ(ids("at><eot>"), (Tokens{97, 't', '>', 256})) << "the ones that are not normalized come first";
  EXPECT_EQ(ids("t><eo"), (Tokens{260, 'e', 'o'})) << "the leftmost";
  EXPECT_EQ(ids(". \n\xE3\x80\x80<l> ."), (Tokens{'.', 258, ' ', '.'})) << "with white space before it";
  EXPECT_EQ(ids(". <r> \n\xC2\xA0."), (Tokens{'.', ' ', 259, '.'})) << "with white space after it";
  EXPECT_EQ(ids("<r>  <l>"), (Tokens{259, 258})) << "white space goes to one of two";
  bool begins = false;
  EXPECT_EQ(tokenizer.TextOf(256, begins), "<eot>");
}

TEST(BpeTokenizer, PutsASpaceBeforeTextWhereItIsAsked) {
  JsonParts parts{
      .merges = {{" ", "a"}},
      .added = AddedJson(257, "<eot>", "s"),
      .pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})"};
  Tokenizer tokenizer = Make(parts);
  auto ids = [&](const std::string& text) { return *tokenizer.Encode(text); };
  EXPECT_EQ(ids("a"), (Tokens{256}));
  EXPECT_EQ(ids(" a"), (Tokens{256}));
  EXPECT_EQ(ids("a a"), (Tokens{256, 256}));
  EXPECT_EQ(ids("a<eot>a"), (Tokens{256, 257, 256}));
  EXPECT_EQ(ids("\na"), (Tokens{' ', '\n', 'a'}));
  EXPECT_EQ(ids("<eot>"), (Tokens{257}));
  for (const char* text : {"a", "a a", "a<eot>a\na", "\na"}) EXPECT_EQ(tokenizer.Decode(ids(text)), text);
}

TEST(BpeTokenizer, KnowsWhatEveryTextBeginsWith) {
  JsonParts parts{.added = AddedJson(256, "<begin>", "s"), .post_processor = TemplateJson("<begin>", 256)};
  Tokenizer tokenizer = Make(parts);
  EXPECT_EQ(tokenizer.begin(), Tokens{256});
  EXPECT_EQ(*tokenizer.Encode("a"), Tokens{'a'});
  auto streamed = [&](const Texts& blocks) {
    Tokens all;
    StreamEncoder encoder(tokenizer, [&](std::span<const int32_t> tokens) {
      all.insert(all.end(), tokens.begin(), tokens.end());
      return absl::OkStatus();
    });
    for (const std::string& block : blocks) EXPECT_TRUE(encoder.Add(block).ok());
    EXPECT_TRUE(encoder.Finish().ok());
    return all;
  };
  EXPECT_EQ(streamed({"", "a", "", "b"}), (Tokens{256, 'a', 'b'}));
  EXPECT_EQ(streamed({"", ""}), Tokens{}) << "no text, no token";
  parts.post_processor = "null";
  EXPECT_TRUE(Make(parts).begin().empty());
}

// Tokens may end within a character. The stream returns whole characters only.
TEST(BpeTokenizer, PartsOfCharactersWaitForTheRest) {
  Tokenizer tokenizer = Make({.merges = {{"\xB8", "\xAD"}, {"\xF0", "\x9F"}}});
  TextStream stream;
  std::string shown;
  Tokens tokens = *tokenizer.Encode("a\xE4\xB8\xAD\xF0\x9F\x99\x82z");
  for (int32_t token : tokens) {
    bool begins = false;
    std::string more = stream.Add(tokenizer.TextOf(token, begins));
    EXPECT_EQ(InvalidUtf8(more), more.npos);
    shown += more;
  }
  EXPECT_EQ(shown + stream.End(), "a\xE4\xB8\xAD\xF0\x9F\x99\x82z");
}

// GPT-2's own file, from 2020, has merges as strings and a model without a type.
TEST(BpeTokenizer, ReadsWhatOlderVersionsWrote) {
  std::string json = TokenizerJson({.merges = {{"a", "b"}}, .pairs_as_lists = false});
  std::pair<std::string, std::string> changes[] = {
      {R"("type":"BPE",)", ""}, {R"(,"use_regex":true})", "}"}, {R"("merges":[)", R"("merges":["#version: 0.2",)"}};
  for (const auto& [from, to] : changes) json.replace(json.find(from), from.size(), to);
  absl::StatusOr<Tokenizer> tokenizer = HuggingFaceTokenizer({json});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(*tokenizer->Encode("ab"), Tokens{256});
}

TEST(BpeTokenizer, RefusesByNameWhatItDoesNotHave) {
  const std::string with = "weft reads byte-level BPE, as GPT-2 and Llama 3 have it",
                    byte_level = JsonParts().pre_tokenizer;
  auto sequence = [](const std::string& parts) { return R"({"type":"Sequence","pretokenizers":[)" + parts + "]}"; };
  std::pair<JsonParts, std::string> cases[] = {
      {{.normalizer = R"({"type":"NFC"})"}, "normalizer: expected null, got \"NFC\"; " + with},
      {{.pre_tokenizer = R"({"type":"Metaspace","replacement":"_"})"}, "got \"Metaspace\""},
      {{.pre_tokenizer = "null"},
       "pre_tokenizer: expected ByteLevel, or a Sequence of Split that ends in ByteLevel, got null"},
      {{.pre_tokenizer = sequence(R"({"type":"Digits"},)" + byte_level)}, "got \"Digits\" in place 0"},
      {{.pre_tokenizer = sequence(byte_level + "," + byte_level)}, "got \"ByteLevel\" in place 0"},
      {{.pre_tokenizer = sequence(R"({"type":"Split"})")}, "got \"Split\" in place 0"},
      {{.pre_tokenizer =
            sequence(R"({"type":"Split","pattern":{"Regex":"a"},"behavior":"Removed","invert":false},)" + byte_level)},
       "pre_tokenizer Split.behavior: expected \"Isolated\", got \"Removed\""},
      {{.pre_tokenizer = sequence(R"({"type":"Split","pattern":{"String":"a"},"behavior":"Isolated","invert":false},)" +
                                  byte_level)},
       "pre_tokenizer Split.pattern: expected a Regex"},
      {{.pre_tokenizer = SplitJson("\\w+")}, "got \\w at offset 0"},
      {{.pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false,"fast":1})"}, "got \"fast\""},
      {{.post_processor = R"({"type":"RobertaProcessing"})"}, "got \"RobertaProcessing\""},
      {{.post_processor =
            R"({"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"a","type_id":0}}]})"},
       "post_processor.single: expected special tokens and then the Sequence A"},
      {{.post_processor = R"({"type":"TemplateProcessing","single":[]})"}, "post_processor.single"},
      {{.post_processor = TemplateJson("<begin>", 256)}, "expected ids below 256 for \"<begin>\", got [256]"},
      {{.model_rest = R"("dropout":0.1,)"}, "model.dropout: expected null or 0, got 0.1"},
      {{.model_rest = R"("continuing_subword_prefix":"##",)"},
       "model.continuing_subword_prefix: expected null or \"\", got \"##\""},
      {{.model_rest = R"("end_of_word_suffix":"</w>",)"}, "model.end_of_word_suffix"},
      {{.model_rest = R"("ignore_merges":1,)"}, "model.ignore_merges: expected true or false, got 1"},
      {{.model_rest = R"("scores":[],)"}, "got \"scores\""},
      {{.added = AddedJson(256, "a b", "w")}, "added_tokens.single_word: expected false, got true for \"a b\""},
      {{.added = AddedJson(300, "<eot>", "s")}, "added_tokens: expected the id 256 for \"<eot>\", got 300"},
      {{.added = AddedJson(256, "a", "s")}, "added_tokens: expected the id 97 for \"a\", got 256"},
      {{.added = AddedJson(97, "a", "s") + "," + AddedJson(97, "a", "s")}, "added_tokens: \"a\" is there twice"},
      {{.added = AddedJson(256, "", "s")}, "added_tokens: expected a content"},
      {{.added = AddedJson(256, " x", "") + "," + AddedJson(257, "<r>", "r")}, "added_tokens.rstrip"},
      {{.added = "1"}, "added_tokens: expected objects, got 1"},
  };
  for (const auto& [parts, fault] : cases) {
    std::string error = Fault(parts);
    EXPECT_NE(error.find(fault), error.npos) << "expected " << fault << "\ngot      " << error;
  }
}

TEST(BpeTokenizer, RefusesFilesThatAreBroken) {
  std::string good = TokenizerJson({.merges = {{"a", "b"}}});
  struct {
    const char *from, *to, *fault;
  } cases[] = {
      {"\"version\":\"1.0\"", "\"version\":\"2.0\"", "version: expected \"1.0\", got \"2.0\""},
      {"\"version\"", "\"pattern\":1,\"version\"", "tokenizer.json: expected the keys version, "},
      {"\"type\":\"BPE\"", "\"type\":\"Unigram\"", "model: expected BPE, got \"Unigram\""},
      {"\"decoder\":{\"type\":\"ByteLevel\"", "\"decoder\":{\"type\":\"Metaspace\"",
       "decoder: expected ByteLevel, got \"Metaspace\""},
      {"\"a\":97", "\"a\":300", "model.vocab: expected the ids 0 to 256, each for one token, got 300 for \"a\""},
      {"\"a\":97", "\"a\":98", "model.vocab: expected the ids 0 to 256, each for one token, got 98 for "},
      {"\"a\":97", "\"a\":-1", "got -1 for \"a\""},
      {"\"a\":97", "\"aa\":97", "model.vocab: expected a token for each byte of UTF-8, got none for 0x61"},
      {"[\"a\", \"b\"]", "[\"a\"]", "model.merges: expected \"a b\" or [\"a\", \"b\"], got [\"a\"]"},
      {"[\"a\", \"b\"]", "\"ab\"", "model.merges: expected \"a b\" or [\"a\", \"b\"], got \"ab\""},
      {"[\"a\", \"b\"]", "\"a b c\"", "model.merges: expected \"a b\" or [\"a\", \"b\"], got \"a b c\""},
      {"[\"a\", \"b\"]", "\"a bb\"", "model.merges: expected tokens of model.vocab, got \"bb\""},
      {"[\"a\", \"b\"]", "\"b a\"", "model.merges: expected pairs that make a token of model.vocab, got \"b a\""},
      {"\"merges\":[", "\"merges\":{}, \"x\":[", "model: expected the keys type, "},
      {"\"vocab\":{", "\"vocab\":[], \"fuse_unk\":{",
       "model.vocab: expected an object of tokens and their ids, got []"},
      {"}", "", "expected a JSON object, got something else"},
  };
  for (const auto& c : cases) {
    std::string json = good;
    size_t at = json.find(c.from);
    ASSERT_NE(at, json.npos) << c.from;
    json.replace(at, std::string(c.from).size(), c.to);
    std::string error(HuggingFaceTokenizer({json}).status().message());
    EXPECT_NE(error.find(c.fault), error.npos) << "expected " << c.fault << "\ngot      " << error;
  }
}

// Returns as many lines as Llama 3 has: all bytes, then all pairs of bytes, then some triples.
std::string TiktokenLines(size_t count = 128'000) {
  std::string lines;
  for (size_t rank = 0; rank < count; rank++) {
    size_t pair = rank - 256, triple = pair - 65536;
    std::string bytes = rank < 256     ? std::string{char(rank)}
                        : pair < 65536 ? std::string{char(pair >> 8), char(pair)}
                                       : std::string{char('a' + triple / 65536), char(triple >> 8), char(triple)};
    lines += absl::Base64Escape(bytes) + " " + std::to_string(rank) + "\n";
  }
  return lines;
}

TEST(Tiktoken, TakesTheLinesOfLlama3) {
  absl::StatusOr<Tokenizer> tokenizer = TiktokenTokenizer({TiktokenLines()});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(tokenizer->vocab(), 128'256);
  EXPECT_EQ(tokenizer->begin(), Tokens{128'000});
  // Merges are ordered by the rank of their result: "bc" has rank 256 + 98 * 256 + 99, and "ab" a lower one.
  EXPECT_EQ(Pieces(*tokenizer, "abcb"), (Texts{"ab", "cb"}));
  EXPECT_EQ(Pieces(*tokenizer, "zab"), (Texts{"z", "ab"})) << "its word has no token";
  EXPECT_EQ(Pieces(*tokenizer, "abc"), (Texts{"abc"})) << "its word has one";
  EXPECT_EQ(*tokenizer->Encode("<|eot_id|>"), Tokens{128'009});
  EXPECT_EQ(Pieces(*tokenizer, "1234"), (Texts{"12", "3", "4"}));
  EXPECT_EQ(tokenizer->Decode(Tokens{128'002, 'a'}), "a") << "reserved ids have no text";
}

TEST(Tiktoken, RefusesOtherLines) {
  auto fault = [](const std::string& lines) { return std::string(TiktokenTokenizer({lines}).status().message()); };
  auto says = [&](const std::string& lines, const std::string& text) {
    EXPECT_NE(fault(lines).find(text), std::string::npos) << fault(lines);
  };
  says(TiktokenLines(50'256), "expected the 128000 lines of Llama 3, got 50256: the lines do not hold the pattern");
  says("AA== 0\nAQ== 2\n", "line 2: expected the base64 of a token and the rank 1, got \"AQ== 2\"");
  says("AA== 0\nA 1\n", "line 2: expected the base64 of a token");
  says("AA==\n", "line 1: expected the base64 of a token");
  std::string lines = TiktokenLines();
  says(lines.replace(lines.find("AQ== 1\n"), 7, "AA== 1\n"), "line 2: expected other bytes than those of rank 0");
  lines = TiktokenLines();
  says(lines.replace(lines.find("AQ== 1\n"), 7, "AQEBAQ== 1\n"), "expected a token for each byte, got none for 0x01");
}

// A tokenizer is named by a folder, a file or a word. The content of the files decides its kind.
TEST(PublishedTokenizer, IsToldByItsContent) {
  TempFolder folder;
  auto fault = [](const std::string& name) { return std::string(Tokenizer::Open(name).status().message()); };
  std::string json = TokenizerJson({.merges = {{"a", "b"}}}), nfc = TokenizerJson({.normalizer = R"({"type":"NFC"})"});
  std::filesystem::create_directory(folder.Path("a"));
  EXPECT_EQ(fault("huggingface:" + folder.Path("a")),
            folder.Path("a") + ": expected a folder with tokenizer.json or tokenizer.model, got one without");
  std::string model = folder.Write("a/tokenizer.model", TiktokenLines());
  EXPECT_EQ(Tokenizer::Open("huggingface:" + folder.Path("a"))->kind(), TokenizerKind::kTiktoken);
  EXPECT_EQ(Tokenizer::Open("huggingface:" + model)->kind(), TokenizerKind::kTiktoken);
  EXPECT_EQ(Tokenizer::Open("tiktoken:" + model)->kind(), TokenizerKind::kTiktoken);
  EXPECT_EQ(fault("sentencepiece:" + model),
            model + ": expected a file of sentencepiece, got one of tiktoken; give tiktoken:" + model);
  // If a folder has both files, tokenizer.json is used, unless its kind is not supported.
  std::string file = folder.Write("a/tokenizer.json", json);
  EXPECT_EQ(Tokenizer::Open("huggingface:" + folder.Path("a"))->kind(), TokenizerKind::kHuggingFace);
  EXPECT_EQ(fault("tiktoken:" + file),
            file + ": expected a file of tiktoken, got one of huggingface; give huggingface:" + file);
  folder.Write("a/tokenizer.json", nfc);
  EXPECT_EQ(Tokenizer::Open("huggingface:" + folder.Path("a"))->kind(), TokenizerKind::kTiktoken);
  int64_t vocab = Tokenizer::Open("tiktoken:" + model)->vocab();
  auto adds = [&](int64_t id) {
    folder.Write("a/tokenizer.json",
                 TokenizerJson({.added = AddedJson(int(id), "<pad>", "s"), .normalizer = R"({"type":"NFC"})"}));
    return fault("huggingface:" + folder.Path("a"));
  };
  EXPECT_EQ(adds(vocab - 1), "");
  EXPECT_EQ(adds(vocab),
            fmt::format("{}: adds \"<pad>\" with id {}, which tokenizer.model in its folder, of {} ids, does "
                        "not have; Weft reads the latter only: use a tokenizer.json of byte-level BPE, or "
                        "remove the token from both and from the weights",
                        file, vocab, vocab));
  folder.Write("a/tokenizer.json", nfc);
  folder.Write("a/tokenizer.model", "AA== 0\n");
  std::string both = fault("huggingface:" + folder.Path("a"));
  EXPECT_NE(both.find("normalizer: expected null, got \"NFC\""), both.npos) << both;
  EXPECT_NE(both.find("expected the 128000 lines of Llama 3, got 1"), both.npos) << both;
  folder.Write("a/tokenizer.json", "{");
  EXPECT_NE(fault("huggingface:" + folder.Path("a")).find("tokenizer.json: JSON: expected a JSON object"),
            std::string::npos);
  std::string other = folder.Write("other", "abc");
  EXPECT_EQ(fault("huggingface:" + other),
            other + ": expected a tokenizer.json or a tokenizer.model, got another file");
}

}  // namespace
}  // namespace weft
