// Data: the same sequences on every mesh, an evaluation that counts every token once, and errors that name the file.
#include "weft/train/data/data.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "fmt/format.h"
#include "tokens/data_testing.h"
#include "tokens/sentencepiece_testing.h"
#include "tokens/tokenizer_json_testing.h"
#include "weft/core/host/utf8.h"
#include "weft/train/data/documents.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using namespace testing_;

TEST(Data, BatchesAreTheSameForEverySplitOfTheRows) {
  TempFolder folder;
  std::string file = folder.Write("a.txt", Letters(1000));
  for (const char* key : {"data.shuffle=true", "data.shuffle=false", "data.synthetic=true", "model.family=bert"}) {
    Dataset dataset = MakeDataset(file, {key});
    for (int64_t step : {0, 1, 999}) {
      Batch whole = TrainBatch(dataset, step, 0, 12);
      ASSERT_EQ(whole.count, 12 * 8 - std::count(whole.targets.begin(), whole.targets.end(), kIgnoredTarget));
      ASSERT_EQ(whole.count == 12 * 8, std::string(key) != "model.family=bert") << "only masked tokens are targets";
      for (int64_t rows : {1, 2, 3, 5, 7, 12}) {
        std::vector<int32_t> tokens, targets;
        for (int64_t row = 0; row < 12; row += rows) {
          Batch part = TrainBatch(dataset, step, row, rows);
          tokens.insert(tokens.end(), part.tokens.begin(), part.tokens.end());
          targets.insert(targets.end(), part.targets.begin(), part.targets.end());
        }
        tokens.resize(whole.tokens.size());  // the last part may reach past the batch
        targets.resize(whole.targets.size());
        EXPECT_EQ(tokens, whole.tokens) << key << " in parts of " << rows;
        EXPECT_EQ(targets, whole.targets) << key << " in parts of " << rows;
      }
    }
  }
}

TEST(Data, RowsBehindTheGlobalBatchAreIgnored) {
  TempFolder folder;
  Dataset dataset = MakeDataset(folder.Write("a.txt", Letters(100)));
  Batch batch = TrainBatch(dataset, 0, 11, 2);
  EXPECT_EQ(batch.count, 8);
  EXPECT_EQ(batch.targets[7 + 1], kIgnoredTarget);
  EXPECT_EQ(batch.targets.size(), 16u);
}

TEST(Data, SequencesAreThoseOfTheTextAndDependOnSeedStepAndRow) {
  TempFolder folder;
  std::string text = Letters(1000), file = folder.Write("a.txt", text);
  Dataset dataset = MakeDataset(file);
  Batch batch = TrainBatch(dataset, 3, 0, 12);
  for (int64_t row = 0; row < 12; row++) {
    std::string tokens, targets;
    for (int64_t i = 0; i < 8; i++) {
      tokens += char(batch.tokens[size_t(row * 8 + i)]);
      targets += char(batch.targets[size_t(row * 8 + i)]);
    }
    EXPECT_EQ(tokens.substr(1), targets.substr(0, 7));
    EXPECT_NE(text.find(tokens + targets[7]), text.npos);
  }
  EXPECT_NE(batch.tokens, TrainBatch(dataset, 4, 0, 12).tokens);
  EXPECT_NE(batch.tokens, TrainBatch(MakeDataset(file, {"train.seed=2"}), 3, 0, 12).tokens);
  EXPECT_EQ(batch.tokens, TrainBatch(MakeDataset(file, {"mesh.dp=4"}), 3, 0, 12).tokens);
}

// Every offset with a full set of targets can be drawn, the last one too, and none after it.
TEST(Data, ShuffleReachesEveryOffset) {
  TempFolder folder;
  std::string text = "abcdefghijkl";  // offsets 0..3 for a context of 8
  Dataset dataset = MakeDataset(folder.Write("a.txt", text));
  std::vector<int> seen(4);
  for (int64_t step = 0; step < 100; step++) seen[size_t(TrainBatch(dataset, step, 0, 1).tokens[0] - 'a')]++;
  for (int count : seen) EXPECT_GT(count, 5);
}

