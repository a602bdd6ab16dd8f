// weft prepare writes the tokens that training would take from the text itself, whatever the blocks and shards. Its
// files are complete or not there at all.
#include "weft/train/data/prepare.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tokens/data_testing.h"
#include "tokens/sentencepiece_testing.h"
#include "tokens/text_testing.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using namespace testing_;
using Words = std::vector<std::string>;
using Tokens = std::vector<int32_t>;

Tokens All(const TokenStream& stream) {
  Tokens tokens(size_t(stream.size()));
  stream.Read(0, tokens);
  return tokens;
}

PrepareReport MustPrepare(const PrepareOptions& options) {
  absl::StatusOr<PrepareReport> report = Prepare(options);
  EXPECT_TRUE(report.ok()) << std::string(report.status().message());
  return *report;
}

Dataset LoadPrepared(const PrepareReport& report) {
  absl::StatusOr<Config> config = LoadConfig(report.config, {"model.context=8"});
  EXPECT_TRUE(config.ok()) << std::string(config.status().message());
  absl::StatusOr<Dataset> data = Dataset::Load(*config);
  EXPECT_TRUE(data.ok()) << std::string(data.status().message());
  EXPECT_EQ(config->model.vocab, data->vocab());
  return *std::move(data);
}

Words Tokenizers() {
  Words names = {"bytes", "chars"};
  if (HasSentencePiece()) names.emplace_back("sentencepiece");
  return names;
}

// With any blocks and shards, the tokens are those that a run on the text itself would train and evaluate on.
TEST(Prepare, GivesTheTokensOfTheText) {
  TempFolder folder;
  std::string text = Prose(1, 4000) + RandomText(2, 700);
  Words files = {folder.Write("t/a.txt", text.substr(0, 5000)), folder.Write("t/b.txt", text.substr(5000))};
  int made = 0;
  for (const std::string& tokenizer : Tokenizers())
    for (double fraction : {0.0, 0.1, 0.37})
      for (auto [block, shard] : {std::pair(size_t{7}, int64_t{1000}), std::pair(size_t{1} << 18, int64_t{1} << 20)}) {
        PrepareReport report = MustPrepare({.out = folder.Path(fmt::format("out{}", made++)),
                                            .inputs = {folder.Path("t")},
                                            .tokenizer = tokenizer,
                                            .vocab = 370,
                                            .val = {.paths = {}, .fraction = fraction},
                                            .shard = shard,
                                            .block = block});
        Dataset prepared = LoadPrepared(report);
        Dataset direct =
            MakeDataset("x", {"data.train=[" + files[0] + ", " + files[1] + "]", fmt::format("data.val={}", fraction),
                              "data.tokenizer=" + (tokenizer == "chars" ? tokenizer : report.tokenizer)});
        ASSERT_EQ(All(prepared.train()), All(direct.train())) << tokenizer << " " << fraction << " " << block;
        ASSERT_EQ(All(prepared.val()), All(direct.val()));
        EXPECT_EQ(prepared.vocab(), direct.vocab());
        EXPECT_EQ(report.train_tokens, prepared.train().size());
        EXPECT_EQ(report.val_tokens, prepared.val().size());
        EXPECT_EQ(report.bytes, int64_t(text.size()));
        EXPECT_EQ(int64_t(report.train.size()), (report.train_tokens + shard - 1) / shard);
        EXPECT_EQ(prepared.EvalBytes(prepared.eval_windows()), direct.EvalBytes(direct.eval_windows()));
        ASSERT_NE(prepared.tokenizer(), nullptr);
        EXPECT_EQ(
            prepared.tokenizer()->Decode(All(prepared.train())) + prepared.tokenizer()->Decode(All(prepared.val())),
            text);
      }
}

TEST(Prepare, TakesValidationFilesAndTokenizersThatAreThere) {
  TempFolder folder;
  std::string text = Prose(1, 3000), val = Prose(2, 300);
  std::string text_file = folder.Write("t.txt", text), val_file = folder.Write("v.txt", val);
  for (const std::string& tokenizer : Tokenizers()) {
    PrepareReport first = MustPrepare({.out = folder.Path(tokenizer + "1"),
                                       .inputs = {text_file},
                                       .tokenizer = tokenizer,
                                       .vocab = 300,
                                       .val = {.paths = {val_file}}});
    Dataset data = LoadPrepared(first);
    PrepareReport again = MustPrepare({.out = folder.Path(tokenizer + "2"),
                                       .inputs = {val_file},
                                       .tokenizer = first.tokenizer,
                                       .val = {.paths = {}, .fraction = 0}});
    EXPECT_EQ(All(LoadPrepared(again).train()), All(data.val()));
    EXPECT_TRUE(again.val.empty());
    EXPECT_NE(again.tokenizer, tokenizer == "bytes" ? "" : first.tokenizer) << "a folder holds its own tokenizer";
  }
}

