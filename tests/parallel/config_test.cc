// The config reader: good configs round-trip, bad ones are refused with their place and what was meant.
#include "parallel/train/config.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <set>

#include "fmt/format.h"
#include "parallel/nn/family.h"
#include "parallel/train/config_schema.h"
#include "parallel/train/config_value.h"
#include "parallel/train/setup.h"
#include "parallel/train/suggest.h"

namespace weft {
namespace {

// Three lines, so that what a case appends starts on line 4.
const std::string kBase =
    "model: {family: gpt2, layers: 2, heads: 4, dim: 64, context: 32}\n"
    "data: {train: README.md}\n"
    "train: {steps: 10, global_batch: 4}\n";

using Words = std::vector<std::string>;

Config Good(const std::string& yaml = kBase, const Words& overrides = {}) {
  absl::StatusOr<Config> config = ParseConfig(yaml, "a.yaml", overrides);
  EXPECT_TRUE(config.ok()) << std::string(config.status().message());
  return config.ok() ? *config : Config();
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

struct BadCase {
  const char* kind;
  std::string yaml;
  Words overrides;
  std::string place;  // what a line of the error starts with
  std::string text;   // what that line also says
};

// clang-format off
std::vector<BadCase> BadFiles() {
  const std::string b = kBase;
  return {
      {"misspelt key", b + "optimizer: {lrr: 1}\n", {}, "a.yaml:4:13: optimizer.lrr", "did you mean optimizer.lr?"},
      {"misspelt key", b + "mesh: {pd: 2}\n", {}, "a.yaml:4:8: mesh.pd", "did you mean mesh.dp?"},
      {"misspelt key", b + "schedule:\n  nmae: cosine\n", {}, "a.yaml:5:3: schedule.nmae", "schedule.name?"},
      {"misspelt key", b + "schedule: {warmup: 3}\n", {}, "a.yaml:4:12: schedule.warmup", "schedule.warmup_steps?"},
      {"misspelt key", b + "log: {JSONL: x}\n", {}, "a.yaml:4:7: log.JSONL", "did you mean log.jsonl?"},
      {"misspelt key", b + "exeuctor: eager\n", {}, "a.yaml:4:1: exeuctor", "did you mean executor?"},
      {"misspelt section", b + "optimiser: {lr: 1}\n", {}, "a.yaml:4:1: optimiser", "did you mean optimizer?"},
      {"misspelt section", b + "paralel: {fsdp: none}\n", {}, "a.yaml:4:1: paralel", "did you mean parallel?"},
      {"key of another section", b + "lr: 1\n", {}, "a.yaml:4:1: lr", "did you mean optimizer.lr?"},
      {"key of another section", b + "schedule: {lr: 1}\n", {}, "a.yaml:4:12: schedule.lr", "optimizer.lr?"},
      {"key of another section", b + "optimizer: {clip: 1}\n", {}, "a.yaml:4:13: optimizer.clip", "train.clip?"},
      {"unknown key", b + "mesh: {pipeline_stages: 2}\n", {}, "a.yaml:4:8: mesh.pipeline_stages", "mesh.dp, mesh.tp"},
      {"unknown key", b + "x_y_z_w: 1\n", {}, "a.yaml:4:1: x_y_z_w", "the keys here are model, data, mesh"},
      {"unknown key", b + "<<: {a: 1}\n", {}, "a.yaml:4:1: <<", "unknown key"},

      {"misspelt key", b + "kernels: {determinstic: false}\n", {}, "a.yaml:4:11: kernels.determinstic",
       "did you mean kernels.deterministic?"},
      {"wrong bool", b + "kernels: {tf32: 1}\n", {}, "a.yaml:4:17: kernels.tf32", "expected true or false, got \"1\""},
      {"section is a value", b, {"kernels=default"}, "command line: kernels",
       "expected a mapping of keys (kernels.deterministic, kernels.tf32, kernels.attention)"},
      {"not a choice", b + "kernels: {attention: math}\n", {}, "a.yaml:4:22: kernels.attention",
       "one of auto, cudnn, flash, plain, got \"math\""},

      {"duplicate key", b + "train: {seed: 2}\n", {}, "a.yaml:4:1: train", "given twice, first on line 3"},
      {"duplicate key", b + "mesh: {dp: 1, dp: 2}\n", {}, "a.yaml:4:15: mesh.dp", "given twice, first on line 4"},
      {"duplicate key", b + "log:\n  every: 1\n  every: 1\n", {}, "a.yaml:6:3: log.every", "first on line 5"},

      {"wrong type", b + "mesh: {dp: two}\n", {}, "a.yaml:4:12: mesh.dp", "an integer >= 1 and <= 65536 or -1, got \"two\""},
      {"wrong type", b + "mesh: {dp: 1.5}\n", {}, "a.yaml:4:12: mesh.dp", "got \"1.5\""},
      {"wrong type", b + "log: {every: 1e3}\n", {}, "a.yaml:4:14: log.every", "got \"1e3\"; write 1000"},
      {"wrong type", b + "log: {every: 0x10}\n", {}, "a.yaml:4:14: log.every", "expected an integer"},
      {"wrong type", b + "log: {every: 010}\n", {}, "a.yaml:4:14: log.every", "expected an integer"},
      {"wrong type", b + "log: {every: 1_000}\n", {}, "a.yaml:4:14: log.every", "expected an integer"},
      {"wrong type", b + "log: {every: \"4\"}\n", {}, "a.yaml:4:14: log.every", "got the string \"4\""},
      {"wrong type", b + "log: {every: [1]}\n", {}, "a.yaml:4:14: log.every", "got a list"},
      {"wrong type", b + "log: {every: {a: 1}}\n", {}, "a.yaml:4:14: log.every", "got a mapping"},
      {"wrong type", b + "optimizer: {lr: fast}\n", {}, "a.yaml:4:17: optimizer.lr", "a number > 0, got \"fast\""},
      {"wrong type", b + "optimizer: {lr: 1e-3#x}\n", {}, "a.yaml:4:17: optimizer.lr", "got \"1e-3#x\""},
      {"wrong bool", b + "parallel: {sequence_parallel: yes}\n", {}, "a.yaml:4:31: parallel.sequence_parallel",
       "expected true or false, got \"yes\""},
      {"wrong bool", b + "parallel: {sequence_parallel: 1}\n", {}, "a.yaml:4:31: ", "expected true or false"},
      {"wrong bool", b + "parallel: {sequence_parallel: True}\n", {}, "a.yaml:4:31: ", "expected true or false"},
      {"no value", b + "log:\n  every:\n", {}, "a.yaml:5:3: log.every", "got nothing"},
      {"no value", b + "device: ~\n", {}, "a.yaml:4:1: device", "got nothing"},
      {"no value", b + "log:\n", {}, "a.yaml:4:1: log", "expected a mapping of keys (log.jsonl, log.tensorboard, log.every, log.ops)"},
      {"section is a value", b + "mesh: 4\n", {}, "a.yaml:4:1: mesh", "expected a mapping of keys (mesh.dp, mesh.tp)"},
      {"section is a value", b + "mesh: [2, 2]\n", {}, "a.yaml:4:1: mesh", "expected a mapping"},

      {"out of range", b + "mesh: {tp: 0}\n", {}, "a.yaml:4:12: mesh.tp", "an integer >= 1 and <= 65536 or -1, got \"0\""},
      {"out of range", b + "mesh: {tp: -2}\n", {}, "a.yaml:4:12: mesh.tp", "got \"-2\""},
      {"out of range", b + "optimizer: {lr: 0}\n", {}, "a.yaml:4:17: optimizer.lr", "a number > 0"},
      {"out of range", b + "optimizer: {lr: 1e999}\n", {}, "a.yaml:4:17: optimizer.lr", "expected a number"},
      {"out of range", b + "optimizer: {lr: .inf}\n", {}, "a.yaml:4:17: optimizer.lr", "expected a number"},
      {"out of range", b + "optimizer: {lr: nan}\n", {}, "a.yaml:4:17: optimizer.lr", "expected a number"},
      {"out of range", b + "threads: 99999999999999999999\n", {}, "a.yaml:4:10: threads", "an integer >= 1 and <= 4096 or auto"},
      {"out of range", b + "dist: {timeout_s: -1}\n", {}, "a.yaml:4:19: dist.timeout_s", "a number > 0"},
      {"out of range", b, {"train.label_smoothing=1"}, "command line: train.label_smoothing", "a number >= 0 and < 1"},
      {"out of range", b, {"train.label_smoothing=-0.1"}, "command line: train.label_smoothing", "a number >= 0"},
      {"out of range", "model: {preset: gpt2_124m, dropout: 1}\n", {}, "a.yaml:1:37: model.dropout", ">= 0 and < 1"},
      {"out of range", b, {"loss_scale.initial=0"}, "command line: loss_scale.initial", "a number >= 1e-18"},
      {"out of range", b, {"loss_scale.growth_factor=1"}, "command line: loss_scale.growth_factor", "a number > 1"},
      {"out of range", b, {"loss_scale.backoff_factor=1"}, "command line: loss_scale.backoff_factor", "> 0 and < 1"},
      {"out of range", b, {"loss_scale.growth_interval=0"}, "command line: loss_scale.growth_interval", ">= 1"},
      {"wrong list", b + "optimizer: {betas: 0.9}\n", {}, "a.yaml:4:20: optimizer.betas", "two numbers >= 0 and < 1"},
      {"wrong list", b + "optimizer: {betas: [0.9]}\n", {}, "a.yaml:4:20: optimizer.betas", "got a list of 1"},
      {"wrong list", b + "optimizer: {betas: [0.9, 1]}\n", {}, "a.yaml:4:26: optimizer.betas", "got \"1\""},
      {"wrong list", "data: {train: []}\n", {}, "a.yaml:1:15: data.train", "got a list that is empty"},
      {"wrong list", "data: {train: [a, [b]]}\n", {}, "a.yaml:1:19: data.train", "a list of paths, got a list"},
      {"wrong fraction", "data: {train: a, val: 1.5}\n", {}, "a.yaml:1:23: data.val",
       "a path, a list of paths, or a number >= 0 and < 1"},
      {"wrong fraction", "data: {train: a, val: [a, [b]]}\n", {}, "a.yaml:1:27: data.val", "got a list"},

      {"not a choice", b + "executor: eagre\n", {}, "a.yaml:4:11: executor", "did you mean \"eager\"?"},
      {"not a choice", b + "schedule: {name: cosin}\n", {}, "a.yaml:4:18: schedule.name", "did you mean \"cosine\"?"},
      {"not a choice", "model: {preset: gpt2_125m}\n", {}, "a.yaml:1:17: model.preset", "did you mean \"gpt2_124m\"?"},
      {"not a choice", "model: {family: bert}\n", {}, "a.yaml:1:17: model.family", "got \"bert\""},
      {"not a choice", "data: {train: a, tokenizer: byte}\n", {}, "a.yaml:1:29: data.tokenizer", "\"bytes\"?"},
      {"not a choice", b + "precision: {compute: fp32}\n", {}, "a.yaml:4:22: precision.compute",
       "did you mean \"f32\"?"},
      {"not a choice", b + "train2: {}\n", {}, "a.yaml:4:1: train2", "did you mean train?"},

      {"open quote", b + "device: 'cpu\n", {}, "a.yaml:4:9: ", "the quote is not closed"},
      {"open quote", b + "device: \"cpu\nlog: {every: 1}\n", {}, "a.yaml:4:9: ", "the quote is not closed"},
      {"open quote", b + "device: 'cpu\nexecutor: 'eager'\n", {}, "a.yaml:4:9: ", "the quote is not closed"},
      {"open quote", b + "'device: cpu\n", {}, "a.yaml:4:1: ", "the quote is not closed"},
      {"open quote", b + "log: {jsonl: \"a\\\"}\n", {}, "a.yaml:4:14: ", "the quote is not closed"},
      {"not YAML", b + "mesh: {dp: 2\n", {}, "a.yaml:5:1: ", "not a valid config"},
      {"not YAML", b + "mesh: {dp: 2}}\n", {}, "a.yaml:4:14: ", "not a valid config"},
      {"not YAML", b + "mesh: dp: 2\n", {}, "a.yaml:4:9: ", "not a valid config"},
      {"not YAML", b + "\tdevice: cpu\n", {}, "a.yaml:4:", "not a valid config"},
      {"not YAML", b + "- mesh\n", {}, "a.yaml:4:1: ", "not a valid config"},
      {"two documents", b + "---\ndevice: cpu\n", {}, "a.yaml:4:1: ", "expected one YAML document"},
      {"a tag", b + "log: {every: !!int \"3\"}\n", {}, "a.yaml:4:14: ", "no tags"},
      {"an alias", b + "log: &a {every: 1}\ndist: *a\n", {}, "a.yaml:5:7: ", "got an alias"},
      {"two documents", ",odel: 1\n", {}, "a.yaml:1:", "expected"},
      {"a key that is no word", b + "? [a]\n: 1\n", {}, "a.yaml:4:3: ", "expected a key"},
      {"empty file", "", {}, "a.yaml:1:1: ", "expected a mapping of keys, got nothing"},
      {"empty file", "# only words\n", {}, "a.yaml:1:1: ", "got nothing"},
      {"not a mapping", "train\n", {}, "a.yaml:1:1: ", "expected a mapping of keys"},
      {"not UTF-8", b + "device: \xff\n", {}, "a.yaml:4:9: ", "expected UTF-8"},
  };
}

std::vector<BadCase> BadMeanings() {
  const std::string b = kBase;
  std::string families;
  for (const ModelFamily* family : ModelFamilies()) families += (families.empty() ? "" : ", ") + std::string(family->name);
  const std::string no_model = "data: {train: a}\ntrain: {steps: 1, global_batch: 1}\n";
  return {
      {"missing key", no_model, {}, "a.yaml:1:1: model.family", "is required; add it (" + families + "), or model.preset"},
      {"missing key", "model: {family: gpt2, heads: 1, dim: 4, context: 4}\n" + no_model, {},
       "a.yaml:1:1: model.layers",
       "is required"},
      {"missing key", "\nmodel: {family: gpt2, layers: 1, heads: 1, dim: 4}\n" + no_model, {},
       "a.yaml:2:1: model.context", "is required"},
      {"missing key", "model: {preset: gpt2_124m}\ndata: {train: a}\n", {}, "a.yaml:1:1: train.steps", "is required"},
      {"missing key", "model: {preset: gpt2_124m}\ndata: {train: a}\ntrain: {steps: 1}\n", {},
       "a.yaml:3:1: train.global_batch", "is required"},
      {"missing key", "model: {preset: gpt2_124m}\ntrain: {steps: 1, global_batch: 1}\n", {},
       "a.yaml:1:1: data.train", "give a text file, token shards or a folder, or data.synthetic: true"},

      {"keys disagree", b, {"model.heads=3"}, "a.yaml:1:44: model.dim", "a multiple of model.heads = 3, got 64"},
      {"keys disagree", b, {"model.kv_heads=3"}, "command line: model.kv_heads", "a divisor of model.heads = 4, got 3"},
      {"keys disagree", b, {"model.family=llama", "model.dim=4"}, "command line: model.dim",
       "even head width, got 4 / 4"},
      {"keys disagree", b + "schedule: {warmup_steps: 11}\n", {}, "a.yaml:4:12: schedule.warmup_steps",
       "train.steps = 10"},
      {"keys disagree", b + "schedule: {min_lr: 1}\n", {}, "a.yaml:4:12: schedule.min_lr", "optimizer.lr = 0.001"},
      {"keys disagree", b, {"mesh.dp=-1", "mesh.tp=-1"}, "command line: mesh.tp", "one axis of -1"},
      {"keys disagree", b, {"data.synthetic=true", "data.tokenizer=chars"}, "command line: data.tokenizer",
       "model.vocab"},

      {"keys disagree", b + "precision: {params: f16}\n", {}, "a.yaml:4:13: precision.params", "use f32 or bf16"},
      {"keys disagree", b, {"precision.reduce=f16"}, "command line: precision.reduce", "compute = f16 has, got f32"},
      {"keys disagree", b, {"precision.compute=f16", "loss_scale.min=2e5"}, "command line: loss_scale.min",
       "expected at most loss_scale.initial = 65536, got 200000"},

      {"overwrites", b + "log: {jsonl: runs/x.yaml}\n", {}, "a.yaml:4:7: log.jsonl",
       "got runs/x.yaml, which is a config's name; use runs/x.jsonl"},
      {"overwrites", b, {"log.jsonl=x.YML"}, "command line: log.jsonl", "use x.jsonl"},
      {"overwrites", b, {"log.jsonl=./README.md"}, "command line: log.jsonl", "./README.md, which data.train names"},
      {"overwrites", b, {"log.jsonl=d/a.txt", "data.train=[x, d/*.txt]"}, "command line: log.jsonl", "data.train"},
      {"overwrites", b, {"log.jsonl=v/../v.txt", "data.val=v.txt"}, "command line: log.jsonl", "data.val"},
      {"keys disagree", b, {"model.family=neox", "model.init=m"}, "command line: model.init",
       "no table of Hugging Face's names for family neox"},
      {"overwrites", b, {"log.jsonl=w.st", "model.init=w.st"}, "command line: log.jsonl", "w.st, which model.init names"},
      {"no folder", b, {"log.tensorboard=/dev/null"}, "command line: log.tensorboard", "expected a folder, got /dev/null"},
      {"overwrites", b, {"log.jsonl=./a.yaml"}, "command line: log.jsonl", "would overwrite the config a.yaml"},

      {"not built", b, {"numerics=invariant"}, "command line: numerics", "invariant is not built yet; use default"},
      {"keys disagree", b + "checkpoint: {every: 5}\n", {}, "a.yaml:4:14: checkpoint.every",
       "needs checkpoint.dir, got none; add checkpoint.dir=checkpoints"},
      {"keys disagree", b, {"checkpoint.resume=auto"}, "command line: checkpoint.resume",
       "auto needs checkpoint.dir, got none; add checkpoint.dir=checkpoints"},
      {"overwrites", b, {"log.jsonl=t.chars", "data.tokenizer=chars:t.chars"}, "command line: log.jsonl",
       "would overwrite t.chars, which data.tokenizer names"},
      {"not a choice", b, {"data.tokenizer=sentencepiece"}, "command line: data.tokenizer",
       "expected one of bytes, chars, chars:PATH, sentencepiece:PATH, got \"sentencepiece\""},

      {"override: no value", b, {"train.steps"}, "command line: train.steps", "expected key=value"},
      {"override: no value", b, {"train.steps="}, "command line: train.steps", "got nothing"},
      {"override: no value", b, {"=3"}, "command line: =3", "expected key=value"},
      {"override: unknown", b, {"train.stesp=3"}, "command line: train.stesp", "did you mean train.steps?"},
      {"override: unknown", b, {"steps=3"}, "command line: steps", "did you mean train.steps?"},
      {"override: unknown", b, {"mehs.dp=2"}, "command line: mehs.dp", "did you mean mesh.dp?"},
      {"override: unknown", b, {"mesh.dp.x=2"}, "command line: mesh.dp.x", "did you mean mesh.dp?"},
      {"override: unknown", b, {"--train.steps=3"}, "command line: --train.steps", "did you mean train.steps?"},
      {"override: wrong", b, {"train.steps=many"}, "command line: train.steps", "an integer >= 1 and <= 1000000000, got \"many\""},
      {"override: wrong", b, {"mesh=2"}, "command line: mesh", "expected a mapping of keys"},
      {"override: wrong", b, {"mesh={dp: x}"}, "command line: mesh.dp", "got \"x\""},
      {"override: wrong", b, {"optimizer.betas=[0.9, x]"}, "command line: optimizer.betas", "got \"x\""},
      {"override: wrong", b, {"optimizer.betas=[0.9"}, "command line: optimizer.betas:1:", "not a valid config"},
      {"override: wrong", b, {"log.jsonl='a"}, "command line: log.jsonl:1:1: ", "the quote is not closed"},
  };
}
// clang-format on

// True when one line of the error starts with the place and holds the text.
bool Says(const std::string& message, const BadCase& bad) {
  for (size_t begin = 0; begin <= message.size();) {
    size_t end = std::min(message.find('\n', begin), message.size());
    std::string line = message.substr(begin, end - begin);
    if (line.starts_with(bad.place) && line.find(bad.text) != line.npos) return true;
    begin = end + 1;
  }
  return false;
}

TEST(Config, RefusesBadOnesWithPlaceAndAdvice) {
  std::vector<BadCase> cases = BadFiles();
  for (const BadCase& bad : BadMeanings()) cases.push_back(bad);
  std::set<std::string> kinds;
  for (const BadCase& bad : cases) {
    kinds.insert(bad.kind);
    absl::StatusOr<Config> config = ParseConfig(bad.yaml, "a.yaml", bad.overrides);
    ASSERT_FALSE(config.ok()) << bad.kind << ":\n" << bad.yaml << ToYaml(*config);
    EXPECT_TRUE(Says(Message(config.status()), bad))
        << bad.kind << ":\n"
        << bad.yaml << "expected " << bad.place << " ... " << bad.text << "\ngot      " << Message(config.status());
  }
  EXPECT_GE(cases.size(), 60u);
  EXPECT_GE(kinds.size(), 20u);
  fmt::print("{} bad configs of {} kinds\n", cases.size(), kinds.size());
}

TEST(Config, ReportsEveryFaultAtOnce) {
  absl::StatusOr<Config> config = ParseConfig(kBase + "mesh: {pd: 2}\ndevice: gpu\n", "a.yaml", {"train.stesp=3"});
  ASSERT_FALSE(config.ok());
  std::string message = Message(config.status());
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 2) << message;
}

// Every integer key, and what only products of keys reach: refused by name, at once, before any of it is built.
TEST(Config, RefusesAbsurdSizes) {
  std::vector<std::pair<std::string, Words>> cases = {
      {"model.dim: expected at most 1e+17 parameters, got", {"model.layers=10000", "model.dim=1048576"}},
      {"model.dim: expected at most 1e+17 parameters, got",
       {"model.ffn=16777216", "model.dim=1048576", "model.layers=9000", "model.family=llama"}},
      {"train.global_batch: expected tensors of at most 1e+17",
       {"train.global_batch=1000000000", "model.context=1000000"}},
      {"train.global_batch: expected tensors of at most 1e+17", {"model.context=1000000000"}},
      {"train.global_batch: expected tensors of at most 1e+17",
       {"model.vocab=2147483647", "train.global_batch=100000000"}},
      {"mesh: expected at most 65536 ranks, got dp=65536 x tp=2", {"mesh.dp=65536", "mesh.tp=2"}},
      {"dist.timeout_s: expected", {"dist.timeout_s=1e300"}}};
  int keys = 0;
  for (const Field& field : Schema()) {
    Config probe;
    if (!std::holds_alternative<int64_t*>(field.ref(probe))) continue;
    keys++;
    bool seed = field.key == std::string("train.seed");  // any 63 bits are one
    EXPECT_TRUE(seed || field.bounds.high <= 2147483647) << field.key;
    for (const char* value : {"-9223372036854775808", "-2", "9223372036854775807", "99999999999999999999", "1e300"}) {
      if (seed && value == std::string("9223372036854775807")) continue;
      cases.push_back({std::string(field.key) + ": expected", {std::string(field.key) + "=" + value}});
    }
  }
  EXPECT_GE(keys, 20);
  for (const auto& [text, overrides] : cases) {
    auto begin = std::chrono::steady_clock::now();
    absl::Status status = ParseConfig(kBase, "a.yaml", overrides).status();
    EXPECT_NE(Message(status).find(text), std::string::npos) << "expected " << text << "\ngot      " << status;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2)) << text;
  }
}

