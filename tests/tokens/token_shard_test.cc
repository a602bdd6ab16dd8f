// Token shards give the batches of the text whose bytes they hold, however it is cut into shards. A bad file is an
// error and never a crash.
#include "weft/train/data/source/token_shard.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "heap_counter.h"
#include "tokens/data_testing.h"
#include "weft/core/base/error.h"
#include "weft/core/base/rng.h"
#include "weft/train/data/token_shard_writer.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using namespace testing_;
using Words = std::vector<std::string>;

uint32_t Draw(uint64_t i) { return Philox(5, i, 0)[0]; }

// Writes a shard of `tokens` zeros as a sparse file, which takes almost no disk space.
std::string WriteSparse(const TempFolder& folder, const std::string& name, int64_t tokens) {
  std::string path = folder.Write(name, ShardBytes({}, 2, int32_t(tokens)));
  fs::resize_file(path, uintmax_t(1024 + 2 * tokens));
  return path;
}
void WriteToken(const std::string& path, int64_t position, uint16_t token) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(1024 + 2 * position).write(reinterpret_cast<const char*>(&token), 2);
}

// For shards of random tokens of both widths, any run of any tail equals the same run of all tokens.
TEST(TokenStream, IsItsShardsEndToEnd) {
  TempFolder folder;
  std::vector<int32_t> all;
  Words paths;
  for (int shard = 0; shard < 5; shard++) {
    int width = shard % 2 ? 4 : 2;
    std::vector<uint32_t> tokens(1 + Draw(uint64_t(shard)) % 9);
    for (uint32_t& token : tokens) {
      token = Draw(100 + all.size()) & (width == 2 ? 0xffff : 0x7fffffff);
      all.push_back(int32_t(token));
    }
    paths.push_back(folder.Write(fmt::format("{}.bin", shard), ShardBytes(tokens, width)));
  }
  auto size = int64_t(all.size());
  for (int64_t cut = 0; cut <= size; cut++) {
    TokenStream head = *TokenStream::Map(paths), tail = head.CutTail(cut);
    ASSERT_EQ(head.size(), cut);
    ASSERT_EQ(tail.size(), size - cut);
    for (auto [stream, offset] : {std::pair(&head, int64_t(0)), std::pair(&tail, cut)})
      for (int64_t begin = 0; begin < stream->size(); begin++) {
        EXPECT_EQ((*stream)[begin], all[size_t(offset + begin)]);
        for (int64_t end = begin; end <= stream->size(); end++) {
          std::vector<int32_t> run(all.begin() + offset + begin, all.begin() + offset + end), got(run.size());
          uint32_t largest = stream->Read(begin, got);
          ASSERT_EQ(got, run) << cut << ": " << begin << " to " << end;
          ASSERT_EQ(largest, run.empty() ? 0 : uint32_t(*std::max_element(run.begin(), run.end())));
        }
      }
    EXPECT_EQ(Summarize(tail).hash, Summarize(TokenStream({all.begin() + cut, all.end()})).hash);
  }
}

TEST(TokenStream, KnowsTheFileOfAToken) {
  TempFolder folder;
  std::string a = folder.Write("a.bin", ShardBytes({1, 2, 3}, 2)), b = folder.Write("b.bin", ShardBytes({4, 5}, 4));
  TokenStream stream = *TokenStream::Map({a, b}), tail = stream.CutTail(2);
  EXPECT_EQ(stream.PlaceOf(1).file, a);
  EXPECT_EQ(tail.PlaceOf(0).file, a);
  EXPECT_EQ(tail.PlaceOf(0).position, 2);
  EXPECT_EQ(tail.PlaceOf(2).file, b);
  EXPECT_EQ(tail.PlaceOf(2).position, 1);
}