TEST(Data, UnshuffledWindowsFollowEachOtherAndWrap) {
  TempFolder folder;
  Dataset dataset = MakeDataset(folder.Write("a.txt", Letters(8 * 5 + 1)), {"data.shuffle=false"});
  Batch first = TrainBatch(dataset, 0, 0, 12);
  for (size_t i = 0; i < first.tokens.size(); i++) EXPECT_EQ(first.tokens[i], dataset.train()[int64_t(i) % 40]);
  EXPECT_EQ(TrainBatch(dataset, 1, 0, 1).tokens[0], dataset.train()[12 % 5 * 8]);
}

// For many lengths, contexts and batch sizes: the targets, in order, are the text without its first token.
TEST(Data, EvaluationCountsEveryTokenButTheFirstOnce) {
  TempFolder folder;
  std::string train = folder.Write("train.txt", Letters(100));
  for (int length = 2; length < 40; length++) {
    std::string text = Letters(size_t(length)), val = folder.Write("val.txt", text);
    for (int context : {1, 2, 3, 7, 8, 16, 50}) {
      Dataset dataset = MakeDataset(train, {"data.val=" + val, fmt::format("model.context={}", context)});
      for (int64_t rows : {1, 3, 4}) {
        std::string targets;
        int64_t count = 0;
        for (int64_t w = 0; w < dataset.eval_windows(); w += rows) {
          Batch batch = EvalBatch(dataset, w, rows, context);
          ASSERT_EQ(batch.tokens.size(), size_t(rows * context));
          count += batch.count;
          for (size_t i = 0; i < batch.targets.size(); i++) {
            if (batch.targets[i] == kIgnoredTarget) continue;
            ASSERT_EQ(batch.tokens[i], text[targets.size()]);
            targets += char(batch.targets[i]);
          }
        }
        ASSERT_EQ(targets, text.substr(1)) << "length " << length << ", context " << context << ", rows " << rows;
        ASSERT_EQ(count, length - 1);
        ASSERT_EQ(dataset.EvalBytes(dataset.eval_windows()), length - 1);
      }
    }
  }
}

// An evaluation of some windows: those from `end` on are ignored, and their text does not count.
TEST(Data, EvaluationStopsAtTheWindowItIsGiven) {
  TempFolder folder;
  Dataset dataset =
      MakeDataset(folder.Write("train.txt", Letters(100)), {"data.val=" + folder.Write("v", Letters(50))});
  ASSERT_EQ(dataset.eval_windows(), 7);
  for (int64_t end = 0; end <= 9; end++) {
    Batch batch(9, 8);
    int64_t count = dataset.FillEval(0, end, batch.Span());
    EXPECT_EQ(count, std::min<int64_t>(end * 8, 49));
    EXPECT_EQ(dataset.EvalBytes(end), count);
    EXPECT_EQ(std::count(batch.targets.begin(), batch.targets.end(), kIgnoredTarget), 72 - count);
  }
}

TEST(Data, AValFractionIsTheTailOfTheText) {
  TempFolder folder;
  std::string text = Letters(1000), file = folder.Write("a.txt", text);
  Dataset dataset = MakeDataset(file, {"data.val=0.1"});
  EXPECT_EQ(dataset.train().size(), 900);
  EXPECT_EQ(dataset.val().size(), 100);
  EXPECT_EQ(dataset.val()[0], text[900]);
  EXPECT_EQ(MakeDataset(file, {"data.val=0"}).eval_windows(), 0);
  EXPECT_EQ(MakeDataset(file).eval_windows(), 0);
  EXPECT_EQ(TailBegin("aé€😀", 0.5), 3u);  // two of four characters
}