// What the largest published runs use is far inside the limits.
TEST(Config, TakesLargeModels) {
  Good(kBase, {"model.family=llama", "model.layers=126", "model.heads=128", "model.kv_heads=8", "model.dim=16384",
               "model.ffn=53248", "model.vocab=128256", "model.context=131072", "train.global_batch=2048",
               "train.steps=1000000", "mesh.dp=2048", "mesh.tp=8"});
}

// Whatever a slip of the finger makes of a file, the answer is a config or a message with a place, never a crash.
TEST(Config, AnyDamagedByteIsAnswered) {
  std::string good = kBase + "optimizer:\n  betas: [0.9, \"0.95\"]\n  lr: 1e-3 # it's\nlog: {jsonl: 'a b'}\n";
  std::string damage("'\"[]{}:#-,?&*!|>%@`\\ \n\t\r0a\xff\x00", 28);
  for (size_t at = 0; at < good.size(); at++) {
    for (char ch : damage) {
      std::string bad = good;
      bad[at] = ch;
      absl::StatusOr<Config> config = ParseConfig(bad, "a.yaml", {});
      EXPECT_TRUE(config.ok() || Message(config.status()).starts_with("a.yaml:")) << bad << Message(config.status());
    }
    ParseConfig(good.substr(0, at), "a.yaml", {}).IgnoreError();
  }
}