// Shards with the bytes of a text give its training and validation batches, token by token.
TEST(TokenShards, GiveTheBatchesOfTheTextTheyHold) {
  TempFolder folder;
  std::string text = Letters(1000), val = Letters(77), text_file = folder.Write("a.txt", text),
              val_file = folder.Write("v.txt", val), shards = WriteShards(folder, "a", text),
              val_shards = WriteShards(folder, "v", val);
  for (const Words& words : {Words{}, {"data.shuffle=false"}, {"train.seed=9"}, {"mesh.dp=2"}})
    for (auto [of_text, of_shards] : {std::pair("0.13", "0.13"), std::pair(val_file.c_str(), val_shards.c_str())}) {
      Words text_words = words, shard_words = words;
      text_words.push_back(std::string("data.val=") + of_text);
      shard_words.insert(shard_words.end(), {std::string("data.val=") + of_shards, "model.vocab=257"});
      Dataset a = MakeDataset(text_file, text_words), b = MakeDataset(shards, shard_words);
      EXPECT_EQ(a.train().size(), b.train().size());
      EXPECT_EQ(a.eval_windows(), b.eval_windows());
      for (int64_t step : {0, 1, 50}) {
        Batch mine = TrainBatch(a, step, 1, 13), other = TrainBatch(b, step, 1, 13);
        EXPECT_EQ(mine.tokens, other.tokens);
        EXPECT_EQ(mine.targets, other.targets);
        EXPECT_EQ(mine.count, other.count);
      }
      Batch mine = EvalBatch(a, 0, 20, 8), other = EvalBatch(b, 0, 20, 8);
      EXPECT_EQ(mine.tokens, other.tokens);
      EXPECT_EQ(mine.targets, other.targets);
      EXPECT_EQ(b.EvalBytes(2), std::nullopt);
      EXPECT_EQ(b.tokenizer(), nullptr);
      EXPECT_EQ(b.vocab(), 257);
      shard_words.back() = "model.vocab=256";  // the size of the vocabulary of data.tokenizer=bytes
      EXPECT_EQ(MakeDataset(shards, shard_words).EvalBytes(2), a.EvalBytes(2));
    }
}

TEST(TokenShards, AreFoundByHowTheyBegin) {
  TempFolder folder;
  std::string text = Letters(100), shards = WriteShards(folder, "a", text);
  for (const std::string& input :
       {shards, shards + "/*.bin", "[" + shards + "/000.bin, " + shards + "/001.bin, " + shards + "/002.bin]"}) {
    Dataset dataset = MakeDataset("x", {"data.train=" + input, "model.vocab=256"});
    EXPECT_EQ(dataset.train().size(), 100) << input;
    for (int64_t i = 0; i < 100; i++) ASSERT_EQ(dataset.train()[i], text[size_t(i)]);
  }
  EXPECT_EQ(FindDataFiles({shards})->paths.size(), 3u);
}