TEST(Tokenizer, BytesAndCharsGiveTheTextBack) {
  std::string text = "Né à Köln, 東京 😀\n";
  Tokenizer bytes = Tokenizer::Bytes(), chars = Tokenizer::Chars({text});
  EXPECT_EQ(bytes.vocab(), 256);
  EXPECT_EQ(chars.vocab(), 13);
  EXPECT_EQ(bytes.Decode(*bytes.Encode(text)), text);
  EXPECT_EQ(chars.Decode(*chars.Encode(text)), text);
  EXPECT_EQ(chars.Encode(text)->size(), CountCodePoints(text));
  int64_t total = 0;
  std::vector<int32_t> tokens = *chars.Encode(text);
  bool line_begins = true;
  for (int32_t token : tokens) total += int64_t(chars.TextOf(token, line_begins).size());
  EXPECT_EQ(total, int64_t(text.size()));
  EXPECT_EQ((*chars.Encode("\n"))[0], 0);  // sorted by code point
  EXPECT_NE(std::string(chars.Encode("xyz").status().message()).find("\"x\" at offset 0"), std::string::npos);
  EXPECT_FALSE(chars.Encode("\xff").ok());
  EXPECT_EQ(chars.Decode(std::vector<int32_t>{99, -1}), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Tokenizer, CharsCoverTrainingAndValidationText) {
  TempFolder folder;
  std::string train = folder.Write("t.txt", "abcabcabcabc"), val = folder.Write("v.txt", "xyzé");
  Dataset dataset = MakeDataset(train, {"data.tokenizer=chars", "data.val=" + val});
  EXPECT_EQ(dataset.vocab(), 7);
  Batch batch = EvalBatch(dataset, 0, 1, 8);
  EXPECT_EQ(batch.count, 3);
  EXPECT_EQ(dataset.EvalBytes(1), 4);  // y z and the two bytes of é
}

TEST(Utf8, RefusesWhatTheStandardRefuses) {
  struct {
    std::string text;
    size_t bad;
  } cases[] = {{"plain", std::string::npos},
               {"é€😀", std::string::npos},
               {"\xED\x9F\xBF\xEE\x80\x80", std::string::npos},
               {"\xF4\x8F\xBF\xBF", std::string::npos},
               {"ab\x80", 2},
               {"a\xC3", 1},
               {"\xC0\x80", 0},
               {"\xC1\xBF", 0},
               {"\xE0\x9F\xBF", 0},
               {"\xED\xA0\x80", 0},
               {"\xF0\x8F\xBF\xBF", 0},
               {"\xF4\x90\x80\x80", 0},
               {"\xF5\x80\x80\x80", 0},
               {"é\xE2\x82", 2},
               {"\xE2\x28\xA1", 0},
               {"\xFF", 0}};
  for (const auto& [text, bad] : cases) EXPECT_EQ(InvalidUtf8(text), bad) << fmt::format("{:?}", text);
}

absl::StatusOr<std::string> ReadAll(const PathList& inputs) {
  absl::StatusOr<DataFiles> files = FindDataFiles(inputs);
  if (!files.ok()) return files.status();
  absl::StatusOr<Documents> documents = ReadDocuments(files->paths, "text");
  if (!documents.ok()) return documents.status();
  return documents->text;
}

TEST(DataFiles, FoldersAreSearchedSortedWithoutHiddenBuildAndBinary) {
  TempFolder folder;
  folder.Write("b.txt", "b");
  folder.Write("a/z.txt", "z");
  folder.Write("a/build/x.txt", "no");
  folder.Write(".hidden/x.txt", "no");
  folder.Write(".dot", "no");
  folder.Write("empty.txt", "");
  folder.Write("c.bin", std::string("a\0b", 3));
  EXPECT_EQ(FindDataFiles({folder.Path()})->paths,
            (std::vector<std::string>{folder.Path("a/z.txt"), folder.Path("b.txt")}));
  EXPECT_EQ(*ReadAll({folder.Path()}), "zb");
  EXPECT_EQ(*ReadAll({folder.Path("b.txt"), folder.Path("a")}), "bz");
  EXPECT_FALSE(ReadAll({folder.Path("*.txt")}).ok());  // empty.txt is named by the pattern
}

TEST(DataFiles, LinksToNowhereAreNoText) {
  TempFolder folder;
  folder.Write("a.txt", "a");
  fs::create_symlink("absent", folder.Path("dangling.txt"));
  fs::create_symlink("loop.txt", folder.Path("loop.txt"));
  fs::create_symlink("there", folder.Path("back"));
  fs::create_symlink("back", folder.Path("there"));
  fs::create_symlink(".", folder.Path("self"));
  fs::create_symlink("a.txt", folder.Path("linked.txt"));
  EXPECT_EQ(FindDataFiles({folder.Path()})->paths,
            (std::vector<std::string>{folder.Path("a.txt"), folder.Path("linked.txt")}));
  auto says = [&](const std::string& input, const std::string& text) {
    std::string message(ReadAll({folder.Path(input)}).status().message());
    EXPECT_NE(message.find(text), message.npos) << message;
  };
  says("dangling.txt", "dangling.txt: this link leads nowhere");
  says("loop.txt", "loop.txt: cannot be reached (Too many levels of symbolic links)");
  says("dangling*", "dangling.txt: this link leads nowhere");
}

// Root can read everything, so it becomes nobody for as long as this lives.
class Nobody {
 public:
  Nobody() {
    if (::geteuid() == 0) became_ = ::seteuid(65534) == 0;
  }
  ~Nobody() {
    if (became_ && ::seteuid(0) != 0) std::abort();
  }

 private:
  bool became_ = false;
};

TEST(DataFiles, WhatCannotBeReadIsNamed) {
  TempFolder folder;
  folder.Write("a/a.txt", "a");
  std::string secret = folder.Write("a/secret/b.txt", "b"), file = folder.Write("c/c.txt", "c");
  auto says = [&](const std::string& input, const std::string& text) {
    Nobody nobody;
    std::string message(ReadAll({folder.Path(input)}).status().message());
    EXPECT_NE(message.find(text), message.npos) << message;
  };
  fs::permissions(folder.Path("a/secret"), fs::perms::none);
  fs::permissions(file, fs::perms::none);
  says("a", "a/secret: cannot be searched (Permission denied)");
  says("a/secret", "a/secret: cannot be searched (Permission denied)");
  says("a/secret/b.txt", "a/secret/b.txt: cannot be reached (Permission denied)");
  says("c", "c/c.txt: cannot be opened (Permission denied)");
  fs::permissions(folder.Path("a/secret"), fs::perms::owner_all);
}

TEST(DataFiles, GlobsAndListsKeepTheirOrder) {
  TempFolder folder;
  for (const char* name : {"1.txt", "10.txt", "2.txt"}) folder.Write(name, name);
  EXPECT_EQ(*ReadAll({folder.Path("*.txt")}), "1.txt10.txt2.txt");
  EXPECT_EQ(*ReadAll({folder.Path("2.txt"), folder.Path("1*")}), "2.txt1.txt10.txt");
}

TEST(DataFiles, ErrorsNameKeyFileAndOffset) {
  TempFolder folder;
  folder.Write("e/empty.txt", "");
  struct {
    std::string train;
    std::vector<std::string> overrides;
    std::string text;
  } cases[] = {
      {"no.txt", {}, "a.yaml:3:8: data.train: no.txt: no such file or folder"},
      {"no/*.txt", {}, "data.train: no/*.txt: no file matches"},
      {folder.Path("e/empty.txt"), {}, "empty.txt: the file is empty"},
      {folder.Path("e"), {}, "no text file and no token shard in this folder"},
      {folder.Write("latin", "caf\xE9 au lait"), {}, "latin: expected UTF-8 text, got the byte 0xe9 at offset 3"},
      {folder.Write("nul", std::string("ab\0c", 4)), {}, "nul: expected UTF-8 text, got the byte 0x00 at offset 2"},
      {folder.Write("raw.bin", std::string(9, '\x80')), {}, "or a token shard, which begins with 20240520 or 20240801"},
      {folder.Write("short", "12345678"), {}, "data.train: expected at least context + 1 = 9 tokens, got 8"},
      {folder.Write("ok", "1234567890"), {"data.val=no.txt"}, "command line: data.val: no.txt: no such file"},
      {folder.Path("ok"), {"data.val=0.01"}, "data.val: expected at least 2 tokens, got 1"},
  };
  for (const auto& bad : cases) {
    std::string error = LoadError(bad.train, bad.overrides);
    EXPECT_NE(error.find(bad.text), error.npos) << "expected " << bad.text << "\ngot      " << error;
  }
}

// What every text begins with stands once before the training text and once before the validation text, and is no text:
// bits per byte are of the bytes that the targets stand for.
TEST(Data, TextsBeginAsTheirTokenizerHasIt) {
  TempFolder folder;
  std::string end = "<|end|>",
              json = TokenizerJson({.merges = {{"a", "b"}},
                                    .added = AddedJson(257, "<|begin|>", "s") + "," + AddedJson(258, end, "s"),
                                    .post_processor = TemplateJson("<|begin|>", 257)});
  std::string tokenizer = "data.tokenizer=huggingface:" + folder.Write("t/tokenizer.json", json);
  std::string train = folder.Write("train", Letters(40)), val = folder.Write("val", "abab" + end + "ab c");
  Dataset data = MakeDataset(train, {tokenizer, "data.val=" + val});
  EXPECT_EQ(data.train()[0], 257);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < data.val().size(); i++) tokens.push_back(data.val()[i]);
  EXPECT_EQ(tokens, (std::vector<int32_t>{257, 256, 256, 258, 256, ' ', 'c'}));
  EXPECT_EQ(*data.EvalBytes(data.eval_windows()), int64_t(4 + end.size() + 4)) << "all of the text";
  EXPECT_EQ(data.tokenizer_vocab(), 259);
}