TEST(Config, MissingFilesAndFoldersAreNamed) {
  EXPECT_NE(Message(LoadConfig("no/such.yaml", {}).status()).find("no/such.yaml: no such file"), std::string::npos);
  EXPECT_NE(Message(LoadConfig("/", {}).status()).find("/: cannot be read as a file"), std::string::npos);
}

TEST(Config, DefaultsFollowTheContract) {
  Config c = Good();
  EXPECT_EQ(c.model.kv_heads, 4);
  EXPECT_EQ(c.model.ffn, 256);
  EXPECT_EQ(c.model.vocab, 0);
  EXPECT_TRUE(c.model.tie_embeddings);
  EXPECT_EQ(c.mesh.dp, 1);
  EXPECT_EQ(c.train.eval_batches, TrainConfig::kAllBatches);
  EXPECT_EQ(c.checkpoint.every, 0);
  EXPECT_EQ(c.checkpoint.resume, "never");
  EXPECT_EQ(c.dist.timeout_s, 300);
  EXPECT_EQ(c.optimizer.betas[1], 0.95);
  EXPECT_TRUE(c.data.val.empty());
  EXPECT_EQ(Good(kBase, {"precision.compute=f64"}).precision.reduce, DType::kF64);
  EXPECT_EQ(Good(kBase, {"precision.compute=bf16"}).precision.params, DType::kF32);
  Config llama = Good(kBase, {"model.family=llama"});
  EXPECT_EQ(llama.model.ffn, 192);
  EXPECT_FALSE(llama.model.tie_embeddings);
}

