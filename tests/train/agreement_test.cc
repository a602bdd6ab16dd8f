// Ranks with other arguments or other text than rank 0 are named, with what differs, on every rank alike.
#include "weft/train/preflight/agreement.h"

#include <gtest/gtest.h>

#include <barrier>
#include <thread>

#include "train/temp_folder.h"
#include "weft/train/config/config_schema.h"

namespace weft {
namespace {

using Words = std::vector<std::string>;

// Returns the message that all of `ranks` threads give for their arguments.
std::string MessageOf(const std::vector<Words>& words) {
  auto ranks = words.size();
  std::barrier barrier{std::ptrdiff_t(ranks)};
  std::vector<std::string> board(ranks), messages(ranks);
  auto body = [&](size_t rank) {
    std::string yaml =
        "model: {family: gpt2, layers: 1, heads: 1, dim: 4, context: 8}\n"
        "train: {steps: 1, global_batch: 12}\n";
    absl::StatusOr<Config> config = ParseConfig(yaml, "a.yaml", words[rank]);
    ASSERT_TRUE(config.ok()) << std::string(config.status().message());
    absl::StatusOr<Dataset> data = Dataset::Load(*config);
    ASSERT_TRUE(data.ok()) << std::string(data.status().message());
    auto gather = [&](std::string_view bytes) {
      board[rank] = bytes;
      barrier.arrive_and_wait();
      std::vector<std::string> all = board;
      barrier.arrive_and_wait();
      return all;
    };
    Ranks all{int(rank), int(ranks), gather, "h" + std::to_string(rank)};
    messages[rank] = std::string(CheckSameRun(*config, *data, all).message());
  };
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ranks; r++) threads.emplace_back(body, r);
  for (std::thread& thread : threads) thread.join();
  for (const std::string& message : messages) EXPECT_EQ(message, messages[0]);
  return messages[0];
}

TEST(Agreement, NamesTheFirstRankThatDiffersAndWhatDiffers) {
  testing_::TempFolder folder;
  std::string text = "some words, and some more", changed = text, file = folder.Write("a.txt", text);
  changed[20]++;
  std::string same = folder.Write("b/a.txt", text), other = folder.Write("c.txt", changed),
              longer = folder.Write("d.txt", text + "and"), accent = folder.Write("e.txt", text + "é");
  Words base{"data.train=" + file};
  struct {
    Words odd;  // added to rank 1's words
    std::string text;
  } cases[] = {
      {{"train.seed=2"}, "rank 1 (host h1) has another config: train.seed is 2 there and 1 on rank 0"},
      {{"optimizer.lr=2e-3", "dist.timeout_s=9"}, "another config: optimizer.lr is 0.002 there and 0.001 on rank 0"},
      {{"model.preset=gpt2_124m"}, "another config: model.preset is gpt2_124m there and unset on rank 0"},
      {{"data.train=" + other}, "other training tokens (25 tokens against 25): the data of data.train"},
      {{"data.train=" + longer}, "other training tokens (28 tokens against 25)"},
      {{"data.train=[{path: " + file + "}]"}, "other sources in data.train: their sizes or weights"},
      {{"data.val=" + file}, "other validation tokens (25 tokens against 0): the data of data.val"},
      {{"data.tokenizer=chars"}, "another vocabulary (11 kinds of token against 256)"},
      {{"data.train=" + same}, ""},
      {{"threads=7", "log.every=3", "log.jsonl=x.jsonl", "log.tensorboard=x"}, ""},
  };
  for (const auto& [odd, expected] : cases) {
    Words words = base;
    words.insert(words.end(), odd.begin(), odd.end());
    std::string message = MessageOf({base, words, base});
    EXPECT_EQ(message.empty(), expected.empty()) << message;
    EXPECT_NE(message.find(expected), message.npos) << "expected " << expected << "\ngot      " << message;
  }
  auto mixed = [&](int weight) {
    return Words{fmt::format("data.train=[{{path: {0}}}, {{path: {0}, weight: {1}}}]", file, weight)};
  };
  EXPECT_NE(MessageOf({mixed(2), mixed(3)}).find("rank 1 (host h1) has other sources in data.train"),
            std::string::npos);
  EXPECT_EQ(MessageOf({mixed(2), mixed(2)}), "");
  Words chars{"data.train=" + file, "data.tokenizer=chars"}, odd{"data.train=" + accent, "data.tokenizer=chars"};
  EXPECT_NE(
      MessageOf({chars, chars, odd}).find("rank 2 (host h2) has another vocabulary (12 kinds of token against 11"),
      std::string::npos);
}

// Every key that is not a rank's own affair is compared: a changed value of each of these is found.
TEST(Agreement, ComparesEveryKeyThatIsNotMarked) {
  std::string synthetic = "data.synthetic=true";
  int compared = 0;
  for (const Field& field : Schema()) {
    Config probe;
    Words family;  // one that has the key
    for (const char* name : {"gpt2", "bert", "mistral", "gemma2", "marian"}) {
      family = {std::string("model.family=") + name};
      probe.model.family = name;
      if (!field.absent || !field.absent(probe)) break;
    }
    if (!std::holds_alternative<int64_t*>(field.ref(probe)) || field.not_built) continue;
    std::string key = field.key;
    std::string value = key == "model.heads" || key == "model.kv_heads" ? "2" : key == "model.dim" ? "6" : "1";
    Words base{synthetic,           "model.heads=4",    "model.dim=8",
               "train.steps=9",     "model.vocab=300",  "train.micro_batch=3",
               "checkpoint.keep=3", "mesh.dp=2",        "checkpoint.dir=c",
               "mesh.tp=2",         "mesh.replicate=2", "train.seed=4",
               "log.every=2",       "threads=2"};
    base.insert(base.end(), family.begin(), family.end());
    if (key == "model.head_dim") value = "6";
    if (key == "model.dim") base.push_back("model.heads=2");
    if (key == "model.vocab") value = "299";
    if (key == "model.layers" || key == "model.ffn") value = "3";
    Words odd = base;
    odd.push_back(key + "=" + value);
    std::string message = MessageOf({base, odd});
    EXPECT_EQ(message.find(key + " is") == message.npos, field.per_rank) << key << ": " << message;
    compared++;
  }
  EXPECT_GE(compared, 15);
}

}  // namespace
}  // namespace weft