// ---- train.objective: masked. ----

// What most of a batch's targets have become.
int32_t MaskOf(const Batch& batch) {
  std::map<int32_t, int> seen;
  for (size_t i = 0; i < batch.tokens.size(); i++)
    if (batch.targets[i] != kIgnoredTarget) seen[batch.tokens[i]]++;
  auto rarer = [](const auto& a, const auto& b) { return a.second < b.second; };
  return seen.empty() ? -1 : std::max_element(seen.begin(), seen.end(), rarer)->first;
}
int32_t EvalMaskOf(const Dataset& dataset) { return MaskOf(EvalBatch(dataset, 0, dataset.eval_windows(), 8)); }

// A model's vocabulary has the mask, so that it has a row of the embedding's table.
TEST(Masked, TheMaskIsTheTokenizersOwnElseOneIdBeyondItsLast) {
  TempFolder folder;
  std::string text = folder.Write("a.txt", Letters(4000)), other = AddedJson(256, "<|end|>", "s");
  auto json = [&](const std::string& name, const std::string& added) {
    return "huggingface:" + folder.Write(name + "/tokenizer.json", TokenizerJson({.added = added}));
  };
  struct {
    std::string tokenizer;
    int32_t mask;
    int64_t kinds;
  } cases[] = {{"bytes", 256, 257},
               {"chars", 23, 24},  // Letters has 23 letters
               {json("none", other), 257, 258},
               {json("bert", AddedJson(256, "[MASK]", "s") + "," + AddedJson(257, "<|end|>", "s")), 256, 258},
               {json("roberta", other + "," + AddedJson(257, "<mask>", "ls")), 257, 258}};
  for (const auto& c : cases) {
    std::vector<std::string> words = {"model.family=bert", "data.val=0.5", "data.tokenizer=" + c.tokenizer};
    Dataset dataset = MakeDataset(text, words);
    EXPECT_EQ(EvalMaskOf(dataset), c.mask) << c.tokenizer;
    EXPECT_EQ(MaskOf(TrainBatch(dataset, 3, 0, 12)), c.mask) << c.tokenizer;
    EXPECT_EQ(dataset.tokenizer_vocab(), c.kinds) << c.tokenizer;
    EXPECT_EQ(dataset.vocab(), c.kinds) << c.tokenizer;
    EXPECT_EQ(KindsOf(MakeConfig(text, words), *dataset.tokenizer()), c.kinds) << c.tokenizer;
  }
}