TEST(Config, NumericsReachTheContext) {
  Numerics usual = NumericsOf(Good());
  EXPECT_TRUE(usual.deterministic);
  EXPECT_FALSE(usual.tf32);
  EXPECT_EQ(usual.attention, "");
  std::string section = "kernels: {deterministic: false, tf32: true, attention: flash}\n";
  Numerics fast = NumericsOf(Good(kBase + section));
  EXPECT_FALSE(fast.deterministic);
  EXPECT_TRUE(fast.tf32);
  EXPECT_EQ(fast.attention, "flash");
  EXPECT_EQ(NumericsOf(Good(kBase + section, {"kernels.attention=auto"})).attention, "");
}

TEST(Config, OverridesBeatTheFileAndTheLastWins) {
  Config c = Good(kBase + "mesh: {dp: 2}\n",
                  {"mesh.dp=3", "mesh={tp: 2}", "mesh.dp=4", "data.train=[a b.txt, 'c:d']", "data.val=0.1",
                   "log.jsonl=run: 1.jsonl", "train.eval_batches=all", "threads=auto", "optimizer.betas=[0.8, 0.9]"});
  EXPECT_EQ(c.mesh.dp, 4);
  EXPECT_EQ(c.mesh.tp, 2);
  EXPECT_EQ(c.data.train, (Words{"a b.txt", "c:d"}));
  EXPECT_EQ(c.data.val.fraction, 0.1);
  EXPECT_EQ(c.log.jsonl, "run: 1.jsonl");
  EXPECT_EQ(c.optimizer.betas[0], 0.8);
  EXPECT_EQ(Good(kBase, {"data.val='0.1'"}).data.val.paths, Words{"0.1"});
  EXPECT_EQ(Good(kBase, {"data.val=[a, '0.1']"}).data.val.paths, (Words{"a", "0.1"}));
  EXPECT_EQ(Good(kBase, {"data.val=3.txt"}).data.val, (ValSource{{"3.txt"}, 0}));
  EXPECT_EQ(Good(kBase, {"data.val=a", "data.val=0.2"}).data.val, (ValSource{{}, 0.2}));
  EXPECT_EQ(Good(kBase + "# it's fine\nlog: {jsonl: it's}\n").log.jsonl, "it's");
  EXPECT_EQ(Good("\xEF\xBB\xBF" + kBase).train.steps, 10);
}