// A loss on training data says little about other data. So a validation file among the training files is named, however
// its path is written.
TEST(Prepare, NamesValidationFilesThatAreTrainedOn) {
  TempFolder folder;
  std::string a = folder.Write("t/a.txt", Prose(1, 300)), b = folder.Write("t/b.txt", Prose(2, 300)),
              other = folder.Write("c.txt", Prose(3, 300));
  fs::create_symlink(b, folder.Path("link"));
  auto note = [&](const PathList& val) {
    static int outs = 0;
    return MustPrepare(
               {.out = folder.Path(fmt::format("out{}", outs++)), .inputs = {folder.Path("t")}, .val = {val, 0}})
        .note;
  };
  const std::string rest = " among the training data too: the loss of validation is then one of what was trained on";
  EXPECT_EQ(note({other}), "");
  EXPECT_EQ(note({other, folder.Path("t/../t/a.txt")}), folder.Path("t/../t/a.txt") + " is" + rest);
  EXPECT_EQ(note({folder.Path("link"), a}), folder.Path("link") + " and 1 more are" + rest);
  PrepareReport report = MustPrepare({.out = folder.Path("tail"), .inputs = {folder.Path("t")}});
  EXPECT_EQ(report.note, "");
  EXPECT_TRUE(LoadPrepared(report).notes().empty());
}