// Whether a model's mask is a control piece, which has no text, or one that the user defined.
TEST(Masked, TheMaskOfASentencePieceModelIsItsPiece) {
  if (!HasSentencePiece()) GTEST_SKIP() << "built without sentencepiece";
  TempFolder folder;
  std::string text = folder.Write("a.txt", Letters(4000)), learned = *Learn(Letters(4000), 300);
  auto kinds = int32_t(Tokenizer::Open("sentencepiece:" + folder.Write("plain.model", learned))->vocab());
  constexpr char kControl = 3, kUserDefined = 4;
  for (char type : {kControl, kUserDefined})
    for (const std::string spelling : {"[MASK]", "<mask>", "<pad>"}) {
      // A repeated field of a protobuf that comes again adds to it: pieces { piece: spelling, type: type }.
      std::string piece = std::string("\x0A") + char(spelling.size()) + spelling + "\x18" + type;
      std::string model = folder.Write("more.model", learned + "\x0A" + char(piece.size()) + piece);
      Dataset dataset =
          MakeDataset(text, {"model.family=bert", "data.val=0.5", "data.tokenizer=sentencepiece:" + model});
      bool own = spelling != "<pad>";
      EXPECT_EQ(EvalMaskOf(dataset), own ? kinds : kinds + 1) << spelling;
      EXPECT_EQ(dataset.tokenizer_vocab(), own ? kinds + 1 : kinds + 2) << spelling;
    }
}