TEST(Config, PresetsGiveSizesThatKeysOverride) {
  std::string rest = "\ndata: {train: a}\ntrain: {steps: 1, global_batch: 1}\n";
  Config gpt2 = Good("model: {preset: gpt2_124m}" + rest);
  EXPECT_EQ(gpt2.model.dim, 768);
  EXPECT_EQ(gpt2.model.vocab, 50257);
  Config llama = Good("model: {preset: llama3_8b, layers: 2}" + rest);
  EXPECT_EQ(llama.model.layers, 2);
  EXPECT_EQ(llama.model.kv_heads, 8);
  EXPECT_EQ(llama.model.ffn, 14336);
  Config narrow = Good("model: {preset: gpt2_124m, dim: 96}" + rest);
  EXPECT_EQ(narrow.model.ffn, 384);
}

TEST(Config, EveryPresetOfTheSchemaExists) {
  for (const std::string& name : FindField("model.preset")->choices) {
    Config c = Good("model: {preset: " + name + "}\ndata: {train: a}\ntrain: {steps: 1, global_batch: 1}\n");
    EXPECT_GT(c.model.layers, 0) << name;
  }
}

// ToYaml of any good config reads back as the same values, key by key.
TEST(Config, YamlRoundTrips) {
  std::vector<Words> sweeps = {{},
                               {"model.preset=llama3_8b", "precision.compute=bf16"},
                               {"data.val=val dir/a: b.txt", "log.jsonl=\"q\\\"\\\\.jsonl\"", "threads=3"},
                               {"data.val=0.05", "optimizer.lr=0.1234567890123456789", "train.seed=9007199254740993"},
                               {"data.train=[a, 'true', '12', 'é', \"tab\\t\"]", "mesh.dp=-1", "train.micro_batch=2"},
                               {"data.val=[a, \"0.1\"]", "schedule={name: wsd, warmup_steps: 3, min_lr: 1e-9}"}};
  for (const Words& overrides : sweeps) {
    Config first = Good(kBase, overrides);
    Config second = Good(ToYaml(first));
    for (const Field& field : Schema()) {
      EXPECT_EQ(PrintValue(field, first), PrintValue(field, second)) << field.key;
    }
    EXPECT_EQ(first.data.val, second.data.val);
    EXPECT_EQ(first.data.train, second.data.train);
    EXPECT_EQ(first.log.jsonl, second.log.jsonl);
    EXPECT_EQ(first.train.seed, second.train.seed);
    EXPECT_EQ(ToYaml(first), ToYaml(second));
  }
}