Words NamesIn(const std::string& path) {
  Words names;
  if (fs::exists(path))
    for (const auto& entry : fs::directory_iterator(path)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// Whichever step fails, either all files are there or none, and no folder that was not there before.
TEST(Prepare, LeavesNothingWhereItFails) {
  TempFolder folder;
  std::string text = folder.Write("t.txt", Prose(1, 300));
  const Words whole = {"config.yaml", "tokenizer.chars", "train_000001.bin", "train_000002.bin", "val.bin"};
  for (const char* point : {"create", "write", "fsync", "rename", "mkdir", "fsync_dir", "remove"}) {
    int failed = 0;
    for (int call = 1;; call++) {
      std::string out = folder.Path(fmt::format("{}{}", point, call));
      bool there = call % 2 == 0;
      if (there) fs::create_directories(out);
      setenv("WEFT_FAULT", fmt::format("{}:enospc:{}", point, call).c_str(), 1);
      absl::StatusOr<PrepareReport> report =
          Prepare({.out = out, .inputs = {text}, .tokenizer = "chars", .shard = 1000, .block = 500});
      unsetenv("WEFT_FAULT");
      if (report.ok()) {
        EXPECT_EQ(NamesIn(out), whole);
        break;
      }
      failed++;
      EXPECT_NE(std::string(report.status().message()).find("No space left on device"), std::string::npos);
      EXPECT_EQ(fs::exists(out), there) << point << " " << call;
      EXPECT_EQ(NamesIn(out), Words()) << point << " " << call;
      ASSERT_LT(call, 100);
    }
    EXPECT_GE(failed, 1) << point;
  }
}

TEST(Prepare, ErrorsSayWhatWasExpectedAndWhatToDo) {
  TempFolder folder;
  std::string text = folder.Write("t.txt", Prose(1, 300)), latin = folder.Write("latin.txt", "caf\xE9 au lait"),
              nul = folder.Write("nul.txt", std::string("text\0text", 9)), empty = folder.Write("e/empty.txt", ""),
              one = folder.Write("one.txt", "x"), odd = folder.Write("odd.txt", "bad \xC3\xA9"),
              table = folder.Write("t.chars", "abd"), shards = WriteShards(folder, "s", Letters(100));
  folder.Write("full/a", "a");
  struct {
    PrepareOptions options;
    std::string text;
  } cases[] = {
      {{.inputs = {folder.Path("no.txt")}}, "no.txt: no such file or folder"},
      {{.inputs = {folder.Path("no/*.txt")}}, "no file matches this pattern"},
      {{.inputs = {empty}}, "empty.txt: the file is empty; give a text"},
      {{.inputs = {folder.Path("e")}}, "no text file and no token shard in this folder"},
      {{.inputs = {shards}}, "000.bin: expected text, got a token shard; it is prepared already"},
      {{.inputs = {latin}}, "latin.txt: expected UTF-8 text, got the byte 0xe9 at offset 3"},
      {{.inputs = {nul}}, "nul.txt: expected UTF-8 text, got the byte 0x00 at offset 4"},
      {{.inputs = {latin}, .tokenizer = "chars"}, "latin.txt: expected UTF-8 text, got the byte 0xe9 at offset 3"},
      {{.inputs = {latin}, .tokenizer = "sentencepiece"}, "latin.txt: expected UTF-8 text, got the byte 0xe9"},
      {{.inputs = {text}, .tokenizer = "chars", .val = {.paths = {latin}}}, "val: " + latin + ": expected UTF-8 text"},
      {{.inputs = {text}, .val = {.paths = {folder.Path("no")}}}, "val: " + folder.Path("no") + ": no such file"},
      {{.inputs = {one}}, "text: expected at least 2 tokens, got 0; give more of it, or a smaller val"},
      {{.inputs = {one}, .val = {}}, "text: expected at least 2 tokens, got 1"},
      {{.inputs = {text}, .val = {.paths = {one}}}, "val: expected at least 2 tokens, got 1; give more text, or val=0"},
      {{.inputs = {odd}, .tokenizer = "chars:" + table},
       "tokenizer: the character \" \" at offset 3 is not among the 3 that the tokenizer has"},
      {{.inputs = {text}, .tokenizer = "chars:" + text},
       "tokenizer: " + text + ": expected the characters of a tokenizer"},
      {{.inputs = {text}, .tokenizer = "chars:" + folder.Path("no")},
       "tokenizer: " + folder.Path("no") + ": cannot be"},
      {{.out = folder.Path("full"), .inputs = {text}},
       "full: expected a new or an empty folder, got one that holds a; give another one or remove it"},
      {{.out = text, .inputs = {text}}, "t.txt: expected a new or an empty folder to write to, got a file"},
  };
  for (auto& bad : cases) {
    if (bad.options.out.empty()) bad.options.out = folder.Path("out");
    absl::Status status = Prepare(bad.options).status();
    std::string error(status.message());
    EXPECT_NE(error.find(bad.text), error.npos) << "expected " << bad.text << "\ngot      " << error;
    EXPECT_EQ(error.find('\n'), error.npos);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << error;
    EXPECT_FALSE(fs::exists(folder.Path("out"))) << error;
  }
}

TEST(Prepare, RefusesAVocabThatTheTextCannotGive) {
  if (!HasSentencePiece()) GTEST_SKIP() << "built without sentencepiece";
  TempFolder folder;
  std::string error(Prepare({.out = folder.Path("out"),
                             .inputs = {folder.Write("t.txt", Prose(1, 300))},
                             .tokenizer = "sentencepiece",
                             .vocab = 8000})
                        .status()
                        .message());
  EXPECT_NE(error.find("tokenizer: expected a vocab of at most the "), error.npos) << error;
  EXPECT_NE(error.find("got 8000; lower it or give more text"), error.npos) << error;
}

// The tokenizer's file works with shards: it gives their vocabulary and the text of their tokens.
TEST(Prepare, ShardsTakeTheVocabularyOfTheirTokenizer) {
  TempFolder folder;
  PrepareReport report =
      MustPrepare({.out = folder.Path("out"), .inputs = {folder.Write("t.txt", Prose(1, 300))}, .tokenizer = "chars"});
  Words words = {"data.train=" + report.train[0], "data.tokenizer=" + report.tokenizer};
  Config config = MakeConfig("x", words);
  Dataset data = *Dataset::Load(config);
  EXPECT_EQ(data.vocab(), report.vocab);
  words.push_back("model.vocab=99");
  EXPECT_EQ(MakeDataset("x", words).vocab(), 99);
  words.back() = "model.vocab=3";
  config = MakeConfig("x", words);
  EXPECT_FALSE(ResolveVocab(config, Dataset::Load(config)->vocab()).ok());
}

}  // namespace
}  // namespace weft