TEST(Masked, TheMaskOfTokensWithoutATokenizerIsTheLastOfTheVocabulary) {
  TempFolder folder;
  std::string shards = WriteShards(folder, "shards", Letters(4000));
  std::vector<std::string> bert = {"model.family=bert", "data.val=0.5", "model.vocab=300"};
  Dataset dataset = MakeDataset(shards, bert);
  EXPECT_EQ(EvalMaskOf(dataset), 299);
  EXPECT_EQ(dataset.tokenizer_vocab(), 300);
  bert.back() = "model.vocab=124";  // one more than the kinds up to z
  EXPECT_EQ(EvalMaskOf(MakeDataset(shards, bert)), 123);
  bert.back() = "model.vocab=123";
  EXPECT_EQ(LoadError(shards, bert),
            "command line: model.vocab: expected a number above the largest token of the shards, 122, for what is "
            "masked, got 123; raise it by one");
  bert.back() = "model.vocab=256";  // so they are bytes
  EXPECT_EQ(MakeDataset(shards, bert).tokenizer_vocab(), 257);
  Dataset synthetic = MakeDataset(shards, {"model.family=bert", "model.vocab=300", "data.synthetic=true"});
  EXPECT_EQ(MaskOf(TrainBatch(synthetic, 0, 0, 12)), 299);
}

// The last two kinds of model.vocab are the end and the padding of texts, so configs/marian-tiny.yaml fits.
TEST(Pairs, SyntheticOnesFitTheVocabulary) {
  TempFolder folder;
  std::string text = folder.Write("train.txt", Letters(100));
  for (int vocab : {258, 300}) {
    std::vector<std::string> words{"model.family=marian", fmt::format("model.vocab={}", vocab), "data.synthetic=true"};
    EXPECT_EQ(MakeDataset(text, words).tokenizer_vocab(), vocab);
  }
}