TEST(Config, ResolveFillsTheMeshAndTheMicroBatch) {
  Config c = Good(kBase, {"mesh.dp=-1", "mesh.tp=2"});
  ASSERT_TRUE(Resolve(c, 6).ok());
  EXPECT_EQ(c.mesh.dp, 3);
  EXPECT_EQ(c.train.micro_batch, 2);  // ceil(4 / 3)
  Config wide = Good(kBase, {"mesh.dp=2", "train.micro_batch=100"});
  ASSERT_TRUE(Resolve(wide, 2).ok());
  EXPECT_EQ(wide.train.micro_batch, 2);
}

TEST(Config, ResolveRefusesAWrongNumberOfRanks) {
  Config c = Good(kBase + "mesh: {dp: 2, tp: 2}\n");
  EXPECT_EQ(Message(Resolve(c, 3)),
            "a.yaml:4:1: mesh: dp=2 x tp=2 is 4 ranks, but 3 started; use mpirun -np 4 or change the mesh");
  Config fill = Good(kBase, {"mesh.dp=-1", "mesh.tp=2"});
  EXPECT_NE(Message(Resolve(fill, 3)).find("start a multiple of 2"), std::string::npos);
  Config sequence = Good(kBase + "parallel: {sequence_parallel: true}\n");
  EXPECT_NE(Message(Resolve(sequence, 1)).find("a.yaml:4:12: parallel.sequence_parallel: needs mesh.tp above 1"),
            std::string::npos);
}