// A run on a corpus larger than memory starts at once. Here the shard has 2 GiB, and almost none of it is read.
TEST(TokenShards, StayInTheirFiles) {
  TempFolder folder;
  int64_t size = int64_t(1) << 30;
  std::string path = WriteSparse(folder, "a.bin", size);
  WriteToken(path, size - 1, 255);
  long before = test::HeapAllocations();
  Dataset dataset = MakeDataset(path, {"model.vocab=256", "data.val=0.5"});
  EXPECT_LT(test::HeapAllocations() - before, 10'000);
  EXPECT_EQ(dataset.train().size(), size / 2);
  EXPECT_EQ(dataset.val()[size / 2 - 1], 255);
}

// Ids in memory are compared to the last token, and so are shards that are small enough to read at once. A test below
// covers larger ones.
TEST(TokenStream, SummariesTellStreamsApart) {
  std::vector<int32_t> ids(size_t(1) << 23, 3), changed = ids, longer = ids;
  changed[5001]++;
  longer.push_back(3);
  EXPECT_NE(Summarize(TokenStream(changed)).hash, Summarize(TokenStream(ids)).hash);
  EXPECT_EQ(Summarize(TokenStream(changed)).largest_at, 5001);
  EXPECT_NE(Summarize(TokenStream(longer)).hash, Summarize(TokenStream(ids)).hash);
  TempFolder folder;
  int64_t size = int64_t(1) << 23;
  std::set<uint64_t> hashes;
  for (int64_t at : {int64_t(0), int64_t(4095), int64_t(5001), size - 1, int64_t(-1)}) {
    std::string path = WriteSparse(folder, "a.bin", size);
    if (at >= 0) WriteToken(path, at, 7);
    TokenSummary summary = Summarize(*TokenStream::Map({path}));
    hashes.insert(summary.hash);
    EXPECT_EQ(summary.largest_at, std::max<int64_t>(at, 0));
    EXPECT_EQ(summary.largest, at >= 0 ? 7u : 0u);
  }
  hashes.insert(Summarize(*TokenStream::Map({WriteSparse(folder, "a.bin", size + 1)})).hash);
  EXPECT_EQ(hashes.size(), 6u);
}

TEST(TokenShards, FillingABatchAllocatesNothing) {
  TempFolder folder;
  std::string text = Letters(1000), file = folder.Write("a.txt", text), shards = WriteShards(folder, "a", text);
  for (const std::string& input : {file, shards}) {
    Dataset dataset = MakeDataset(input, {"model.vocab=256", "data.val=0.1"});
    Batch batch(12, 8);
    long before = test::HeapAllocations();
    for (int64_t step = 0; step < 100; step++) {
      dataset.FillTrain(step, 1, batch.Span());
      dataset.FillEval(step / 9, dataset.eval_windows(), batch.Span());
    }
    EXPECT_EQ(test::HeapAllocations(), before) << input;
  }
}

std::string OpenError(const std::string& path) { return std::string(OpenTokenShard(path).status().message()); }

TEST(TokenShards, EveryTruncationIsAnError) {
  TempFolder folder;
  for (int width : {2, 4}) {
    std::string bytes = ShardBytes({1, 2, 3, 4, 5}, width), path = folder.Write("a.bin", bytes);
    EXPECT_TRUE(OpenTokenShard(path).ok());
    for (size_t size = 0; size < bytes.size(); size++) {
      fs::resize_file(path, 0);
      folder.Write("a.bin", bytes.substr(0, size));
      EXPECT_NE(OpenError(path).find(fmt::format("a.bin: expected")), std::string::npos) << size;
    }
    folder.Write("a.bin", bytes + 'x');
    EXPECT_NE(OpenError(path).find("copy or make it again"), std::string::npos);
  }
}

TEST(TokenShards, EveryFlippedBitOfMagicVersionAndCountIsAnError) {
  TempFolder folder;
  for (int width : {2, 4}) {
    std::string bytes = ShardBytes({1, 2, 3, 4, 5}, width);
    for (size_t bit = 0; bit < 96; bit++) {
      std::string flipped = bytes;
      flipped[bit / 8] = char(flipped[bit / 8] ^ (1 << bit % 8));
      EXPECT_NE(OpenError(folder.Write("a.bin", flipped)).find("a.bin: expected"), std::string::npos) << bit;
    }
  }
}

TEST(TokenShards, ErrorsSayWhatWasExpectedAndWhatToDo) {
  TempFolder folder;
  std::string text = folder.Write("t.txt", Letters(100)), shards = WriteShards(folder, "s", Letters(100)),
              shard = shards + "/000.bin";
  std::string old = ShardBytes({1, 2, 3}, 2), vast = ShardBytes(std::vector<uint32_t>(20, 0xfffffffe), 4);
  old[4] = 7;
  WriteToken(folder.Write("large.bin", ShardBytes(std::vector<uint32_t>(20, 5), 2)), 17, 300);
  struct {
    std::string train;
    Words overrides;
    std::string text;
  } cases[] = {
      {shards, {}, "model.vocab: is required with token shards, which do not say it; add it, e.g. 50257"},
      {shards,
       {"model.vocab=256", "data.tokenizer=chars"},
       "command line: data.tokenizer: has no meaning for token shards, got chars; remove it"},
      {shards,
       {"model.vocab=256", "data.val=" + text},
       "data.val: expected token shards, as data.train is, got text; give both"},
      {text, {"data.val=" + shards}, "data.val: expected text, as data.train is, got token shards; give both"},
      {"x", {"data.train=[" + text + ", " + shard + "]"}, "t.txt: expected a token shard, as " + shard + " is one"},
      {folder.Path(), {}, "give text or shards, not both"},
      {shard,
       {"model.vocab=256", "model.context=50"},
       "expected at least context + 1 = 51 tokens, got 34; give more shards"},
      {shards, {"model.vocab=256", "data.val=0.01"}, "data.val: expected at least 2 tokens, got 1; give more shards"},
      {shards, {"model.vocab=100"}, "model.vocab: " + shard + ": expected tokens below model.vocab = 100, got "},
      {folder.Path("large.bin"),
       {"model.vocab=300"},
       "large.bin: expected tokens below model.vocab = 300, got 300 at position 17; raise model.vocab"},
      {folder.Write("vast.bin", vast), {"model.vocab=2147483647"}, "got 4294967294 at position 0"},
      {folder.Write("old.bin", old),
       {"model.vocab=9"},
       "old.bin: expected a token shard of version 1 after the magic 20240520, got version 7; make"},
      {folder.Write("none.bin", ShardBytes({}, 2)), {"model.vocab=9"}, "none.bin: expected at least 1 token, got 0"},
      {folder.Write("less.bin", ShardBytes({1, 2}, 2, 3)),
       {"model.vocab=9"},
       "less.bin: expected 1024 + 3 tokens x 2 = 1030 bytes, as the header says, got 1028"},
      {folder.Write("cut.bin", ShardBytes({1}, 2).substr(0, 500)),
       {"model.vocab=9"},
       "cut.bin: expected a token shard's header of 1024 bytes, got a file of 500"},
  };
  for (const auto& bad : cases) {
    std::string error = LoadError(bad.train, bad.overrides);
    EXPECT_NE(error.find(bad.text), error.npos) << "expected " << bad.text << "\ngot      " << error;
  }
}

// A corpus is so large that loading checks only runs of it. A bad token between those runs is reported by the batch
// that contains it.
TEST(TokenShards, ABatchRefusesATokenThatTheModelHasNot) {
  TempFolder folder;
  int64_t size = int64_t(1) << 27, at = 5001;
  std::string path = WriteSparse(folder, "a.bin", size);
  WriteToken(path, at, 99);
  Dataset dataset = MakeDataset(path, {"model.vocab=99", "data.shuffle=false"});
  Batch batch(1, 8);
  int refused = 0;
  for (int64_t row = 0; row < 12; row++) try {
      EXPECT_EQ(dataset.FillTrain(52, row, batch.Span()), 8);
    } catch (const Error& error) {
      EXPECT_EQ(row, 1);  // the row of tokens 5000 to 5008
      std::string expected =
          path + ": expected tokens below model.vocab = 99, got 99 at position 5001; raise model.vocab";
      EXPECT_EQ(std::string(error.what()).find(expected), 0u) << error.what();
      refused++;
    }
  EXPECT_EQ(refused, 1);
}

// Tokens take two bytes each if the vocabulary fits.
TEST(TokenShardWriter, WidensTokensAt65536Kinds) {
  TempFolder folder;
  for (int64_t vocab : {int64_t{1}, int64_t{65535}, int64_t{65536}, int64_t{65537}, int64_t{1} << 31})
    for (int64_t most : {1, 2, 3, 100}) {
      std::vector<int32_t> tokens = {0, int32_t(vocab - 1), int32_t(vocab / 2), 0, int32_t(vocab - 1)};
      Words paths;
      TokenShardWriter writer(
          [&](int n) {
            paths.push_back(folder.Path(fmt::format("{}_{}_{}.bin", vocab, most, n)));
            return paths.back();
          },
          vocab, most);
      for (size_t i = 0; i < tokens.size(); i += 2)
        ASSERT_TRUE(writer.Write(std::span(tokens).subspan(i, std::min<size_t>(2, tokens.size() - i))).ok());
      ASSERT_TRUE(writer.Finish().ok());
      ASSERT_EQ(int64_t(paths.size()), (5 + most - 1) / most);
      TokenStream stream = *TokenStream::Map(paths);
      std::vector<int32_t> back(size_t(stream.size()));
      stream.Read(0, back);
      EXPECT_EQ(back, tokens);
      EXPECT_EQ(OpenTokenShard(paths[0])->width, vocab <= 65536 ? 2 : 4);
      std::vector<uint32_t> first(tokens.begin(), tokens.begin() + std::min<int64_t>(most, 5));
      std::ifstream file(paths[0], std::ios::binary);
      EXPECT_EQ(std::string((std::istreambuf_iterator<char>(file)), {}), ShardBytes(first, vocab <= 65536 ? 2 : 4));
    }
}

}  // namespace
}  // namespace weft