// Every target is the token that stood there, and all other tokens are the text's, however the windows are split.
TEST(Masked, EvaluationMasksTheSameTokensInEverySplit) {
  TempFolder folder;
  std::string train = folder.Write("train.txt", Letters(100)), text = Letters(1004), val = folder.Write("v", text);
  std::vector<std::string> words = {"model.family=bert", "data.val=" + val};
  Dataset dataset = MakeDataset(train, words);
  const int64_t windows = dataset.eval_windows();
  Batch whole = EvalBatch(dataset, 0, windows, 8);
  EXPECT_EQ(whole.count, std::ranges::count_if(whole.targets, [](int32_t t) { return t != kIgnoredTarget; }));
  EXPECT_NEAR(double(whole.count), 0.15 * 1003, 50);
  for (size_t i = 0; i < whole.tokens.size(); i++) {
    bool target = whole.targets[i] != kIgnoredTarget;
    if (i + 1 >= text.size())
      EXPECT_FALSE(target) << "past the text";
    else
      EXPECT_EQ(target ? whole.targets[i] : whole.tokens[i], text[i]);
  }
  for (int64_t rows : {1, 3, 7}) {
    Batch parts(0, 8);
    for (int64_t w = 0; w < windows; w += rows) {
      Batch part = EvalBatch(dataset, w, std::min(rows, windows - w), 8);
      parts.tokens.insert(parts.tokens.end(), part.tokens.begin(), part.tokens.end());
      parts.targets.insert(parts.targets.end(), part.targets.begin(), part.targets.end());
    }
    EXPECT_EQ(parts.tokens, whole.tokens) << rows;
    EXPECT_EQ(parts.targets, whole.targets) << rows;
  }
  words.emplace_back("train.seed=2");
  EXPECT_NE(EvalBatch(MakeDataset(train, words), 0, windows, 8).targets, whole.targets);
  EXPECT_EQ(dataset.EvalBytes(windows), std::nullopt) << "targets are not all of the text";
}

// Windows from the end on have no targets, and a batch has only those of its rows.
TEST(Masked, EvaluationStopsAtTheWindowItIsGiven) {
  TempFolder folder;
  std::string val = folder.Write("v", Letters(1004));
  Dataset dataset = MakeDataset(folder.Write("train.txt", Letters(100)), {"model.family=bert", "data.val=" + val});
  Batch whole = EvalBatch(dataset, 0, dataset.eval_windows(), 8);
  for (int64_t end : {0, 1, 50, 125}) {
    Batch batch(126, 8);
    int64_t count = dataset.FillEval(0, end, batch.Span());
    auto from = batch.targets.begin() + long(end * 8);
    EXPECT_TRUE(std::equal(batch.targets.begin(), from, whole.targets.begin()));
    EXPECT_TRUE(std::all_of(from, batch.targets.end(), [](int32_t t) { return t == kIgnoredTarget; }));
    EXPECT_EQ(count, end * 8 - std::count(batch.targets.begin(), from, kIgnoredTarget));
  }
}

// The field's small corpus splits as everyone's does. Runs where the file is at hand.
TEST(Data, TinyShakespeareHas65Characters) {
  const char* path = std::getenv("WEFT_SHAKESPEARE");
  if (!path || !fs::exists(path)) GTEST_SKIP() << "set WEFT_SHAKESPEARE to the text's path";
  Dataset dataset = MakeDataset(path, {"data.tokenizer=chars", "data.val=0.1"});
  EXPECT_EQ(dataset.vocab(), 65);
  EXPECT_EQ(dataset.train().size(), 1003854);
  EXPECT_EQ(dataset.val().size(), 111540);
}

}  // namespace
}  // namespace weft