// A run beside its config must not write over it: the saved copy adds to the log's name and takes nothing from it.
TEST(Config, TheMergedConfigIsSavedUnderANameOfItsOwn) {
  EXPECT_EQ(SavedConfigPath("configs/x.jsonl"), "configs/x.jsonl.config.yaml");
  std::string log = kBase + "log: {jsonl: configs/x.jsonl}\n";
  EXPECT_TRUE(ParseConfig(log, "configs/x.yaml", {}).ok());
  absl::Status again = ParseConfig(log, "configs/x.jsonl.config.yaml", {}).status();
  EXPECT_NE(Message(again).find("configs/x.jsonl.config.yaml:4:7: log.jsonl: the merged config is saved as"),
            std::string::npos);
}

TEST(Config, VocabComesFromTheTokenizerOrCoversIt) {
  Config c = Good();
  ASSERT_TRUE(ResolveVocab(c, 256).ok());
  EXPECT_EQ(c.model.vocab, 256);
  Config padded = Good(kBase, {"model.vocab=320"});
  EXPECT_TRUE(ResolveVocab(padded, 256).ok());
  EXPECT_EQ(padded.model.vocab, 320);
  Config small = Good(kBase, {"model.vocab=100"});
  EXPECT_NE(Message(ResolveVocab(small, 256)).find("command line: model.vocab: expected at least the 256"),
            std::string::npos);
}

TEST(Suggest, CountsEdits) {
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("dp", "pd"), 1);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("LR", "lr"), 0);
}

}  // namespace
}  // namespace weft
